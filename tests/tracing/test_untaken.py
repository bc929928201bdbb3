"""Branches that the example inputs do not take: the spaces that they could meet are fixed, or moved on request."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import transfuse
from transfuse import TraceWarning
from transfuse.layout import random_elements

X = torch.linspace(-1, 1, 12).reshape(4, 3)


class Hidden(nn.Module):
    """Linear, tanh, linear, and a layer that only some calls reach."""

    def __init__(self, other=None):
        super().__init__()
        self.up, self.down = nn.Linear(3, 5), nn.Linear(5, 2)
        self.other = other

    def hidden(self, x):
        return torch.tanh(self.up(x))


class Experts(nn.Module):
    """One of three experts, chosen by a number that leaves for Python."""

    def __init__(self):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(3, 5), nn.Linear(5, 3), nn.Linear(4, 2)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4)) for _ in range(3))

    def forward(self, x):
        hidden = torch.tanh(self.up(x))
        return self.down(torch.tanh(self.experts[self.gate(hidden).sum(0).argmax().item()](hidden)))

    def elsewhere(self, x):
        hidden = torch.tanh(self.up(x))
        return torch.stack([self.down(torch.tanh(expert(hidden))) for expert in self.experts])


class OptionalArgument(Hidden):
    def __init__(self):
        super().__init__(nn.Linear(12, 5))

    def forward(self, x, condition=None):
        hidden = self.hidden(x)
        return self.down(hidden if condition is None else hidden + self.other(condition))

    def elsewhere(self, x):
        return self(x, torch.ones(len(x), 12))


class BatchSize(Hidden):
    def __init__(self):
        super().__init__(nn.Linear(5, 5))

    def forward(self, x):
        hidden = self.hidden(x)
        return self.down(self.other(hidden) if len(x) > 8 else hidden)

    def elsewhere(self, x):
        return self(torch.cat([x, x, x]))


class Length(Hidden):
    def __init__(self):
        super().__init__(nn.ModuleList(nn.Linear(5, 5) for _ in range(12)))

    def forward(self, x):
        hidden = self.hidden(x)
        for step, _ in zip(self.other, x, strict=False):
            hidden = hidden + torch.tanh(step(hidden))
        return self.down(hidden)

    def elsewhere(self, x):
        return self(torch.cat([x, x, x]))


class AuxiliaryHead(Hidden):
    def __init__(self):
        super().__init__(nn.Linear(5, 9))

    def forward(self, x):
        hidden = self.hidden(x)
        return (self.down(hidden), self.other(hidden)) if self.training else self.down(hidden)

    def elsewhere(self, x):
        try:
            return self.train()(x)[1]
        finally:
            self.eval()


class GradientsOn(Hidden):
    def __init__(self):
        super().__init__(nn.Linear(5, 2))

    def forward(self, x):
        hidden = self.hidden(x)
        return self.down(hidden) + (self.other(hidden) if torch.is_grad_enabled() else 0)

    def elsewhere(self, x):
        with torch.enable_grad():
            return self(x).detach()


class Flattened(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.other = nn.Conv1d(1, 5, 1), nn.Linear(5, 2), nn.Linear(10, 2)

    def forward(self, x):
        hidden = torch.tanh(self.up(x[:, None]))
        if len(x) > 8:
            return self.other(F.adaptive_avg_pool1d(hidden, 2).flatten(1))
        return self.down(hidden.mean(2))

    def elsewhere(self, x):
        return self(torch.cat([x, x, x]))


class SideBySide(Hidden):
    def __init__(self):
        super().__init__(nn.Linear(8, 2))

    def forward(self, x):
        hidden = self.hidden(x)
        return self.other(torch.cat([hidden, x], 1)) if len(x) > 8 else self.down(hidden)

    def elsewhere(self, x):
        return self(torch.cat([x, x, x]))


CASES = [Experts, OptionalArgument, BatchSize, Length, AuxiliaryHead, GradientsOn]
UNCLEAR = [Flattened, SideBySide]  # nothing that was reached shows how the unused layer holds the units


def moved(net, layout, seed=0):
    """The network with units moved by a layout."""
    elements = random_elements(layout, layout.units, np.random.default_rng(seed))
    twin = type(net)().eval()
    twin.load_state_dict(transfuse.permute(net.state_dict(), layout, elements))
    return twin


def build(case):
    torch.manual_seed(0)
    return case().eval()


@pytest.mark.parametrize("unused", ["fix", "move"])
@pytest.mark.parametrize("case", CASES + UNCLEAR)
@torch.no_grad()
def test_a_branch_that_was_not_taken_computes_the_same_after_units_have_moved(case, unused):
    net = build(case)
    with pytest.warns(TraceWarning, match="example inputs do not reach"):
        layout = transfuse.trace(net, X, unused=unused)
    for seed in range(2):
        twin = moved(net, layout, seed)
        torch.testing.assert_close(twin(X), net(X))
        torch.testing.assert_close(twin.elsewhere(X), net.elsewhere(X))
    assert transfuse.parse(str(layout)) == layout


@pytest.mark.parametrize("case", CASES + UNCLEAR)
def test_by_default_such_a_space_is_fixed_with_the_reason(case):
    with pytest.warns(TraceWarning, match=r"space up\.out may meet .*: it is fixed"):
        layout = transfuse.trace(build(case), X)
    assert "up.out" not in layout.units
    assert "which the example inputs do not reach" in layout.fixed["up.weight"][0]


@pytest.mark.parametrize("case", CASES)
def test_on_request_it_moves_and_the_unused_tensors_with_it(case):
    with pytest.warns(TraceWarning, match=r"space up\.out: it is moved"):
        layout = transfuse.trace(build(case), X, unused="move")
    assert layout.units["up.out"] == 5
    assert not layout["up.out"].signs  # nobody knows what the branch would do to signs


class EitherLayer(Hidden):
    """A token that could be added to the units of one layer or of another."""

    def __init__(self):
        super().__init__(nn.Linear(5, 5))
        self.token = nn.Parameter(torch.ones(5))

    def forward(self, x):
        return self.down(torch.tanh(self.other(self.hidden(x) + (self.token if len(x) > 8 else 0))))

    def elsewhere(self, x):
        return self(torch.cat([x, x, x]))


WHY = {
    Flattened: r"no axis with units that is reached has 10 positions",
    SideBySide: r"no axis with units that is reached has 8 positions",
    EitherLayer: r"its 5 positions may be units of up\.out or of other\.out",
}


@pytest.mark.parametrize("case", WHY)
def test_where_it_is_not_clear_how_they_would_move_nothing_does_and_why_is_told(case):
    with pytest.warns(
        TraceWarning, match=f"(?s)is fixed, for it is not clear how .* would move: {WHY[case]}"
    ) as caught:
        assert not transfuse.trace(build(case), X, unused="move").units
    assert "unused=" not in str(caught[0].message)  # it was said already


class Remembers(Hidden):
    def __init__(self):
        super().__init__(nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 7)))

    def forward(self, x):
        hidden = self.hidden(x)
        self.last = self.other(hidden)
        return self.down(hidden)


@pytest.mark.parametrize("recorder", ["export", "eager"])
@torch.no_grad()
def test_what_is_computed_and_only_remembered_stays_the_same(recorder):
    net = build(Remembers)
    layout = transfuse.trace(net, X, recorder=recorder)
    assert layout.units == {"up.out": 5}
    assert layout.fixed["other.2.weight"][0] == "has no effect on the outputs"
    twin = moved(net, layout)
    torch.testing.assert_close(twin(X), net(X))
    torch.testing.assert_close(twin.last, net.last)
    by_user = transfuse.trace(net, X, outputs=lambda result: (result, net.last))
    assert by_user.units == {"up.out": 5, "other.0.out": 6}


def test_a_layer_that_could_meet_no_space_is_no_reason_to_fix_one():
    net = AuxiliaryHead()
    net.other = nn.Linear(13, 11)
    assert transfuse.trace(net, X).units == {"up.out": 5}


def test_the_option_is_checked():
    with pytest.raises(transfuse.InputError, match="unused is 'drop'; expected one of 'fix', 'move'"):
        transfuse.trace(BatchSize(), X, unused="drop")
