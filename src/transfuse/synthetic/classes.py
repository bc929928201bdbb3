"""Which classes networks know, by what inversion brings them to see.

A network that was never shown a class is hardly brought to see it, while one that knows it is: so inputs that were
inverted for all networks at once tell which classes each of them knows, without data.

In: networks, and batches that were inverted. Out: numbers of classes, and what is told of them. How inputs are moved
stands in `inversion`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

Known = tuple[tuple[int, ...], ...]  # for each network the classes that it knows

# Of the probability that the network which is surest of a class comes to, on average. Networks that were never shown a
# class came to 2 to 45 % of it (weak ones to 67 %), pairs that know the same to 90 % or more; see docs/notes/data.md.
KNOWN = 0.5
SEEN = 0.25  # probability that some network must come to, on average: of a class that none sees, nothing is told
SHOWN = 6  # runs of classes that are told of each network: more are not read


def known_classes(scores: Sequence[Tensor]) -> Known:
    """For each network the classes that it knows; empty if all know the same.

    Args:
        scores: Of each network the class scores [samples, classes] on inputs in which it was to see one class after
            another, from the first to the last and again.

    Example:
        >>> known_classes([torch.tensor([[9.0, 0.0], [0.0, 9.0]]), torch.tensor([[9.0, 0.0], [9.0, 0.0]])])
        ((0, 1), (0,))
    """
    reached = torch.stack([_reached(each) for each in scores])
    best = reached.amax(0)
    known = (reached >= KNOWN * best) | (best < SEEN)
    return () if bool(known.all()) else tuple(tuple(own.nonzero()[:, 0].tolist()) for own in known)


def _reached(scores: Tensor) -> Tensor:
    """The probability that a network gives, on average, to each class in the samples that are to show it; else zero."""
    samples, count = scores.shape
    asked = torch.arange(samples, device=scores.device) % count
    right = scores.double().softmax(1).gather(1, asked[:, None])[:, 0]
    return right.new_zeros(count).index_add(0, asked, right) / asked.bincount(minlength=count).clamp_min(1)


def told_known(known: Known) -> str:
    """What inverted inputs are where networks know different classes, in a few words; empty where they do not.

    Example:
        >>> print(told_known(((0, 1, 2, 5), (3, 4))).partition(": ")[2])
        model 1 knows 0-2, 5; model 2 knows 3-4
    """
    told = [f"model {number} knows {_runs(own)}" for number, own in enumerate(known, start=1)]
    why = "noise, inverted for one model at a time, since they know different classes"
    return f"{why}: {'; '.join(told)}" if told else ""


def _runs(numbers: Sequence[int]) -> str:
    """Ascending numbers in a few words: 0-2, 5, 7-8."""
    found = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    told = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found]
    return ", ".join(told if len(told) <= SHOWN else [*told[:SHOWN], "..."]) or "none of them"
