"""Likening: drawn images are made to look, to batch norms, more like the data that these remember.

Two things are done. The mean and the deviation of each channel, which a few example images tell only roughly, are moved
until the statistics at all batch norms agree best. Then of several times as many images as are wanted those are kept
whose statistics, taken together, come nearest (*herding*, Welling 2009, doi:10.1145/1553374.1553517). All networks
say how channels are to be moved, and one of them, drawn for each batch, which images are kept: runs take most of the
time, and with all of them accuracies were no better.

In: networks, example inputs, what draws images. Out: what draws such images. Not here: which kind they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..modules import Arguments
from .images import TINY, Images
from .norms import seen_by_norms

TIMES = 4  # as many images are drawn as are kept; with twice as many networks gained half a point less
TRIAL = 50  # images by which channels are moved
ROUNDS = 2  # of Gauss and Newton
STEP = 0.1  # of a difference, in deviations of a channel, or in logarithms of them
DAMPING = 0.01  # of the mean diagonal: directions that norms hardly feel stay
FARTHEST = 0.7  # how far a mean is moved, at most, in deviations, and the logarithm of a deviation
MOST_CHANNELS = 4  # that are moved: each takes two runs a round


def likened(models: Sequence[nn.Module], example: Arguments, images: Images, *, seed: int = 0) -> Images:
    """Images of which each batch looks, to the batch norms of networks, like the data that they remember.

    As they are drawn, where networks have no batch norms with running statistics, or take other tensors as well.

    Args:
        models: Networks of one architecture, in evaluation mode.
        example: Inputs on which they run.
        images: What draws images, and in which place of the inputs.
        seed: Seed of the random numbers.
    """
    values, tree = pytree.tree_flatten((example.args, dict(example.kwargs)))

    def far(drawn: Tensor, asked: Sequence[nn.Module]) -> Tensor:
        def run(model: nn.Module) -> None:
            args, kwargs = pytree.tree_unflatten(
                [*values[: images.place], drawn.clone(), *values[images.place + 1 :]], tree
            )
            model(*args, **kwargs)

        return seen_by_norms(asked, run, len(drawn))

    trial = images.generator(TRIAL, images.like, torch.Generator().manual_seed(seed))
    if sum(isinstance(value, Tensor) for value in values) != 1 or not far(trial, models).shape[1]:
        return images
    moved = (
        _moved_channels(trial, partial(far, asked=models)) if trial.shape[1] <= MOST_CHANNELS else Channels.of(trial)
    )

    def generator(count: int, like: Tensor, random: torch.Generator) -> Tensor:
        many = moved(images.generator(TIMES * count, like, random))
        one = models[int(torch.randint(len(models), (), generator=random))]
        return many[herded(torch.cat([far(some, [one]) for some in many.split(count)]), count)]

    return replace(images, generator=generator)


@dataclass(frozen=True, eq=False)
class Channels:
    """Moves the channels of images.

    Args:
        mean: Their means before, [channels, 1, 1].
        deviation: Their deviations before.
        change: Logarithms of the factors of their deviations, then how far their means are moved, in deviations.
    """

    mean: Tensor
    deviation: Tensor
    change: Tensor

    @staticmethod
    def of(images: Tensor) -> Channels:
        """The channels of images, which stay."""
        values = images.movedim(1, 0).flatten(1)
        mean, deviation = values.mean(1), values.std(1, correction=0).clamp_min(TINY)
        return Channels(mean.view(-1, 1, 1), deviation.view(-1, 1, 1), values.new_zeros(2 * len(mean)))

    def __call__(self, images: Tensor) -> Tensor:
        """Images whose channels are moved."""
        factor, shift = (each.view(-1, 1, 1) for each in self.change.to(images).chunk(2))
        return (images - self.mean) * factor.exp() + self.mean + shift * self.deviation


def _moved_channels(trial: Tensor, far: Callable[[Tensor], Tensor]) -> Channels:
    """Channels, moved so that the mean over images is nearest to what norms remember: by Gauss and Newton.

    What is asked for is how far each image is from that, [images, statistics].
    Slopes are differences, so that networks need not be gone through backwards.
    """

    def left(channels: Channels) -> Tensor:
        return far(channels(trial)).mean(0)

    channels = Channels.of(trial)
    now = left(channels)
    for _ in range(ROUNDS):
        steps = STEP * torch.eye(len(channels.change), dtype=trial.dtype, device=trial.device)
        slopes = torch.stack([left(replace(channels, change=channels.change + step)) - now for step in steps], 1) / STEP
        products = slopes.T @ slopes
        ridge = DAMPING * products.diagonal().mean() + torch.finfo(products.dtype).tiny
        step = torch.linalg.solve(products + ridge * torch.eye(len(products)).to(products), slopes.T @ now)
        tried = replace(channels, change=(channels.change - step).clamp(-FARTHEST, FARTHEST))
        then = left(tried)
        if not float(then.square().sum()) < float(now.square().sum()):
            break
        channels, now = tried, then
    return channels


def herded(far: Tensor, count: int) -> Tensor:
    """Which of some rows [rows, statistics], taken together, have a sum near to zero: one after the other.

    Example:
        >>> herded(torch.tensor([[3.0], [1.0], [9.0], [-1.0]]), 2)
        tensor([1, 3])
    """
    rows = far.double()
    sizes, total, chosen = rows.square().sum(1), rows.new_zeros(rows.shape[1]), []
    for _ in range(count):
        best = int((2 * (rows @ total) + sizes).argmin())
        chosen.append(best)
        total, sizes[best] = total + rows[best], math.inf
    return torch.tensor(chosen, device=far.device)
