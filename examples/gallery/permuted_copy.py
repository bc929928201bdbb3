"""A network and a copy with its neurons in another order: the average is neither, the fusion is the network."""

import copy

import torch
from torch import nn

import transfuse

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
x = torch.randn(64, 8)

order = torch.randperm(32)
twin = copy.deepcopy(net)
for name, axis in (("0.weight", 0), ("0.bias", 0), ("2.weight", 1)):
    twin.get_parameter(name).data = net.get_parameter(name).data.index_select(axis, order)

average = transfuse.fuse([net, twin], x, method="vanilla").model
fused = transfuse.fuse([net, twin], x, correct="none").model
print(
    f"off by {(average(x) - net(x)).abs().max():.2f} when averaged, by {(fused(x) - net(x)).abs().max():.0e} when fused"
)

assert torch.allclose(fused(x), net(x), atol=1e-5)
assert not torch.allclose(average(x), net(x), atol=1e-2)
