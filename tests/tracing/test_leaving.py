"""Values that leave for Python are fixed, by whatever way they leave; with several seeds, by both recorders."""

import numpy as np
import pytest
import torch
from torch import nn

import transfuse

X = torch.linspace(-1, 1, 12).reshape(4, 3)
RECORDERS = {0: None, 1: "eager", 2: None, 3: "eager"}  # by seed


class Steered(nn.Module):
    """A hidden layer whose values steer what Python code makes of it."""

    def __init__(self, by):
        super().__init__()
        self.up, self.down, self.by = nn.Linear(3, 5), nn.Linear(5, 2), by

    def forward(self, x):
        hidden = torch.tanh(self.up(x))
        return self.down(hidden) * self.by(self, hidden)


WAYS = {
    "item": lambda net, h: h[0, 0].item(),
    "float": lambda net, h: float(h[0, 0]),
    "if": lambda net, h: 2.0 if h[0, 0] > h[0, 1] else 3.0,
    "tolist": lambda net, h: 2.0 if h.tolist()[0][0] > 0 else 3.0,
    "numpy": lambda net, h: 2.0 if h.detach().cpu().numpy()[0, 0] > 0 else 3.0,
    "asarray": lambda net, h: float(np.asarray(h)[0, 0]),
    "equal": lambda net, h: 2.0 if torch.equal(h, h.sort(1).values) else 3.0,
    "allclose": lambda net, h: 2.0 if torch.allclose(h[:, 0], h[:, 1], atol=0.3) else 3.0,
    "nonzero": lambda net, h: float(len((h[:, 0] > 0.1).nonzero())),
    "where": lambda net, h: float(len(torch.where(h[:, 0] > 0.1)[0])),
    "boolean mask": lambda net, h: float(len(h[:, 0][h[:, 0] > 0.1])),
    "masked select": lambda net, h: float(len(torch.masked_select(h[:, 0], h[:, 0] > 0.1))),
    "unique": lambda net, h: float(len((h[:, 0] > 0.1).unique())),
    "bincount": lambda net, h: float(len(torch.bincount((h[:, 0] > 0.1).long()))),
    "repeats": lambda net, h: float(len(torch.ones(4).repeat_interleave((h[:, 0] > 0.1).long()))),
    "data of a parameter": lambda net, h: float(net.up.weight.data[0, 0]),
    "list of a parameter": lambda net, h: net.up.bias.tolist()[0],
    "array of a parameter": lambda net, h: float(net.up.bias.detach().numpy()[0]),
}


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, id=name, marks=[pytest.mark.long] * (number % 2))
        for number, (name, way) in enumerate(WAYS.items())
    ],
)
def test_what_python_reads_does_not_move(way):
    for seed, recorder in RECORDERS.items():
        torch.manual_seed(seed)
        layout = transfuse.trace(Steered(way), X, recorder=recorder)
        still = [unit for unit in range(5) if unit not in moving(layout)]
        assert 0 in still, f"seed {seed}: the unit that is read moves"


def moving(layout):
    """The rows of the first layer that move."""
    blocks = [block for block in layout.blocks() if (block.tensor, block.axis) == ("up.weight", 0)]
    return {position for block in blocks for position in block.positions.reshape(-1).tolist()}


def test_the_reason_names_the_line_that_reads():
    layout = transfuse.trace(Steered(WAYS["tolist"]), X)
    assert "its value is read by Python code" in layout.fixed["up.weight"][0]
    assert "test_leaving.py" in layout.fixed["up.weight"][0]


def test_what_says_nothing_of_single_units_may_leave():
    ways = [
        lambda net, h: h.sum().item(),
        lambda net, h: float(len(h[h.sum(1) > 0])),
        lambda net, h: float(h.mean().detach().numpy()),
        lambda net, h: h.amax().tolist(),
    ]
    for way in ways:
        assert transfuse.trace(Steered(way), X).units == {"up.out": 5}


def test_rows_that_a_mask_picks_keep_their_units():
    class Picks(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(3, 5), nn.Linear(5, 2)

        def forward(self, x):
            hidden = self.up(x)
            return self.down(hidden[hidden.sum(1) > -100])

    for recorder in (None, "eager"):
        assert transfuse.trace(Picks(), X, recorder=recorder).units == {"up.out": 5}
