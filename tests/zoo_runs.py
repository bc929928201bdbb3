"""What runs of networks show, for tests of runs that are replayed or resumed."""

from functools import partial

import torch
from torch import nn
from torch.utils import _pytree as pytree

from transfuse.activations import observe
from zoo import call


def run(inputs, model):
    """A network on a copy of inputs, as batches run it."""
    return call(model, pytree.tree_map_only(torch.Tensor, torch.clone, inputs))


def shown(model, inputs, **options):
    """What is seen of a network: at each site, by its name, what goes in and what comes out."""
    found = observe(model, partial(run, inputs), **options)
    values = [{"in": seen.inputs, "out": seen.output, "rest": seen.rest} for seen in found]
    return {f"{number} {seen.name} {key}": value for number, (seen, each) in enumerate(zip(found, values, strict=True))
            for key, value in each.items() if value is not None}  # fmt: skip


def changed(tensor):
    with torch.no_grad():
        tensor += 0.1 * torch.randn_like(tensor)


class Convolutions(nn.Module):
    """Convolutions with norms, a skip connection, and functions that write to what they get."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm, self.pool, self.last = nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Linear(16, 3)

    def forward(self, x):
        x = self.one(x).relu_()
        x = self.norm(self.two(x)).add_(x).relu_()
        return self.last(self.pool(x).flatten(1))
