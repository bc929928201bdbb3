"""Branches by the truth of a value, with no tensors of their own: both ways are looked at, by both recorders."""

import pdb
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import transfuse
from transfuse import TraceWarning
from transfuse.layout import random_elements
from transfuse.tracing import branches

X = torch.linspace(-1, 1, 12).reshape(4, 3)
ELSEWHERE = (X, X + 9, X - 9, 30 * X, -30 * X)  # between them all ways are taken


class Branching(nn.Module):
    """A hidden layer that Python code treats one way or another."""

    def __init__(self, by):
        super().__init__()
        self.up, self.down, self.by = nn.Linear(3, 5), nn.Linear(5, 2), by

    def forward(self, x):
        return self.down(self.by(self.up(x), x))


def without_first(h):
    h = h.clone()
    h[:, 0] = 0
    return h


def without_second(h):
    h = h.clone()
    h[:, 1] = 0
    return h


def nested(h, x):
    if x.sum() > 9:
        return without_first(h) if (h > 3).any() else h.cumsum(1)
    return h.tanh()


def halved(h, x):
    while h.abs().amax() > 4:
        h = h.roll(1, 1) / 2
    return h


def layers(h, x):
    for number in range(3):
        if x.sum() > 3 * number:
            h = without_first(h.tanh())
    return h.tanh()


# Those that were wrong before, and those that were refused by a proof which blamed a rule.
WRONG = {
    "one unit": lambda h, x: without_first(h.tanh()) if x.sum() > 9 else h.tanh(),
    "one unit, by itself": lambda h, x: without_first(h.tanh()) if h.sum() > 9 else h.tanh(),
    "one unit or another": lambda h, x: without_first(h) if x.sum() > 9 else without_second(h),
    "order": lambda h, x: h.tanh().cumsum(1) if x.sum() > 9 else h.tanh(),
    "not": lambda h, x: h.tanh() if not x.sum() > 9 else without_first(h),
    "equal": lambda h, x: without_first(h) if not torch.equal(x, X) else h,
    "allclose": lambda h, x: h if torch.allclose(x, X) else without_first(h),
    "item of a truth": lambda h, x: without_first(h) if (x > 5).all().item() else h,
    "and": lambda h, x: without_first(h) if x.sum() > 0 and x.amax() > 8 else h,
    "nested": nested,
    "loop": halved,
    "same line again": layers,
}
REFUSED = {
    "other function": lambda h, x: h.relu() if x.sum() > 0 else h.tanh(),
    "other function, turned": lambda h, x: h.tanh() if x.sum() > 0 else h.relu(),
}
HARMLESS = {
    "twice": lambda h, x: 2 * h.tanh() if x.mean() > 0 else h.tanh(),
    "negated": lambda h, x: -h.tanh() if (x[:, 1] > 0).any() else h.tanh(),
}


def build(by, seed):
    torch.manual_seed(seed)
    return Branching(by).eval()


def twins(net, layout):
    for seed in range(3):
        elements = random_elements(layout, layout.units, np.random.default_rng(seed))
        twin = build(net.by, 0)
        twin.load_state_dict(transfuse.permute(net.state_dict(), layout, elements))
        yield twin


@pytest.mark.parametrize("by", (ways := WRONG | REFUSED | HARMLESS).values(), ids=ways)
@pytest.mark.parametrize("recorder", [pytest.param(None, marks=pytest.mark.long), "eager"])
@torch.no_grad()
def test_units_move_only_as_every_way_allows(by, recorder):
    net = build(by, 0)
    layout = transfuse.trace(net, X, recorder=recorder)
    for twin in twins(net, layout):
        for x in ELSEWHERE:
            torch.testing.assert_close(twin(x), net(x), rtol=1e-4, atol=1e-4)


def test_the_default_recorder_sees_both_ways_too():
    assert transfuse.trace(build(WRONG["one unit"], 0), X) == transfuse.trace(
        build(WRONG["one unit"], 0), X, recorder="eager"
    )


@pytest.mark.parametrize("by", HARMLESS.values(), ids=HARMLESS)
def test_ways_that_treat_units_alike_let_them_move(by):
    layout = transfuse.trace(build(by, 0), X)
    assert layout.units == {"up.out": 5}
    assert layout["up.out"].signs


def test_layers_of_both_ways_move_and_need_no_warning():
    class Either(Branching):
        def __init__(self):
            super().__init__(None)
            self.one, self.two = nn.Linear(5, 5), nn.Linear(5, 5)

        def forward(self, x):
            h = self.up(x).tanh()
            return self.down(self.one(h).tanh() if x.sum() > 9 else self.two(h).tanh())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layout = transfuse.trace(Either(), X)
    assert sorted(layout.units.values()) == [5, 5]
    assert not any("do not reach" in reason for axes in layout.fixed.values() for reason in axes.values())


def refuse(_):
    raise ValueError("numbers that are none")


@pytest.mark.parametrize("end", [refuse, lambda _: sys.exit(0), lambda _: breakpoint(), lambda _: pdb.set_trace()])
def test_a_way_that_ends_in_an_error_or_in_a_debugger_is_none(end):
    before = pdb.set_trace
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layout = transfuse.trace(build(lambda h, x: end(h) if h.isnan().any() else h.tanh(), 0), X, recorder="eager")
    assert layout.units == {"up.out": 5}
    assert pdb.set_trace is before


def test_a_way_that_cannot_be_recorded_is_told():
    by = lambda h, x: h[:, :3].reshape(4, 5) if x.sum() > 9 else h.tanh()  # noqa: E731
    with pytest.warns(TraceWarning, match=r"(?s)not every way .*the other way at test_branches\.py:\d+: RuntimeError"):
        assert transfuse.trace(build(by, 0), X).units == {"up.out": 5}


def test_more_ways_than_are_looked_at_are_told(monkeypatch):
    monkeypatch.setattr(branches, "MOST", 1)
    with pytest.warns(TraceWarning, match=r"test_branches\.py:\d+: no more than 1 ways are looked at"):
        transfuse.trace(build(nested, 0), X, recorder="eager")


def test_what_another_way_writes_is_put_back():
    class Writes(Branching):
        def forward(self, x):
            if x.sum() > 9:
                self.up.weight.data.zero_()
                self.seen = True
            return super().forward(x)

    net = Writes(lambda h, x: h.tanh())
    before = net.up.weight.clone()
    assert transfuse.trace(net, X).units == {"up.out": 5}
    assert torch.equal(net.up.weight, before)
    assert not hasattr(net, "seen")
