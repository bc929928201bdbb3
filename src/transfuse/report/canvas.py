"""Drawing on pixels: lines, discs and text with soft edges, over an array [rows, columns, 3] of red, green and blue.

In: the array, and what to draw where, x to the right and y down. Out: nothing; the array is painted on. For pictures
that are written where no browser is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..types import Array
from .lettering import text_pixels

Point = tuple[float, float]


def paint_text(pixels: Array, text: str, corner: Point, size: float, colour: str, weight: str = "normal") -> None:
    """Write a line of text whose upper left corner is given; what lies outside of the picture is cut."""
    _paint(pixels, text_pixels(text, size, weight), (round(corner[0]), round(corner[1])), colour)


def paint_line(pixels: Array, points: Sequence[Point], radius: float, colour: str) -> None:
    """Draw a line through points, whose half width is given; its ends and bends are round."""
    reach = math.ceil(radius + 1)
    left, top = (math.floor(min(point[axis] for point in points)) - reach for axis in (0, 1))
    right, bottom = (math.ceil(max(point[axis] for point in points)) + reach for axis in (0, 1))
    y, x = np.mgrid[top:bottom, left:right] + 0.5
    nearest = np.full(x.shape, np.inf)
    for (a, b), (c, d) in pairwise(points):
        length = (c - a) ** 2 + (d - b) ** 2
        share = np.clip(((x - a) * (c - a) + (y - b) * (d - b)) / length, 0, 1) if length else 0.0
        nearest = np.minimum(nearest, np.hypot(x - a - share * (c - a), y - b - share * (d - b)))
    _paint(pixels, np.clip(radius + 0.5 - nearest, 0, 1), (left, top), colour)


def paint_disc(pixels: Array, middle: Point, radius: float, colour: str) -> None:
    """Draw a disc."""
    paint_line(pixels, (middle, middle), radius, colour)


def _paint(pixels: Array, covered: Array, corner: tuple[int, int], colour: str) -> None:
    """Lay a colour over pixels, as much as each is covered."""
    left, top = corner
    inner = covered[max(-top, 0) :, max(-left, 0) :]
    part = pixels[max(top, 0) :, max(left, 0) :][: inner.shape[0], : inner.shape[1]]
    shade = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)], float)
    part += inner[: part.shape[0], : part.shape[1], None] * (shade - part)
