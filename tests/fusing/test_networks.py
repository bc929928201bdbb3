"""Modules in, modules out: what `fuse` promises beside the laws, and what it refuses."""

from itertools import pairwise

import pytest
import torch
from torch import nn

import transfuse
from transfuse import InputError, LayoutError
from zoo_problems import moved_twin, sample, states_of


def test_inputs_are_not_modified():
    model, layout, _ = sample("lstm")
    other = moved_twin(model, layout, 1)
    before = [{k: v.clone() for k, v in m.state_dict().items()} for m in (model, other)]
    transfuse.fuse([model, other], layout=layout)
    for saved, module in zip(before, (model, other), strict=True):
        for name, tensor in module.state_dict().items():
            assert torch.equal(tensor, saved[name])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_result_has_the_type_of_the_inputs(dtype):
    _, layout, _ = sample("mlp")
    states = [{k: v.to(dtype) for k, v in state.items()} for state in states_of("mlp", 2)]
    assert {tensor.dtype for tensor in transfuse.fuse_states(states, layout).state.values()} == {dtype}


def mlp(*widths, **options):
    layers = [nn.Linear(a, b, **options) for a, b in pairwise(widths)]
    return nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1])


X = torch.randn(2, 3)
BAD = {
    "no model": (lambda: transfuse.fuse([], X), InputError, "one or more"),
    "not a module": (lambda: transfuse.fuse([3], X), InputError, r"torch\.nn\.Module"),
    "no inputs": (lambda: transfuse.fuse([mlp(3, 4, 2)]), InputError, "example_inputs"),
    "another architecture": (
        lambda: transfuse.fuse([mlp(3, 4, 2), nn.Sequential(*mlp(3, 4, 4, 2), nn.LayerNorm(2))], X),
        InputError,
        "cannot be put beside each other",
    ),
    "other inputs": (lambda: transfuse.fuse([mlp(3, 4, 2), mlp(5, 4, 2)], X), LayoutError, r"0\.weight axis 1"),
    "no such space": (lambda: transfuse.fuse([mlp(3, 4, 2)], X, target={"1.out": 5}), InputError, "no space is called"),
    "no units": (lambda: transfuse.fuse([mlp(3, 4, 2)], X, target={"0.out": 0}), InputError, "cannot have 0 units"),
    "a target of other layers": (
        lambda: transfuse.fuse([mlp(3, 4, 2)], X, target=nn.Sequential(*mlp(3, 4, 4, 2), nn.LayerNorm(2))),
        InputError,
        "cannot be put beside each other",
    ),
    "a target with other outputs": (
        lambda: transfuse.fuse([mlp(3, 4, 2)], X, target=mlp(3, 4, 5)),
        LayoutError,
        r"2\.weight axis 0",
    ),
    "unknown method": (lambda: transfuse.fuse([mlp(3, 4, 2)], X, method="magic"), InputError, "vanilla"),
    "unknown option": (
        lambda: transfuse.fuse([mlp(3, 4, 2)], X, method="wb", alpha=3),
        InputError,
        "updates, epsilon, start",
    ),
    "too many weights": (lambda: transfuse.fuse([mlp(3, 4, 2)], X, weights=[1, 2]), InputError, "2 weights for 1"),
    "negative weights": (lambda: transfuse.fuse([mlp(3, 4, 2)] * 2, X, weights=[2, -1]), InputError, "non-negative"),
    "zero weights": (lambda: transfuse.fuse([mlp(3, 4, 2)] * 2, X, weights=[0, 0]), InputError, "not all zero"),
    "not a number": (lambda: transfuse.fuse([mlp(3, 4, 2), spoiled()], X), InputError, r"model 2: tensor 0\.bias"),
}


def spoiled():
    net = mlp(3, 4, 2)
    net[0].bias.data[1] = torch.nan
    return net


@pytest.mark.parametrize(("act", "error", "text"), BAD.values(), ids=BAD)
def test_what_cannot_be_fused_is_refused_before_work_starts(act, error, text):
    with pytest.raises(error, match=text):
        act()


class Counting(nn.Module):
    """A network with a state beside its tensors."""

    def __init__(self):
        super().__init__()
        self.up, self.down, self.count = nn.Linear(3, 4), nn.Linear(4, 2), 3

    def forward(self, x):
        return self.down(self.up(x).relu())

    def get_extra_state(self):
        return {"count": self.count}

    def set_extra_state(self, state):
        self.count = state["count"]


def test_a_state_beside_the_tensors_stays_that_of_the_first_model():
    fusion = transfuse.fuse([Counting(), Counting()], X)
    assert fusion.model.count == 3
    assert set(fusion.states.state) == {"up.weight", "up.bias", "down.weight", "down.bias"}


def scaled(factor, dtype=torch.float16):
    """A ReLU network whose first layer is multiplied, the second divided: the same function."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    net[0].weight.data *= factor
    net[0].bias.data *= factor
    net[2].weight.data /= factor
    return net.to(dtype)


def test_an_aligned_network_that_half_precision_cannot_hold_is_refused():
    reference, model = scaled(6e4), scaled(1.0)
    model[0].weight.data *= 30  # the reference's scale takes these beyond 65504
    with pytest.raises(InputError, match=r"tensor 0\.weight of the result reaches .*torch.float16 ends at 6.55e\+04"):
        transfuse.align(model, to=reference, example_inputs=torch.randn(2, 3).half())
    aligned = transfuse.align(model.float(), to=reference.float(), example_inputs=torch.randn(2, 3))
    assert all(tensor.isfinite().all() for tensor in aligned.state_dict().values())


def test_a_fused_network_that_half_precision_cannot_hold_is_refused():
    state = {"up": torch.full((2, 1), 6e4).half(), "down": torch.full((1, 2), 1e-3).half()}
    layout = transfuse.parse("{spaces: {up: 2 scales}, tensors: {up: [up, 1], down: ['1', < up]}}")
    one = transfuse.fuse_states([state, state], layout)
    assert all(tensor.isfinite().all() for tensor in one.state.values())
    grown = {"a": torch.full((2, 1), 6e4).half()}
    sums = transfuse.parse("{spaces: {a: 2}, tensors: {a: [< a, '1']}}")
    with pytest.raises(InputError, match=r"tensor a of the result reaches 1\.2e"):
        transfuse.fuse_states([grown], sums, widths={"a": 1})
