"""How far synthetic inputs are from the data that networks were trained on, as far as batch norms remember it.

Running statistics of a batch norm are the mean and the variance that its channels had on the training data. What they
have on synthetic inputs can be compared, and no data is needed.

In: networks and inputs. Out: a number, 0 where all statistics agree. Not here: what is chosen by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

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
        found += [_divergence(norm, each) for norm, each in sums.items() if each[0].any()]
    return float(torch.cat(found).mean()) if found else None


def seen_by_norms(models: Sequence[nn.Module], run: Callable[[nn.Module], None], samples: int) -> Tensor:
    """How far each sample is from what batch norms remember, [samples, statistics]; nothing without such norms.

    For each channel, with values x of a sample and the mean M and the variance V of the data: the mean of
    (x - M) / sqrt(V) over all places, and that of ((x - M)^2 / V - 1) / sqrt(2), both 0 for the data as a whole. All
    norms count alike, however many channels they have.

    Args:
        models: Networks in evaluation mode.
        run: Runs one of them on the samples.
        samples: How many they are; norms that get another number of rows do not count.
    """
    found: list[Tensor] = []

    def see(norm: _BatchNorm, inputs: tuple[Tensor, ...]) -> None:
        values = inputs[0].detach()
        mean, variance = norm.running_mean, norm.running_var
        if mean is None or variance is None or len(values) != samples:
            return
        places = values.flatten(2) if values.dim() > 2 else values[:, :, None]
        first, second = places.mean(2) - mean, places.square().mean(2)
        about = (second - 2 * first * mean - mean**2) / (variance + norm.eps) - 1
        found.append(torch.cat([first / (variance + norm.eps).sqrt(), about / 2**0.5], 1) / len(mean) ** 0.5)

    norms = [each for model in models for each in model.modules() if isinstance(each, _BatchNorm)]
    hooks = [norm.register_forward_pre_hook(see) for norm in norms]
    try:
        with torch.no_grad():
            for model in models if norms else ():
                run(model)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.cat(found, 1) if found else torch.zeros(samples, 0)


@contextmanager
def _measured(model: nn.Module) -> Iterator[dict[_BatchNorm, Tensor]]:
    """Sums [3, channels] over what each batch norm with running statistics gets while the network runs.

    For each channel they are how many values it got, the sum of the values, and the sum of their squares.
    """
    sums = {
        each: mean.new_zeros(3, len(mean), dtype=torch.float64)
        for each in model.modules()
        if isinstance(each, _BatchNorm) and (mean := each.running_mean) is not None
    }

    def add(norm: _BatchNorm, inputs: tuple[Tensor, ...]) -> None:
        """Add inputs [samples, channels, ...] to the sums of their norm."""
        values = inputs[0].transpose(0, 1).flatten(1).double()
        first, second = values.sum(1), values.square().sum(1)
        sums[norm] = sums[norm] + torch.stack([torch.full_like(first, values.shape[1]), first, second])

    hooks = [norm.register_forward_pre_hook(add) for norm in sums]
    try:
        yield sums
    finally:
        for hook in hooks:
            hook.remove()


def _divergence(norm: _BatchNorm, sums: Tensor) -> Tensor:
    """How far each channel is from what the norm remembers [channels], by sums over all that the norm has got."""
    assert norm.running_mean is not None, "other norms are not measured"
    assert norm.running_var is not None, "other norms are not measured"
    count, first, second = sums.unbind()
    mean = first / count
    variance = (second / count - mean.square()).clamp_min(0.0) + norm.eps
    of_data = norm.running_var.double() + norm.eps
    apart = (mean - norm.running_mean.double()).square()
    return ((of_data / variance).log() + (variance + apart) / of_data - 1) / 2
