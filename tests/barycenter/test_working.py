"""States on their way in: safe types, devices, and an order of models that is their own."""

import pytest
import torch

import transfuse
from transfuse.barycenter.working import own_order
from transfuse.lazy import working_state, working_type
from zoo_problems import layout_of, states_of


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
    assert working_state(half, working_type([half])).keys() == half.keys()


@pytest.mark.long
@pytest.mark.parametrize("method", ["auto", "wb", "gwb", "ot", "rebasin", "c2m3", "fedma", "vanilla"])
@pytest.mark.parametrize("name", ["mlp_tanh", pytest.param("lstm", marks=pytest.mark.long)])
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
