"""Which class a network is to see in which sample, and which classes networks come to see at all.

Inputs are inverted for all networks at once at first. A network that was never shown a class is hardly brought to see
it, while one that knows it is: so inversion itself tells which classes a network knows, without data. Where networks
know different classes, no input shows one class to all of them. Then they take turns: each sample is for one network
alone, and shows a class of its own.

In: networks, and batches that were inverted. Out: numbers of classes. How inputs are moved stands in `inversion`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from ..activations import Batches

ANOTHERS = -100  # in place of a class where a sample is another network's: cross-entropy leaves it out
# Of the probability that the network which is surest of a class comes to, on average. Networks that were never shown a
# class came to 2 to 45 % of it, others to two thirds or more; see docs/notes/data.md.
KNOWN = 0.5
SEEN = 0.25  # probability that some network must come to, on average: of a class that none sees, nothing is told
SHOWN = 6  # runs of classes that are told of each network: more are not read


@dataclass(frozen=True)
class Assigned:
    """Which class each network is to see in which sample.

    Args:
        own: Where networks take turns, sample after sample: for each of them the classes that it is asked for, one
            after another; none: all that it has. Empty: all networks are to see the same class in a sample.
    """

    own: tuple[tuple[int, ...], ...] = ()

    def classes(self, network: int, samples: Tensor, count: int) -> Tensor:
        """The class that a network is to see in each sample; `ANOTHERS` where that is another network's.

        Args:
            network: The number of the network.
            samples: Numbers of the samples, over all batches.
            count: How many classes it has.

        Example:
            >>> Assigned(((0, 1), (2,))).classes(0, torch.arange(6), 3)
            tensor([   0, -100,    1, -100,    0, -100])
        """
        if not self.own:
            return samples % count
        turns, own = len(self.own), torch.tensor(self.own[network] or range(count), device=samples.device)
        return torch.where(samples % turns == network, own[samples // turns % len(own)], ANOTHERS)

    def __str__(self) -> str:
        """Which classes each network is asked for, in a few words; empty where that is nothing special."""
        if not any(self.own):
            return ""
        known = [f"model {number} knows {_runs(own)}" for number, own in enumerate(self.own, start=1)]
        return f"noise, inverted for one model at a time, since they know different classes: {', '.join(known)}"


TOGETHER = Assigned()


def known_classes(
    models: Sequence[nn.Module], inverted: Batches, scores_of: Callable[[Any], Tensor]
) -> tuple[tuple[int, ...], ...]:
    """For each network the classes that it knows; empty if all know the same.

    Args:
        models: Networks with the same outputs, in evaluation mode.
        inverted: Inputs that were moved until all networks see one class after another.
        scores_of: Finds the class scores [samples, classes] in what a network gives.
    """
    if len(models) < 2:
        return ()
    with torch.no_grad():
        reached = torch.stack([_reached([scores_of(batch.run(model)) for batch in inverted]) for model in models])
    best = reached.amax(0)
    known = (reached >= KNOWN * best) | (best < SEEN)
    return () if bool(known.all()) else tuple(tuple(own.nonzero()[:, 0].tolist()) for own in known)


def _reached(scores: Sequence[Tensor]) -> Tensor:
    """The probability that a network gives, on average, to each class in the samples that are to show it; else zero."""
    probabilities = torch.cat(list(scores)).double().softmax(1)
    count = probabilities.shape[1]
    asked = TOGETHER.classes(0, torch.arange(len(probabilities), device=probabilities.device), count)
    right = probabilities.gather(1, asked[:, None])[:, 0]
    return right.new_zeros(count).index_add(0, asked, right) / asked.bincount(minlength=count).clamp_min(1)


def _runs(numbers: Sequence[int]) -> str:
    """Ascending numbers in a few words.

    Example:
        >>> _runs([0, 1, 2, 5, 7, 8])
        '0-2, 5, 7-8'
    """
    found = [list(run) for run in _neighbours(numbers)]
    told = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found]
    return ", ".join(told if len(told) <= SHOWN else [*told[:SHOWN], "..."]) or "none of them"


def _neighbours(numbers: Sequence[int]) -> Iterator[Iterator[int]]:
    """Ascending numbers, cut where one is left out."""
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        yield (number for _, number in run)
