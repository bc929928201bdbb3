"""Placing: residual streams of all parents in a stream that is wider than each, but narrower than all together.

Units of a stream cannot be selected, for what is added to a stream stays there. In a wider one there is room: units of
different parents that are much alike (by their correlation, as readers of the stream see them) share a place, the
others get one of their own. What is written to a place is the mean of what the parents at it write; what reads it reads
it for all of them. With a place for every unit nothing is shared, and the network is all parents side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..transport import assignment

TINY = 1e-30  # keeps units that never vary from being divided by zero


@dataclass(frozen=True, eq=False)
class Placed:
    """Where the units of one parent stand in a wider stream.

    Args:
        places: The place of each unit of the parent.
        shares: How much of what is written to that place is this parent's.
        width: How many places there are.
    """

    by_index: ClassVar[bool] = False
    is_identity: ClassVar[bool] = False

    places: Tensor
    shares: Tensor
    width: int

    def carry(self, units: Tensor, *, odd: bool, produced: bool) -> Tensor:
        """Values [parent's units, ...] carried to their places: as a share where units are produced, else whole."""
        carried = units.new_zeros(self.width, *units.shape[1:])
        shares = self.shares.to(units).view(-1, *[1] * (units.dim() - 1))
        carried[self.places] = shares * units if produced else units
        return carried


def placed_units(alike: Tensor, widths: Sequence[int], weights: Sequence[float], width: int) -> list[Placed]:
    """For each parent, where its units stand: alike ones of different parents at one place.

    Parents are placed one after another. Each shares as many places as it must for all to fit, those where its units
    are most like the units that are there.

    Args:
        alike: Correlations of the units of all parents, side by side.
        widths: How many units each parent has.
        weights: Proportions of the parents, summing to 1.
        width: How many places there are: at least as many as the widest parent has units.

    Example:
        >>> [each.places.tolist() for each in placed_units(torch.eye(4), [2, 2], [0.5, 0.5], 4)]
        [[0, 1], [2, 3]]
    """
    places = torch.arange(widths[0], device=alike.device)
    found, used, start = [places], widths[0], widths[0]
    for number, own in enumerate(widths[1:], start=1):
        left = sum(widths[number:])
        shared = min(max(-(-(used + left - width) // (len(widths) - number)), used + own - width, 0), own, used)
        likeness = _likeness(alike[start : start + own, :start], torch.cat(found), used)
        places = _new_places(likeness, shared, used)
        found.append(places)
        used, start = used + own - shared, start + own
    total = torch.zeros(width, dtype=torch.float64, device=alike.device)
    for share, places in zip(weights, found, strict=True):
        total[places] += share
    return [
        Placed(places, share / total[places].clamp_min(TINY), width)
        for share, places in zip(weights, found, strict=True)
    ]


def as_correlations(gram: Tensor) -> Tensor:
    """Products of units as if each had the size one."""
    size = gram.diagonal().clamp_min(TINY).sqrt()
    return gram / torch.outer(size, size)


def _likeness(alike: Tensor, places: Tensor, used: int) -> Tensor:
    """How like the units at each place a parent's units are, on average: [parent's units, places]."""
    sums = alike.new_zeros(len(alike), used).index_add_(1, places, alike)
    return sums / torch.bincount(places, minlength=used).clamp_min(1)


def _new_places(likeness: Tensor, shared: int, used: int) -> Tensor:
    """The place of each unit: some share those that are used, the others follow behind."""
    places = torch.full((len(likeness),), -1, device=likeness.device)
    if shared:
        rows, columns = _pairs(likeness)
        best = likeness[rows, columns].argsort(descending=True, stable=True)[:shared]
        places[rows[best]] = columns[best]
    alone = places < 0
    places[alone] = torch.arange(used, used + int(alone.sum()), device=likeness.device)
    return places


def _pairs(likeness: Tensor) -> tuple[Tensor, Tensor]:
    """Units and places that are most alike, as many pairs as there are of the fewer: no unit, no place twice."""
    units, places = likeness.shape
    side = max(units, places)
    square = torch.nn.functional.pad(likeness, (0, side - places, 0, side - units), value=-1.0)
    columns = assignment(square)[:units]
    rows = torch.arange(units, device=likeness.device)
    real = columns < places
    return rows[real], columns[real]
