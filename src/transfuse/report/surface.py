"""A plane as a picture: filled contours, lines between them, what stands under the pointer, marks, a bar of colours.

In: a `Plane`. Out: SVG text. Colours are a small image inside it (a browser draws an image of a few kilobytes faster
than thousands of polygons), interpolated between the evaluated networks along both axes; each of these networks keeps
its own cell, invisible, with its values as title.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Callable, Sequence

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from ..landscape import Plane
from ..landscape.pictures import contour_levels, mark_label, short_number
from ..types import Array
from .svg import WIDTH, Point, colour, drawing

ToPage = Callable[[float, float], Point]  # from a point of the plane to one of the drawing
Box = tuple[float, float, float, float]

SHARP = 2  # pixels of the image for each unit of the drawing: a screen may have two, or the page be enlarged
FINER = 3  # parts into which a side of a cell is cut, so that contours bend inside it and not only at its sides
LETTER, LINE = 6.9, 14.0  # width and height of a letter of a mark's name, in units of the drawing, about


def plane_map(plane: Plane, metric: str) -> Markup:
    """A map of a plane: filled contours of a metric, the marks, and a bar that tells the colours."""
    levels = contour_levels(plane.of(metric), 11)
    scale = WIDTH / float(np.ptp(plane.x))
    high = float(np.ptp(plane.y)) * scale

    def place(x: float, y: float) -> Point:
        return float(x - plane.x[0]) * scale, high - float(y - plane.y[0]) * scale

    parts = [
        _colours(plane, metric, levels, high), _contours(plane, metric, levels, place), _cells(plane, place),
        _marks(plane, metric, place, high), _bar(levels, high + 8),
    ]  # fmt: skip
    return drawing("".join(parts), high + 38, f"{metric} on the plane", "plane")


def _colours(plane: Plane, metric: str, levels: Sequence[float], high: float) -> str:
    """An image with the colour of the band in which each pixel lies; transparent where a value is not finite."""
    pixels = int(SHARP * WIDTH), max(1, round(SHARP * high))
    x, y = (
        np.interp((np.arange(count) + 0.5) / count, (axis - axis[0]) / np.ptp(axis), np.arange(len(axis)))
        for axis, count in zip((plane.x, plane.y), pixels, strict=True)
    )
    values = between(plane.of(metric), x, y)[::-1]
    bands = np.digitize(values, levels[1:-1]).astype(np.uint8)
    bands[~np.isfinite(values)] = len(levels) - 1
    palette = [colour((index + 0.5) / (len(levels) - 1)) for index in range(len(levels) - 1)]
    return (
        f'<image class="surface" width="{WIDTH:.0f}" height="{high:.1f}" preserveAspectRatio="none" '
        f'href="data:image/png;base64,{base64.b64encode(png(bands, palette)).decode()}"/>'
    )


def between(values: Array, x: Array, y: Array) -> Array:
    """Values at places given in cells, linear along both axes.

    Example:
        >>> between(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0.5]), np.array([0.0, 0.5, 1.0])).tolist()
        [[0.5], [1.5], [2.5]]
    """
    left, lower = (
        np.clip(each.astype(int), 0, size - 2) for each, size in zip((x, y), values.shape[::-1], strict=True)
    )
    across, up = x - left, (y - lower)[:, None]
    rows = [_weighted(values[row][:, left], values[row][:, left + 1], across) for row in (lower, lower + 1)]
    return _weighted(rows[0], rows[1], up)


def _weighted(first: Array, second: Array, share: Array) -> Array:
    """A mean of two arrays; where one has no share it does not count, even if it is infinite."""
    with np.errstate(invalid="ignore"):
        mixed: Array = np.where(share == 0, first, np.where(share == 1, second, first + share * (second - first)))
    return mixed


def png(indices: NDArray[np.uint8], palette: Sequence[str]) -> bytes:
    """An image in colours of a palette (`#rrggbb`); the index after the last colour is transparent."""
    height, width = indices.shape
    colours = b"".join(bytes.fromhex(each[1:]) for each in palette) + bytes(3)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), indices], 1).tobytes()  # 0 first: no filter
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0),
        b"PLTE": colours,
        b"tRNS": b"\xff" * len(palette) + b"\0",
        b"IDAT": zlib.compress(rows, 9),
        b"IEND": b"",
    }
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts.items()
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _contours(plane: Plane, metric: str, levels: Sequence[float], place: ToPage) -> str:
    """Thin lines between the bands."""
    columns, rows = np.arange(len(plane.x)), np.arange(len(plane.y))
    finer = [np.linspace(0, size - 1, FINER * (size - 1) + 1) for size in (len(plane.x), len(plane.y))]
    values = between(plane.of(metric), *finer)

    def on_page(x: float, y: float) -> Point:
        """A point of the finer grid, on the drawing."""
        return place(
            float(np.interp(x / FINER, columns, plane.x)), float(np.interp(y / FINER, rows, plane.y))
        )  # fmt: skip

    lines = [line for level in levels[1:-1] for line in segments(values, level)]
    path = "".join("M{:.1f} {:.1f}L{:.1f} {:.1f}".format(*on_page(*start), *on_page(*end)) for start, end in lines)
    return f'<path class="contour" d="{path}"/>'


def segments(values: Array, level: float) -> list[tuple[Point, Point]]:
    """Where a surface crosses a level, as segments in units of cells (marching squares, linear on each side).

    Example:
        >>> segments(np.array([[0.0, 1.0], [0.0, 1.0]]), 0.25)
        [((0.25, 0.0), (0.25, 1.0))]
    """
    found: list[tuple[Point, Point]] = []
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


def _cells(plane: Plane, place: ToPage) -> str:
    """An invisible rectangle around each evaluated network, with its values as title."""
    x, y = _edges(plane.x), _edges(plane.y)
    found = []
    for row in range(len(plane.y)):
        for column in range(len(plane.x)):
            left, lower = place(x[column], y[row])
            right, upper = place(x[column + 1], y[row + 1])
            told = "; ".join(f"{name} {short_number(plane.values[name][row, column])}" for name in plane.metrics)
            where = f"at ({short_number(plane.x[column])}, {short_number(plane.y[row])})"
            box = f'x="{left:.1f}" y="{upper:.1f}" width="{right - left:.1f}" height="{lower - upper:.1f}"'
            found.append(f"<rect {box}><title>{escape(told)} {where}</title></rect>")
    return f'<g class="cells">{"".join(found)}</g>'


def _edges(places: Array) -> Array:
    """Borders of cells: midway between places, and at the first and last."""
    return np.concatenate([places[:1], (places[1:] + places[:-1]) / 2, places[-1:]])


def _marks(plane: Plane, metric: str, place: ToPage, high: float) -> str:
    """Networks as points, each with its name where it hides neither another name nor a point."""
    points = [place(mark.x, mark.y) for mark in plane.marks]
    names = [mark_label(mark, plane) for mark in plane.marks]
    boxes = name_boxes(points, [LETTER * len(name) for name in names], high)
    parts = []
    for mark, name, (x, y), box in zip(plane.marks, names, points, boxes, strict=True):
        told = "; ".join(f"{key} {short_number(value)}" for key, value in mark.values.items())
        title = f"{name}: {told}" if told else name
        left = box[0] < x - 1
        parts.append(
            f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="4.5"><title>{escape(title)}</title></circle>'
            f'<text class="mark" x="{box[2] if left else box[0]:.1f}" y="{box[1] + 11:.1f}" '
            f'text-anchor="{"end" if left else "start"}">{escape(name)}</text>'
        )
    return "".join(parts)


def name_boxes(points: Sequence[Point], widths: Sequence[float], high: float) -> list[Box]:
    """Where names go: (left, top, right, bottom) of each, beside its point.

    Right or left of it, a little higher or lower: the first place that is inside the picture and free, or the one that
    covers least.
    """
    taken: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    chosen = []
    for (x, y), width in zip(points, widths, strict=True):
        sides = ((x + 8, x + 8 + width), (x - 8 - width, x - 8))
        places = [
            (left, y + shift - LINE / 2, right, y + shift + LINE / 2)
            for left, right in (sides if x < WIDTH / 2 else sides[::-1])
            for shift in (0.0, 11.0, -11.0, 26.0, -26.0)
        ]
        best = min(places, key=lambda box: sum(_shared(box, other) for other in taken) + _outside(box, high))
        taken.append(best)
        chosen.append(best)
    return chosen


def _shared(one: Box, other: Box) -> float:
    """The area in which two boxes overlap."""
    return max(0.0, min(one[2], other[2]) - max(one[0], other[0])) * max(
        0.0, min(one[3], other[3]) - max(one[1], other[1])
    )


def _outside(box: Box, high: float) -> float:
    """The area of a box outside of the picture."""
    return (box[2] - box[0]) * (box[3] - box[1]) - _shared(box, (0.0, 0.0, WIDTH, high))


def _bar(levels: Sequence[float], top: float) -> str:
    """A bar of the colours with the values at the edges of bands."""
    step = WIDTH / (len(levels) - 1)
    boxes = []
    for index in range(len(levels) - 1):
        fill = colour((index + 0.5) / (len(levels) - 1))
        boxes.append(f'<rect x="{index * step:.1f}" y="{top:.1f}" width="{step + 0.3:.1f}" height="9" fill="{fill}"/>')
    for index in range(0, len(levels), 2):
        anchor = "start" if index == 0 else "end" if index == len(levels) - 1 else "middle"
        place = f'x="{index * step:.1f}" y="{top + 22:.1f}" text-anchor="{anchor}"'
        boxes.append(f"<text {place}>{short_number(levels[index])}</text>")
    return "".join(boxes)
