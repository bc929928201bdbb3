"""Lines of a grid along one side of a plane: through given places, and closer to each other near them.

In: places and ends. Out: coordinates, sorted. A surface bends most near the networks, where it is lowest; lines that
are spread evenly miss the networks themselves, and draw the basins around them with corners.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..types import Array

PULL = 2.0  # how many times as dense lines are at a place as far from it, less 1
REACH = 0.06  # of the side: so far from a place, half of the pull is left
TABLE = 4097  # entries of the tabulated integral: far more than lines, so that its inverse is exact on any screen


def lines_near(places: Sequence[float], low: float, high: float, count: int) -> Array:
    """So many lines from one end to the other, one through each place if there are enough, and denser near places.

    Between neighbouring knots (ends and places) lines stand at equal steps of the integral of the density
    `1 + PULL sum_p 1 / (1 + ((t - p) / r)^2)`.

    Example:
        >>> lines_near([0.0, 10.0], -2.0, 12.0, 9).round(1).tolist()
        [-2.0, -0.8, 0.0, 1.8, 5.0, 8.2, 10.0, 10.8, 12.0]
    """
    fine = np.linspace(low, high, TABLE)
    integral = _mass(fine, places, REACH * (high - low))
    knots = _knots(places, low, high, count)
    at_knots = np.interp(knots, fine, integral)
    steps = _whole_shares(np.diff(at_knots), count - 1)
    inner = [
        np.interp(np.linspace(start, end, parts + 1)[1:-1], integral, fine)
        for start, end, parts in zip(at_knots[:-1], at_knots[1:], steps, strict=True)
    ]
    return np.sort(np.concatenate([knots, *inner]))


def _mass(at: Array, places: Sequence[float], reach: float) -> Array:
    """The integral of the density up to each point."""
    pulls = [PULL * reach * np.arctan((at - place) / reach) for place in places]
    total: Array = at + np.sum(pulls, 0)
    return total


def _knots(places: Sequence[float], low: float, high: float, count: int) -> Array:
    """The ends and the places between them; the ends alone where there are fewer lines than knots.

    Of places nearer to each other than half of an even step the first counts, for a line is near to both.
    """
    close = (high - low) / (2 * count)
    knots = [low, high]
    for place in places:
        if min(abs(place - knot) for knot in knots) > close:
            knots.append(place)
    return np.array(sorted(knots) if len(knots) <= count else [low, high])


def _whole_shares(weights: Array, total: int) -> list[int]:
    """Whole numbers in proportion to weights, at least 1 each, that sum to a total: who has most too few gets the next.

    Example:
        >>> _whole_shares(np.array([1.0, 5.0, 2.0]), 8)
        [1, 5, 2]
    """
    shares = [1] * len(weights)
    for _ in range(total - len(shares)):
        shares[int(np.argmax(weights / np.array(shares)))] += 1
    return shares
