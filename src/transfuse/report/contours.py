"""A surface between the points where it was measured: smooth values, and lines of equal height.

In: values on the lines of a grid, evenly spread or not. Out: values anywhere on it, and polylines. Values are
approximated by cubic B-splines whose coefficients are the measured values (Schoenberg 1967). Such a surface bends where
straight pieces have corners, crosses a cliff that runs aslant without a staircase, which splines *through* all points
draw, and is, but for the cells at the border, nowhere higher or lower than the values around. It passes near the
measured values, not through them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..types import Array

Point = tuple[float, float]
Segment = tuple[Point, Point]


def smooth(values: Array, sides: tuple[Array, Array], x: Array, y: Array) -> Array:
    """Values at all pairs of places [len(y), len(x)] from values [rows, columns] on the lines of a grid (x, y).

    Where one of the points around was not finite, the result is not a number.

    Example:
        >>> lines = np.array([0.0, 1.0]), np.array([0.0, 2.0])
        >>> smooth(np.array([[0.0, 1.0], [2.0, 3.0]]), lines, np.array([0.5]), np.array([0.0, 1.0])).tolist()
        [[0.5], [1.5]]
    """
    across, up = sides
    found = _weights(up, y) @ _filled(values) @ _weights(across, x).T
    return np.where(_unknown(~np.isfinite(values), sides, x, y), np.nan, found)


def _weights(lines: Array, places: Array) -> Array:
    """How much each line counts at each place [places, lines]: the B-spline `b(index of place - index of line)`.

    Beyond the ends the surface goes on as it came in (values are reflected at the points there), so a plane stays a
    plane up to its border.
    """
    last = len(lines) - 1
    if last == 1:
        share = (places - lines[0]) / (lines[1] - lines[0])
        return np.stack([1 - share, share], 1)
    index = np.interp(places, lines, np.arange(last + 1.0))
    weights = _bump(index[:, None] - np.arange(last + 1.0))
    for end, inner in ((0, 1), (last, last - 1)):
        outside = _bump(index - (2 * end - inner))  # of the line beyond the end, whose value is 2 v[end] - v[inner]
        weights[:, end] += 2 * outside
        weights[:, inner] -= outside
    return weights


def _bump(distance: Array) -> Array:
    """The cubic B-spline around 0: `2/3 - d^2 + |d|^3 / 2` up to 1, `(2 - |d|)^3 / 6` up to 2, then 0."""
    far = np.abs(distance)
    found: Array = np.where(far < 1, 2 / 3 - far**2 + far**3 / 2, np.maximum(2 - far, 0) ** 3 / 6)
    return found


def _filled(values: Array) -> Array:
    """Values with those that are not finite replaced by the nearest one that is, so that splines stay finite."""
    filled = np.where(np.isfinite(values), values, 0.0)
    known = np.argwhere(np.isfinite(values))
    for row, column in np.argwhere(~np.isfinite(values)) if len(known) else ():
        nearest = known[np.abs(known - (row, column)).sum(1).argmin()]
        filled[row, column] = values[tuple(nearest)]
    return filled


def _unknown(wrong: Array, sides: tuple[Array, Array], x: Array, y: Array) -> Array:
    """Whether one of the four points around each place is wrong; on a line only the points of that line are around."""
    left, right = _around(sides[0], x)
    lower, upper = _around(sides[1], y)
    found: Array = np.logical_or.reduce(
        [wrong[np.ix_(row, column)] for row in (lower, upper) for column in (left, right)]
    )
    return found


def _around(lines: Array, places: Array) -> tuple[Array, Array]:
    """Numbers of the lines on both sides of each place; twice the same for a place on a line."""
    return (
        np.clip(np.searchsorted(lines, places, "right") - 1, 0, len(lines) - 1),
        np.clip(np.searchsorted(lines, places, "left"), 0, len(lines) - 1),
    )


def segments(values: Array, level: float) -> list[Segment]:
    """Where a surface crosses a level, as segments in units of cells (marching squares, linear on each side).

    Example:
        >>> segments(np.array([[0.0, 1.0], [0.0, 1.0]]), 0.25)
        [((0.25, 0.0), (0.25, 1.0))]
    """
    found: list[Segment] = []
    below = values < level
    mixed = below[:-1, :-1] ^ below[1:, 1:] | below[:-1, 1:] ^ below[1:, :-1] | below[:-1, :-1] ^ below[:-1, 1:]
    for row, column in zip(*map(np.ndarray.tolist, np.nonzero(mixed)), strict=True):
        corners = [(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1)]
        crossings = []
        for (x, y), (u, v) in zip(corners, corners[1:] + corners[:1], strict=True):
            here, there = values[y, x], values[v, u]
            if math.isfinite(here) and math.isfinite(there) and (here < level) != (there < level):
                share = (level - here) / (there - here)
                crossings.append((float(x + share * (u - x)), float(y + share * (v - y))))
        found += list(zip(crossings[::2], crossings[1::2], strict=False))
    return found


def polylines(pieces: Sequence[Segment]) -> list[list[Point]]:
    """Segments joined end to end, as far as they meet; each is used once.

    Example:
        >>> polylines([((0.0, 0.0), (1.0, 0.0)), ((2.0, 0.0), (1.0, 0.0))])
        [[(0.0, 0.0), (1.0, 0.0), (2.0, 0.0)]]
    """
    at: dict[Point, list[int]] = {}
    for number, piece in enumerate(pieces):
        for end in piece:
            at.setdefault(_key(end), []).append(number)
    free = set(range(len(pieces)))
    lines = []
    for number in range(len(pieces)):
        if number in free:
            free.discard(number)
            start, end = pieces[number]
            before = _followed(start, pieces, at, free)
            lines.append([*reversed(before), start, end, *_followed(end, pieces, at, free)])
    return lines


def _followed(end: Point, pieces: Sequence[Segment], at: dict[Point, list[int]], free: set[int]) -> list[Point]:
    """The points that follow an end along segments that are free, which are used up."""
    points = []
    while (number := next((each for each in at[_key(end)] if each in free), None)) is not None:
        free.discard(number)
        one, other = pieces[number]
        end = other if _key(one) == _key(end) else one
        points.append(end)
    return points


def _key(point: Point) -> Point:
    """A point up to rounding: the same crossing is computed from both cells at a side."""
    return round(point[0], 6), round(point[1], 6)
