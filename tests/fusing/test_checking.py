"""What is refused before work starts: shared memory, numbers that are too large, buffers that differ."""

import pytest
import torch
from torch import nn

import transfuse
from transfuse import InputError

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


def test_complex_tensors_are_averaged_where_they_stay_and_refused_where_they_move():
    still = transfuse.parse("{spaces: {a: 3}, tensors: {first: [a, 2], phase: [2]}}")
    moving = transfuse.parse("{spaces: {a: 3}, tensors: {first: [a, 2], phase: [2, a]}}")
    states = [{"first": torch.randn(3, 2), "phase": torch.full((2,), n * 1j)} for n in range(2)]
    torch.testing.assert_close(transfuse.fuse_states(states, still).state["phase"], torch.full((2,), 0.5j))
    with pytest.raises(InputError, match="tensor phase is complex, and units that move"):
        transfuse.fuse_states([{"first": torch.randn(3, 2), "phase": torch.ones(2, 3) * 1j}], moving)


# --- Memory -------------------------------------------------------------------------------------------------------


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


class Masked(nn.Module):
    """Attention with a causal mask that is saved with the weights, as in many small GPTs."""

    def __init__(self, hidden=float("-inf"), places=5):
        super().__init__()
        self.query, self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 6), nn.Linear(6, 3)
        self.register_buffer("mask", torch.full((places, places), hidden).triu(1))

    def forward(self, x):
        query = self.query(x)
        seen = (query @ query.transpose(1, 2) + self.mask).softmax(-1) @ query
        return self.down(torch.relu(self.up(seen)))


@pytest.mark.parametrize("method", ["auto", "wb"])
def test_infinities_of_a_mask_that_all_models_have_are_carried(method):
    torch.manual_seed(0)
    one, other = Masked(), Masked()
    x = torch.randn(2, 5, 4)
    fusion = transfuse.fuse([one, other], x, method=method)
    assert torch.equal(fusion.model.mask, one.mask)
    assert fusion.model(x).isfinite().all()
    assert torch.equal(transfuse.align(other, to=one, example_inputs=x).mask, one.mask)


@pytest.mark.parametrize("hidden", [float("inf"), float("nan"), -1e9])
def test_infinities_that_differ_are_refused(hidden):
    with pytest.raises(InputError, match=r"model [12]: tensor mask"):
        transfuse.fuse([Masked(), Masked(hidden)], torch.randn(2, 5, 4), check=False)


def test_nan_in_all_models_is_refused():
    layout = transfuse.trace(Masked(), torch.randn(2, 5, 4))
    broken = [Masked(float("nan")).state_dict() for _ in range(2)]
    with pytest.raises(InputError, match="model 1: tensor mask holds NaN"):
        transfuse.fuse_states(broken, layout)


def test_methods_are_looked_up_and_layouts_held_against_states_once(monkeypatch):
    """What was checked is handed on as `Chosen` and `Ready`."""
    counted = []
    for kind, name in ((transfuse.Method, "problems"), (transfuse.Layout, "check")):
        own = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *given, own=own, name=name: (counted.append(name), own(*given))[1])
    nets, x = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)) for _ in range(2)], torch.randn(5, 3)
    transfuse.fuse(nets, layout=transfuse.trace(nets[0], x), data=x)
    assert sorted(counted) == ["check", "problems"]
    counted.clear()
    transfuse.fuse_states([state(), state()], LAYOUT)
    assert sorted(counted) == ["check", "problems"]


def test_wrong_weights_and_widths_are_refused_before_inputs_are_made(monkeypatch):
    nets, x = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)) for _ in range(2)], torch.randn(5, 3)
    monkeypatch.setattr("transfuse.fusing.given.SyntheticInputs", None)
    with pytest.raises(InputError, match="3 weights for 2 models"):
        transfuse.fuse(nets, x, weights=[1, 2, 3])
    with pytest.raises(InputError, match="no space is called 'nowhere'"):
        transfuse.fuse(nets, x, target={"nowhere": 3})
