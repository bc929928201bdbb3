"""The residual stream of a pre-norm transformer may be rotated: a rotated copy is found again, exactly."""

import copy

import numpy as np
import torch
from torch import nn

import transfuse
from transfuse.layout import random_elements


class Block(nn.Module):
    """A stream of 12 numbers, to which two layers add."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(5, 12), nn.Linear(12, 3)
        self.norms = nn.ModuleList(nn.LayerNorm(12) for _ in range(3))
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 12)) for _ in range(2))

    def forward(self, x):
        """Scores [batch, 3] of inputs [batch, 5]."""
        x = self.enter(x)
        for norm, layer in zip(self.norms, self.layers, strict=False):
            x = x + layer(norm(x))
        return self.leave(self.norms[-1](x))


torch.manual_seed(0)
net, x = Block().double(), torch.randn(32, 5).double()
layout = transfuse.trace(net, x)
elements = random_elements(layout, layout.widths(net.state_dict()), np.random.default_rng(0))
twin = copy.deepcopy(net)
twin.load_state_dict(transfuse.permute(net.state_dict(), layout, elements))
fusion = transfuse.fuse([net, twin], x, correct="none")
print(*layout.spaces, sep="\n")

assert any(isinstance(each, transfuse.Rotation) for each in elements.values())
assert torch.allclose(twin(x), net(x)), "rotating the stream changes nothing"
assert torch.allclose(fusion.model(x), net(x), atol=1e-6), "fused with its rotated copy, a network is itself"
