"""The proof: what it must see, however large an output's neighbours or its offset are."""

import pytest
import torch
from torch import nn

import transfuse
from transfuse import ProofError
from transfuse.tracing.differences import Limits, Scale, difference

X = torch.linspace(-1, 1, 12).reshape(4, 3)


class Net(nn.Module):
    def __init__(self, after=lambda y: y, between=torch.sigmoid, bias=None):
        super().__init__()
        self.up, self.down = nn.Linear(3, 5), nn.Linear(5, 2)
        self.after, self.between = after, between
        if bias is not None:
            nn.init.constant_(self.down.bias, bias)

    def forward(self, x):
        return self.after(self.down(self.between(self.up(x))))


def linear(t, call):
    """A wrong rule: claims that a sigmoid is linear."""
    return t.pointwise(call["self"], odd=True, homogeneous=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "net",
    [
        Net,
        lambda: Net(lambda y: 1e-3 * y + 1e5),
        lambda: Net(lambda y: torch.cat([y, 0 * y + 1e9], 1)),
        lambda: Net(lambda y: torch.stack([y, 0 * y + 1e9], 1)),
        lambda: Net(lambda y: (y, torch.full((1,), 1e9))),
        lambda: Net(bias=1e4),
        lambda: Net(bias=1e6),
        lambda: Net(bias=1e9),
    ],
    ids=["plain", "offset", "a large column", "a large channel", "a large other output", "a large bias", "1e6", "1e9"],
)
def test_a_false_symmetry_is_seen(net, seed):
    torch.manual_seed(seed)
    with pytest.raises(ProofError, match=r"space up\.out: .*negated or scaled"):
        transfuse.trace(net(), X, rules={"aten::sigmoid": linear})


@pytest.mark.parametrize(
    "between",
    [
        lambda h: h.int().float(),
        lambda h: h.mul(9).long().type_as(h),
        lambda h: h.relu().bool().float(),
        lambda h: (h > 0).float() * h.to(torch.int32),
    ],
    ids=["int", "long", "bool", "mixed"],
)
@pytest.mark.parametrize("after", [lambda y: y, lambda y: y + 1e5], ids=["plain", "offset"])
def test_what_is_rounded_to_whole_numbers_is_neither_linear_nor_refused(between, after):
    for seed in range(2):
        torch.manual_seed(seed)
        layout = transfuse.trace(Net(after, between), X)
        assert layout.units == {"up.out": 5}
        assert layout["up.out"].symmetry == transfuse.Symmetry()


def test_outputs_that_do_not_react_are_judged_by_their_rounding():
    nets = [
        Net(lambda y: torch.cat([y, y.softmax(1).sum(1, keepdim=True) - 1], 1)),
        Net(lambda y: (y, torch.ones(3), y.softmax(1).sum(1))),
        Net(lambda y: torch.cat([y, y - y, 0 * y], 1)),
        Net(lambda y: y[:1]),
        Net(lambda y: (y, y.sum())),
    ]
    for net in nets:
        assert transfuse.trace(net, X).units == {"up.out": 5}


@pytest.mark.parametrize("bias", [0.0, 1e6, 1e9])
def test_example_inputs_that_are_all_the_same_prove_as_well(bias):
    assert transfuse.trace(Net(bias=bias), torch.ones(4, 3)).units == {"up.out": 5}


@pytest.mark.parametrize("bias", [1e6, *(pytest.param(each, marks=pytest.mark.long) for each in (1e4, 1e9))])
def test_a_large_bias_is_no_reason_to_doubt_a_layout(bias):
    for seed in range(3):
        torch.manual_seed(seed)
        deep = nn.Sequential(*[nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(20)], nn.Linear(3, 2))
        nn.init.constant_(deep[-1].bias, bias)
        for net in (Net(bias=bias), Net(bias=bias, between=torch.relu), deep):
            assert transfuse.trace(net, X).units


def test_rounding_inside_that_hides_the_outputs_is_not_called_a_wrong_rule():
    """Of float32 at 1e4, the last digit is as large as a tenth of what the weights do."""
    torch.manual_seed(0)
    with pytest.raises(ProofError, match="cannot be proved: a change of 1e-08 of the weights"):
        transfuse.trace(Net(lambda y: y.float().to(y.dtype), bias=1e4), X)


def test_every_column_has_a_limit_of_its_own():
    own = torch.tensor([[1.0, 1e9], [2.0, 3e9]], dtype=torch.float64)
    limits = Limits.of(own, own * 1.2, own * (1.2 + 1e-8), Scale(0.2, 1e-8, 300.0))
    assert difference(own, own + torch.tensor([0.0, 1.0]), limits).excess < 1
    assert difference(own, own + torch.tensor([1e-3, 0.0]), limits).excess > 1
    assert difference(own, own[:1], limits).excess == float("inf")
