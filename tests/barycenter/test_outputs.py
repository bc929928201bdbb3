"""What comes out: states that share no memory with what went in, and hold little more than it."""

import pytest
import torch
from benchmarks.clock import most_in_tensors
from torch import nn

import transfuse
from zoo_problems import another, layout_of


@pytest.mark.long
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


def convolutional():
    layers = [nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 96, 3), nn.ReLU(), nn.Conv2d(96, 96, 3), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(384, 10))


def dense():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10))


@pytest.mark.parametrize("count", [2, pytest.param(5, marks=pytest.mark.long)])
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
