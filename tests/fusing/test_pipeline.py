"""The one pipeline: lazy states give what plain ones give."""

import numpy as np
import pytest
import safetensors.torch
import torch

import transfuse
from transfuse.checkpoints import open_checkpoint
from transfuse.layout import balanced, in_balance_of, random_elements
from transfuse.lazy import LazyState, as_lazy
from zoo import named
from zoo_problems import layout_of

NETWORKS = ("mlp", "lenet", "lstm")


def problem(tmp_path, name, dtype=torch.float32):
    row = named(name)
    torch.manual_seed(0)
    layout = layout_of(name)
    states = []
    for seed in range(2):
        torch.manual_seed(seed)
        state = {k: v.to(dtype) if v.is_floating_point() else v for k, v in row.build().state_dict().items()}
        safetensors.torch.save_file(
            {k: v.contiguous().clone() for k, v in state.items()}, tmp_path / f"{seed}.safetensors"
        )
        states.append(state)
    return layout, states, [open_checkpoint(tmp_path / f"{seed}.safetensors").tensors for seed in range(2)]


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("method", ["auto", "wb"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_as_in_memory(tmp_path, name, method, low_memory):
    layout, states, files = problem(tmp_path, name)
    expected = transfuse.fuse_states(states, layout, method=method, weights=[2, 1])
    streamed = transfuse.fuse_states(files, layout, method=method, weights=[2, 1], low_memory=low_memory)
    assert streamed.status == expected.status
    assert streamed.weights == expected.weights
    for key, tensor in expected.state.items():
        torch.testing.assert_close(streamed.state[key], tensor, rtol=0, atol=0)
        torch.testing.assert_close(streamed.aligned[1][key], expected.aligned[1][key], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_types_and_widths(tmp_path, dtype):
    layout, states, files = problem(tmp_path, "mlp_tanh", dtype)
    widths = {layout.spaces[0].name: layout.spaces[0].units + 3}
    expected = transfuse.fuse_states(states, layout, widths=widths)
    streamed = transfuse.fuse_states(files, layout, widths=widths, low_memory=True)
    for key, tensor in expected.state.items():
        assert streamed.state.entries[key].shape == tuple(tensor.shape)
        torch.testing.assert_close(streamed.state[key], tensor, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", NETWORKS)
def test_balancing_lazily_is_balancing(name):
    row = named(name)
    torch.manual_seed(0)
    model = row.build().double()
    layout = layout_of(name)
    elements = random_elements(layout, layout.units, np.random.default_rng(0))
    state = transfuse.permute(model.state_dict(), layout, elements)
    lazy, expected = balanced(as_lazy(state), layout), balanced(state, layout)
    back, again = in_balance_of(as_lazy(state), lazy, layout), in_balance_of(state, expected, layout)
    assert isinstance(lazy, LazyState)
    assert isinstance(back, LazyState)
    for key in expected:
        torch.testing.assert_close(lazy[key], expected[key], rtol=0, atol=0)
        torch.testing.assert_close(back[key], again[key], rtol=0, atol=0)
        torch.testing.assert_close(back[key], state[key], rtol=1e-5, atol=1e-8)
