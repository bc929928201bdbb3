"""Grow a network: twice as many hidden units, and not one output changes; then train on."""

import torch
from torch import nn

import transfuse

torch.manual_seed(0)
small = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 16), nn.ReLU(), nn.Linear(16, 5))
x = torch.randn(8, 1, 8, 8)

large = transfuse.fuse([small], x, target=2.0, correct="none").model
counts = [sum(parameter.numel() for parameter in model.parameters()) for model in (small, large)]
print(f"{counts[0]:,} numbers become {counts[1]:,}; outputs differ by {(large(x) - small(x)).abs().max():.0e}")

assert (large[0].out_channels, large[3].out_features) == (8, 32)
assert torch.allclose(large(x), small(x), atol=1e-5)
