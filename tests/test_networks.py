"""The built-in networks: sizes of the paper, inputs as stated, spaces as their structure implies."""

import pytest
import torch

import transfuse
from transfuse.networks import NETWORKS, vgg11

WEIGHTS = {  # numbers of weights, counted by hand from the layers
    "mlpnet": 784 * 400 + 400 * 200 + 200 * 100 + 100 * 10,
    "mlpsmall": 784 * 200 + 200 * 100 + 100 * 50 + 50 * 10,
    "mlplarge": 784 * 800 + 800 * 400 + 400 * 200 + 200 * 10,
    "vgg11": 9 * 64**2 * (3 / 64 + 2 + 8 + 16 + 32 + 64 + 64 + 64) + 5120,
    "rnn": 256 * (28 + 256 + 10),
    "lstm": 256 * (4 * 28 + 4 * 256 + 10),
}
TRACED = {  # arguments that make it small, and the widths of the spaces
    "mlpnet": ({"hidden": (5, 4)}, {5, 4}),
    "vgg11": ({"width": 2}, {2, 4, 8, 16}),
    "resnet18": ({"width": 2}, {2, 4, 8, 16}),
    "resnet18_plain": ({"width": 2}, {2, 4, 8, 16}),
    "rnn": ({"hidden": 6}, {6}),
    "lstm": ({"hidden": 6, "layers": 2}, {6}),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_sizes(name):
    assert sum(tensor.numel() for tensor in NETWORKS[name].build().parameters()) == WEIGHTS[name]


@pytest.mark.parametrize("name", TRACED)
def test_every_hidden_unit_can_move(name):
    arguments, widths = TRACED[name]
    model = NETWORKS[name].build(**arguments)
    layout = transfuse.trace(model, torch.randn(2, *NETWORKS[name].input_shape))
    assert set(layout.units.values()) == widths
    assert layout.movable(model.state_dict()) > 0.99


def test_vgg11_has_the_names_of_a_plain_sequence():
    state = vgg11(width=1).state_dict()
    assert list(state)[:3] == ["0.weight", "3.weight", "6.weight"]
    assert tuple(state["3.weight"].shape) == (2, 1, 3, 3)
