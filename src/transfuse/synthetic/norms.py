"""How far synthetic inputs are from the data that networks were trained on, as far as batch norms remember it.

Running statistics of a batch norm are the mean and the variance that its channels had on the training data. What they
have on synthetic inputs can be compared, and no data is needed.

In: networks and inputs. Out: a number, 0 where all statistics agree. Not here: what is chosen by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..activations import Batches


def distance_to_norms(models: Sequence[nn.Module], batches: Batches) -> float | None:
    """The mean over channels of all batch norms of how far inputs are from the data; nothing without such norms.

    For each channel it is the Kullback-Leibler divergence of two normal distributions: that of the inputs, with mean m
    and variance v, from that of the data, with mean M and variance V:

        (log(V / v) + (v + (m - M)^2) / V - 1) / 2

    Args:
        models: Networks in evaluation mode.
        batches: The inputs.
    """
    found = []
    for model in models:
        with _measured(model) as sums, torch.no_grad():
            for batch in batches:
                batch.run(model)
        found += [each.divergence(norm) for norm, each in sums.items() if each.count]
    return float(torch.cat(found).mean()) if found else None


@dataclass
class _Sums:
    """Sums over all values of each channel that a norm has got."""

    count: int = 0
    first: Tensor | float = 0.0
    second: Tensor | float = 0.0

    def add(self, inputs: Tensor) -> None:
        """Add inputs [samples, channels, ...]."""
        values = inputs.transpose(0, 1).flatten(1).double()
        self.count += values.shape[1]
        self.first, self.second = self.first + values.sum(1), self.second + values.square().sum(1)

    def divergence(self, norm: _BatchNorm) -> Tensor:
        """How far each channel is from what the norm remembers [channels]."""
        assert norm.running_mean is not None, "other norms are not measured"
        assert norm.running_var is not None, "other norms are not measured"
        mean = torch.as_tensor(self.first / self.count)
        variance = (torch.as_tensor(self.second / self.count) - mean.square()).clamp_min(0.0) + norm.eps
        of_data = norm.running_var.double() + norm.eps
        apart = (mean - norm.running_mean.double()).square()
        return ((of_data / variance).log() + (variance + apart) / of_data - 1) / 2


@contextmanager
def _measured(model: nn.Module) -> Iterator[dict[_BatchNorm, _Sums]]:
    """Sums of what each batch norm with running statistics gets while the network runs."""
    norms = [each for each in model.modules() if isinstance(each, _BatchNorm) and each.running_mean is not None]
    sums = {norm: _Sums() for norm in norms}
    hooks = [norm.register_forward_pre_hook(lambda norm, args: sums[norm].add(args[0])) for norm in norms]
    try:
        yield sums
    finally:
        for hook in hooks:
            hook.remove()
