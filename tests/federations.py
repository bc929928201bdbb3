"""Federations of small networks, for the tests of rounds and of Flower's strategy."""

import torch
from torch import nn

import transfuse
from transfuse import Federation

X = torch.randn(16, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def network(width=8, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, width, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36 * width, 2 * width), nn.Tanh(),
        nn.Linear(2 * width, 3),
    )  # fmt: skip


def normed(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 3))


LAYOUT = transfuse.trace(network(), X)


def federation(**rules):
    return Federation.of(network(), X, layout=LAYOUT, **rules)


def trained(state, seed, size=0.01):
    """A state after a little training: a small step from it, other than that of other seeds."""
    random = torch.Generator().manual_seed(seed)
    return {name: tensor + size * torch.randn(tensor.shape, generator=random) for name, tensor in state.items()}
