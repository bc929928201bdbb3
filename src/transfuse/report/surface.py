"""A plane as a picture: colours, lines of equal height, what stands under the pointer, marks, a bar of colours.

In: a `Plane`, and the levels that all planes of a page share. Out: SVG text. Colours are a small image inside it (a
browser draws an image of a few kilobytes faster than thousands of polygons, and smooths it), interpolated between the
evaluated networks; each of these networks keeps its own cell, invisible, with its values as title.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from ..landscape import Mark, Plane
from ..landscape.pictures import contour_levels, mark_label, short_number
from ..types import Array
from .contours import polylines, segments, smooth
from .images import data_address, palette_png
from .placing import name_boxes
from .svg import WIDTH, Point, colour, drawing

LEVELS = 11  # edges of bands: as many colours as a reader can tell apart on a bar
PIXELS = 380  # of the image along its width: one for each unit of the drawing, smoothed when the page is enlarged
MESH = 128  # lines across the picture on which contours are found: about a pixel of a telephone from each other
COLOURS = 250  # in the palette of an image, which holds at most 256: steps that nobody sees
LETTER = 6.9  # width of a letter of a mark's name, in units of the drawing, about


@dataclass(frozen=True, eq=False)
class Ground:
    """Where a plane stands on a drawing, and how its values become shares of the scale of colours.

    Args:
        plane: The plane.
        metric: Which of its values are shown.
        levels: Edges of bands, rising; each band is an equal share of the scale.
    """

    plane: Plane
    metric: str
    levels: tuple[float, ...]

    @property
    def high(self) -> float:
        """The height of the map on the drawing."""
        return float(np.ptp(self.plane.y)) * WIDTH / float(np.ptp(self.plane.x))

    def place(self, x: float, y: float) -> Point:
        """From a point of the plane to one of the drawing."""
        scale = WIDTH / float(np.ptp(self.plane.x))
        return float(x - self.plane.x[0]) * scale, self.high - float(y - self.plane.y[0]) * scale

    def colour_of(self, mark: Mark) -> str:
        """The colour of a network's own value, which is not that of its foot on the plane; white if it has none."""
        value = mark.values.get(self.metric, math.nan)
        return colour(float(self._share(np.array(value)))) if math.isfinite(value) else "#ffffff"

    def _share(self, values: Array) -> Array:
        """Which share of the scale values are."""
        return np.interp(values, self.levels, np.linspace(0, 1, len(self.levels)))

    def shares(self, columns: int, *, inside: bool) -> Array:
        """Shares of the scale on an even grid of so many columns, lowest row first, interpolated.

        Args:
            columns: How many places there are across.
            inside: Whether places are middles of cells, as pixels are; otherwise they reach the ends of the picture.
        """
        rows = max(2, round(columns * self.high / WIDTH))
        x, y = (
            side[0] + np.ptp(side) * ((np.arange(count) + 0.5) / count if inside else np.linspace(0, 1, count))
            for side, count in ((self.plane.x, columns), (self.plane.y, rows))
        )
        measured = self.plane.of(self.metric)
        known = np.where(np.isfinite(measured), self._share(measured), np.nan)
        found = smooth(known, (self.plane.x, self.plane.y), x, y)
        return np.clip(found, 0, 1)


def shared_levels(planes: Sequence[Plane], metric: str) -> tuple[float, ...]:
    """Levels for all planes of a page, so that one colour is one value on all of them."""
    return tuple(contour_levels(np.concatenate([plane.of(metric).ravel() for plane in planes]), LEVELS))


def plane_map(ground: Ground, over: str = "", ways: Sequence[tuple[Point, Point]] = ()) -> Markup:
    """A map of a plane: colours and contours of a metric, the marks, and a bar that tells the colours.

    Args:
        ground: The plane on its drawing.
        over: Markup that is ready, drawn above colours and below marks.
        ways: Lines in it that names of marks should not hide.
    """
    parts = [
        _colours(ground), _contours(ground), _cells(ground), over, _marks(ground, ways),
        _bar(ground.levels, ground.high + 8),
    ]  # fmt: skip
    return drawing("".join(parts), ground.high + 38, f"{ground.metric} on the plane", "plane")


