"""States in and out: shared memory, types, devices, and an order of models that is their own."""

import pytest
import torch
from benchmarks.clock import most_in_tensors
from torch import nn

import transfuse
from transfuse import InputError
from transfuse.fusing.working import own_order, type_of, working_state
from zoo_problems import another, layout_of, states_of

LAYOUT = transfuse.parse("""
spaces: {a: 3, b: 3}
tensors: {first: [a, 2], second: [b, 2], third: [4, < a], fourth: [4, < b]}
""")


def state(**changes):
    torch.manual_seed(0)
    shapes = {"first": (3, 2), "second": (3, 2), "third": (4, 3), "fourth": (4, 3)}
    return {**{name: torch.randn(shape) for name, shape in shapes.items()}, **changes}


def test_one_tensor_under_two_names_that_move_differently_is_refused():
    tied = torch.randn(3, 2)
    with pytest.raises(InputError, match="model 2: tensors second and first are one in memory, but the layout moves"):
        transfuse.fuse_states([state(), state(first=tied, second=tied)], LAYOUT)


def test_tensors_that_overlap_without_being_the_same_are_refused():
    both = torch.randn(4, 2)
    with pytest.raises(InputError, match="model 1: tensor second overlaps first in memory"):
        transfuse.fuse_states([state(first=both[:3], second=both[1:])], LAYOUT)


def test_slices_of_one_storage_that_do_not_overlap_are_fine():
    both = torch.randn(6, 2)
    found = transfuse.fuse_states([state(first=both[:3], second=both[3:])], LAYOUT)
    torch.testing.assert_close(found.state["second"], both[3:])


def test_numbers_whose_products_are_too_large_are_refused():
    huge = state(second=1e25 * torch.randn(3, 2))
    for method in ("wb", "vanilla"):
        with pytest.raises(InputError, match=r"model 2: tensor second has a norm of .*e\+25, too large .* use float64"):
            transfuse.fuse_states([state(), huge], LAYOUT, method=method)
    double = [{name: tensor.double() for name, tensor in each.items()} for each in (state(), huge)]
    assert transfuse.fuse_states(double, LAYOUT, method="wb").history[-1].objective < torch.inf


def test_large_numbers_are_fine_in_half_precision_and_where_they_stay():
    layout = transfuse.parse("""
    spaces: {a: 3}
    tensors: {first: [a, 2], third: [4, < a], mask: [2]}
    """)
    lowest = torch.finfo(torch.float32).min
    large = {"first": 6e4 * torch.ones(3, 2).half(), "third": torch.ones(4, 3).half(), "mask": torch.full((2,), lowest)}
    found = transfuse.fuse_states([large, large], layout, method="wb").state
    assert all(torch.equal(found[name], tensor) for name, tensor in large.items())


