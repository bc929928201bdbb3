"""What pictures of planes, barriers and couplings show, before anyone draws them: levels, cells, numbers, labels.

In: records and matrices. Out: plain numbers and texts. Figures (`plots`) and pages (`report`) both draw from here, so
that they say the same. No drawing here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError
from ..types import Array
from .records import Barrier, Mark, Plane
from .scoring import less_is_better, more_is_better

# Names of places on the segment between two networks, by their position on it.
PLACES = {0.0: "model 1", 0.5: "midpoint", 1.0: "model 2"}
LONGEST = 24  # characters of a name below the end of a segment: two longer ones would meet
OFF = 0.01  # of the plane's width: a network nearer to the plane than this is drawn as if it were on it
FLAT = 1e-12  # of the lowest value: a plane whose values differ by less has one colour, for the rest is rounding
LOWEST = 0.01  # of the range of values: how high the first contour is above the lowest value


def contour_levels(values: ArrayLike, count: int, *, more_is_better: bool = False) -> list[float]:
    """Edges of bands from the lowest to the highest finite value, whose heights above the lowest grow by one factor.

    Where more is better, depths below the highest value do so: bands are narrow where networks are good.

    Raises:
        InputError: no value is finite.

    Example:
        >>> [round(edge, 2) for edge in contour_levels([2.0, 102.0], 4)]
        [2.0, 3.0, 12.0, 102.0]
        >>> [round(edge, 2) for edge in contour_levels([2.0, 102.0], 4, more_is_better=True)]
        [2.0, 92.0, 101.0, 102.0]
    """
    if more_is_better:
        return [-edge for edge in reversed(contour_levels(-np.asarray(values, float), count))]
    finite = np.asarray(values, float)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        raise InputError(
            "no value of this plane is finite, so there is nothing to draw; check evaluate on the three networks"
        )
    low, span = float(finite.min()), float(np.ptp(finite))
    if span <= FLAT * max(abs(low), 1e-300):
        around = max(abs(low), 1.0) * 1e-6
        return [low - around, low + around]
    return [low, *(low + span * np.geomspace(LOWEST, 1, max(2, count - 1))).tolist()]


def entries_per_row(matrix: ArrayLike) -> float:
    """How many entries share the mass of a row, on average: 1 for a permutation, the width for a uniform coupling.

    `(sum |p|)^2 / sum p^2` of each row.

    Example:
        >>> entries_per_row([[0.0, 1.0], [0.5, 0.5]])
        1.5
    """
    entries = np.abs(np.asarray(matrix, float))
    mass = entries.sum(1)
    return float(np.mean(mass**2 / np.maximum((entries**2).sum(1), 1e-300)))


def pooled(matrix: Array, finest: int) -> Array:
    """A matrix in at most `finest` rows and columns, each cell the entry of largest size in its part of the matrix.

    Example:
        >>> pooled(np.array([[1.0, 0.0, 0.0, -3.0]]), 2).tolist()
        [[1.0, -3.0]]
    """
    for axis in (0, 1):
        if matrix.shape[axis] > finest:
            parts = np.array_split(matrix, finest, axis)
            matrix = np.stack([_largest(part, axis) for part in parts], axis)
    return matrix


def _largest(part: Array, axis: int) -> Array:
    """Along an axis, the entry of largest size with its sign."""
    chosen = np.expand_dims(np.abs(part).argmax(axis), axis)
    found: Array = np.take_along_axis(part, chosen, axis).squeeze(axis)
    return found


def short_number(value: float) -> str:
    """A number for a reader, with three digits, or all of its digits before the point.

    Example:
        >>> short_number(0.012345), short_number(12.3456), short_number(98765.4), short_number(float("nan"))
        ('0.0123', '12.3', '98765', 'nan')
    """
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def best_value(metric: str, values: Sequence[float]) -> float | None:
    """The best value of a metric, highest or lowest as its name says; nothing if its name says neither.

    Example:
        >>> best_value("test accuracy", [97.5, 98.0]), best_value("loss", [0.3, 0.2]), best_value("size", [1.0, 2.0])
        (98.0, 0.2, None)
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite or not (more_is_better(metric) or less_is_better(metric)):
        return None
    return max(finite) if more_is_better(metric) else min(finite)


def column_texts(values: Sequence[float]) -> list[str]:
    """Numbers of one column with as many decimals each, so that points stand below each other.

    The smallest has three digits; where that would take more than six decimals, each number has four digits.

    Example:
        >>> column_texts([2.6711, 12.0, 2.17]), column_texts([1e-9, 1.0]), column_texts([float("inf"), 98765.0])
        (['2.67', '12.00', '2.17'], ['1e-09', '1'], ['inf', '98765'])
    """
    sizes = [abs(value) for value in values if math.isfinite(value) and value]
    decimals = max(0, 2 - math.floor(math.log10(min(sizes)))) if sizes else 0
    if decimals > 6:
        return [f"{value:.4g}" for value in values]
    return [f"{value + 0.0:.{decimals}f}" if math.isfinite(value) else str(value) for value in values]


def barrier_label(name: str, barriers: Barrier | Sequence[Barrier], metric: str | None = None) -> str:
    """The name of a curve in a legend, with the height of its barrier; of several the mean, and the least and the most.

    Example:
        >>> low, high = (Barrier({"loss": np.array([1.0, top, 1.0])}, np.array([0.0, 0.5, 1.0])) for top in (2.0, 4.0))
        >>> barrier_label("aligned", low), barrier_label("aligned", [low, high])
        ('aligned (barrier 1)', 'aligned (barrier 2, from 1 to 3)')
    """
    given = [barriers] if isinstance(barriers, Barrier) else barriers
    heights = [each.height(metric) for each in given]
    span = f", from {short_number(min(heights))} to {short_number(max(heights))}" if len(heights) > 1 else ""
    return f"{name} (barrier {short_number(float(np.mean(heights)))}{span})"


def places_between(ends: Sequence[str]) -> dict[float, str]:
    """Names of places on the segment between two networks of these names, by their position; long names are cut.

    Example:
        >>> places_between(["seed-0", "a-network-with-a-very-long-name"])
        {0.0: 'seed-0', 0.5: 'midpoint', 1.0: 'a-network-with-a-very-l…'}
    """
    start, end = (name if len(name) <= LONGEST else name[: LONGEST - 1] + "…" for name in ends)
    return {0.0: start, 0.5: PLACES[0.5], 1.0: end}


def mark_label(mark: Mark, plane: Plane) -> str:
    """The name of a network on a map, with its distance if it is off the plane.

    Example:
        >>> plane = Plane({}, np.array([0.0, 1.0]), np.array([0.0, 1.0]), ())
        >>> mark_label(Mark("fused", 0.5, 0.5, 0.25, {}), plane)
        'fused (0.25 off the plane)'
    """
    off = mark.distance > OFF * np.ptp(plane.x)
    return f"{mark.name} ({short_number(mark.distance)} off the plane)" if off else mark.name