def _colours(ground: Ground) -> str:
    """An image with the colour of each pixel; transparent where a value is not finite."""
    shares = ground.shares(PIXELS, inside=True)[::-1]
    indices = np.where(np.isfinite(shares), np.nan_to_num(shares) * (COLOURS - 1), COLOURS).round().astype(np.uint8)
    content = palette_png(indices, [colour(index / (COLOURS - 1)) for index in range(COLOURS)])
    return (
        f'<image class="surface" width="{WIDTH:.0f}" height="{ground.high:.1f}" preserveAspectRatio="none" '
        f'href="{data_address(content, "image/png")}"/>'
    )


def _contours(ground: Ground) -> str:
    """Thin lines at the edges of bands."""
    shares = ground.shares(MESH, inside=False)
    across, up = WIDTH / (MESH - 1), ground.high / (len(shares) - 1)
    lines = [
        line
        for index in range(1, len(ground.levels) - 1)
        for line in polylines(segments(shares, index / (len(ground.levels) - 1)))
    ]
    path = "".join("M" + "L".join(f"{x * across:.1f} {ground.high - y * up:.1f}" for x, y in line) for line in lines)
    return f'<path class="contour" d="{path}"/>'


def _cells(ground: Ground) -> str:
    """An invisible rectangle around each evaluated network, with its values as title."""
    plane = ground.plane
    x, y = _edges(plane.x), _edges(plane.y)
    found = []
    for row in range(len(plane.y)):
        for column in range(len(plane.x)):
            left, lower = ground.place(x[column], y[row])
            right, upper = ground.place(x[column + 1], y[row + 1])
            told = "; ".join(f"{name} {short_number(plane.values[name][row, column])}" for name in plane.metrics)
            where = f"at ({short_number(plane.x[column])}, {short_number(plane.y[row])})"
            box = f'x="{left:.1f}" y="{upper:.1f}" width="{right - left:.1f}" height="{lower - upper:.1f}"'
            found.append(f"<rect {box}><title>{escape(told)} {where}</title></rect>")
    return f'<g class="cells">{"".join(found)}</g>'


def _edges(places: Array) -> Array:
    """Borders of cells: midway between places, and at the first and last."""
    return np.concatenate([places[:1], (places[1:] + places[:-1]) / 2, places[-1:]])


def _marks(ground: Ground, ways: Sequence[tuple[Point, Point]]) -> str:
    """Networks as points in the colours of their own values, each with its name where it hides least."""
    marks = ground.plane.marks
    points = [ground.place(mark.x, mark.y) for mark in marks]
    names = [mark_label(mark, ground.plane) for mark in marks]
    boxes = name_boxes(points, [LETTER * len(name) for name in names], (WIDTH, ground.high), ways)
    edges = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6.6"/>' for x, y in points)
    parts = [f"<g>{edges}</g>"]
    for mark, name, (x, y), box in zip(marks, names, points, boxes, strict=True):
        told = "; ".join(f"{key} {short_number(value)}" for key, value in mark.values.items())
        title = f"{name}: {told}" if told else name
        left = box[0] < x - 1
        parts.append(
            f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{ground.colour_of(mark)}">'
            f"<title>{escape(title)}</title></circle>"
            f'<text class="mark" x="{box[2] if left else box[0]:.1f}" y="{box[1] + 11:.1f}" '
            f'text-anchor="{"end" if left else "start"}">{escape(name)}</text>'
        )
    return "".join(parts)


def _bar(levels: Sequence[float], top: float) -> str:
    """A bar of the colours, with the values at every second edge of a band."""
    step = WIDTH / (len(levels) - 1)
    ramp = palette_png(np.arange(COLOURS, dtype=np.uint8)[None], [colour(i / (COLOURS - 1)) for i in range(COLOURS)])
    parts = [
        f'<image x="0" y="{top:.1f}" width="{WIDTH:.0f}" height="9" preserveAspectRatio="none" '
        f'href="{data_address(ramp, "image/png")}"/>'
    ]
    for index in range(0, len(levels), 2):
        anchor = "start" if index == 0 else "end" if index == len(levels) - 1 else "middle"
        place = f'x="{index * step:.1f}" y="{top + 22:.1f}" text-anchor="{anchor}"'
        parts.append(f"<text {place}>{short_number(levels[index])}</text>")
    return "".join(parts)