class Tied(nn.Module):
    """An autoencoder-like network whose read-out is its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.read = nn.Linear(4, 5, bias=False)
        self.read.weight = self.embedding.weight

    def forward(self, x):
        return self.read(self.embedding(x))


def test_tied_weights_stay_tied():
    models = [Tied(), Tied()]
    fusion = transfuse.fuse(models, torch.tensor([0, 3, 4]))
    assert fusion.model.read.weight is fusion.model.embedding.weight
    assert torch.equal(fusion.states.state["read.weight"], fusion.states.state["embedding.weight"])


def test_models_that_share_memory_with_each_other_are_fused_and_left_alone():
    """A pretrained part may be shared by all models; the result owns its memory."""
    shared = state()
    before = {name: tensor.clone() for name, tensor in shared.items()}
    found = transfuse.fuse_states([shared, {**state(), "first": shared["first"]}, shared], LAYOUT)
    owned = {t.untyped_storage().data_ptr() for each in (found.state, *found.aligned) for t in each.values()}
    assert len(owned) == 4 * 4
    assert not owned & {tensor.untyped_storage().data_ptr() for tensor in shared.values()}
    assert all(torch.equal(shared[name], before[name]) for name in before)


def test_buffers_that_hold_no_numbers_are_the_first_models_and_must_agree():
    layout = transfuse.parse("{spaces: {a: 3}, tensors: {first: [a, 2], mask: [2], num_batches_tracked: []}}")
    states = [
        {"first": torch.randn(3, 2), "mask": torch.tensor([True, False]), "num_batches_tracked": torch.tensor(7 + n)}
        for n in range(2)
    ]
    found = transfuse.fuse_states(states, layout).state
    assert found["num_batches_tracked"] == 7
    assert torch.equal(found["mask"], states[0]["mask"])
    states[1]["mask"] = torch.tensor([True, True])
    with pytest.raises(InputError, match=r"model 2: tensor mask \(torch.bool\) differs"):
        transfuse.fuse_states(states, layout)


@pytest.mark.parametrize("name", ["mlp_batch_norm", "lenet", "lstm", "gpt"])
@pytest.mark.parametrize("method", ["wb", "auto", "vanilla"])
def test_without_aligned_models_the_fused_state_is_the_same(name, method):
    states = [another(name, seed).state_dict() for seed in (0, 1, 2)]
    options = {"restarts": 0} if method == "auto" else {}
    whole, alone = (
        transfuse.fuse_states(states, layout_of(name), method=method, aligned=aligned, **options)
        for aligned in (True, False)
    )
    torch.testing.assert_close(alone.state, whole.state, rtol=0, atol=0)
    assert len(whole.aligned) == 3
    assert alone.aligned == ()
    given = {tensor.untyped_storage().data_ptr() for state in states for tensor in state.values() if tensor.numel()}
    assert not given & {tensor.untyped_storage().data_ptr() for tensor in alone.state.values() if tensor.numel()}


def test_complex_tensors_are_averaged_where_they_stay_and_refused_where_they_move():
    still = transfuse.parse("{spaces: {a: 3}, tensors: {first: [a, 2], phase: [2]}}")
    moving = transfuse.parse("{spaces: {a: 3}, tensors: {first: [a, 2], phase: [2, a]}}")
    states = [{"first": torch.randn(3, 2), "phase": torch.full((2,), n * 1j)} for n in range(2)]
    torch.testing.assert_close(transfuse.fuse_states(states, still).state["phase"], torch.full((2,), 0.5j))
    with pytest.raises(InputError, match="tensor phase is complex and has units that move"):
        transfuse.fuse_states([{"first": torch.randn(3, 2), "phase": torch.ones(2, 3) * 1j}], moving)


@pytest.mark.parametrize("method", ["auto", "wb", "c2m3", "fedma"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_result_has_the_type_of_the_inputs_and_is_computed_in_a_safe_one(method, dtype):
    layout, double = layout_of("mlp"), states_of("mlp", 2)
    states = [{name: tensor.to(dtype) for name, tensor in each.items()} for each in double]
    found = transfuse.fuse_states(states, layout, method=method)
    reference = transfuse.fuse_states(
        [{n: t.double() for n, t in each.items()} for each in states], layout, method=method
    )
    for name, tensor in found.state.items():
        assert tensor.dtype == dtype
        precise = 4 * torch.finfo(dtype).eps if dtype != torch.float64 else 1e-12
        torch.testing.assert_close(tensor.double(), reference.state[name], rtol=precise, atol=max(precise, 1e-6))


def test_models_of_different_types_meet_in_the_wider_one():
    layout, (one, other) = layout_of("mlp"), states_of("mlp", 2)
    half = {name: tensor.half() for name, tensor in one.items()}
    found = transfuse.fuse_states([half, other], layout)
    assert {tensor.dtype for tensor in found.state.values()} == {torch.float16}
    assert [next(iter(each.values())).dtype for each in found.aligned] == [torch.float16, torch.float64]
    assert working_state(half, type_of([half])).keys() == half.keys()


@pytest.mark.parametrize("method", ["auto", "wb", "gwb", "ot", "rebasin", "c2m3", "fedma", "vanilla"])
@pytest.mark.parametrize("name", ["mlp_tanh", "lstm"])
def test_no_tensor_is_made_on_the_default_device(name, method):
    """All follow the inputs: with another default device, on which nothing can be computed, the result is the same."""
    layout, states = layout_of(name), states_of(name, 3)
    options = {"epsilon": 0.1, "updates": 1} if method == "gwb" else {}
    expected = transfuse.fuse_states(states, layout, method=method, **options)
    with torch.device("meta"):
        found = transfuse.fuse_states(states, layout, method=method, **options)
    for key, tensor in expected.state.items():
        assert found.state[key].device.type == "cpu"
        assert torch.equal(found.state[key], tensor)


@pytest.mark.parametrize("width", [4, 6, 18])
def test_no_tensor_is_made_on_the_default_device_for_other_widths(width):
    layout, states = layout_of("mlp"), states_of("mlp", 2)
    widths = {space.name: width for space in layout.spaces}
    for method in ("auto", "wb", "ot"):
        options = {} if method == "auto" else {"start": "distilled"}
        with torch.device("meta"):
            found = transfuse.fuse_states(states, layout, method=method, widths=widths, **options)
        assert all(tensor.device.type == "cpu" for tensor in found.state.values())


def test_the_order_of_models_is_their_own():
    states = list(states_of("mlp", 4))
    order = own_order(states, [0.25] * 4)
    turned = own_order(states[::-1], [0.25] * 4)
    assert [states[i] for i in order] == [states[::-1][i] for i in turned]


# --- Memory -------------------------------------------------------------------------------------------------------


def convolutional():
    layers = [nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 96, 3), nn.ReLU(), nn.Conv2d(96, 96, 3), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(384, 10))


def dense():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10))


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize(
    ("method", "options"), [("wb", {}), ("rebasin", {"sweeps": 2}), ("auto", {"sweeps": 2, "restarts": 0})]
)
@pytest.mark.parametrize("build", [convolutional, dense])
def test_a_fusion_holds_little_more_than_models_and_results(build, method, options, count):
    example = torch.randn(1, 64) if build is dense else torch.randn(1, 3, 8, 8)
    layout = transfuse.trace(build(), example, proof=False)
    states = [build().state_dict() for _ in range(count)]
    sizes = [tensor.numel() * tensor.element_size() for tensor in states[0].values()]
    transfuse.fuse_states(states, layout, method=method, **options)  # what is imported and kept is not counted
    held = most_in_tensors(lambda: transfuse.fuse_states(states, layout, method=method, **options))
    inputs, output = count * sum(sizes), (count + 1) * sum(sizes)
    assert inputs + held <= 1.25 * (inputs + output) + 3 * max(sizes)
    assert held >= output  # it does count
