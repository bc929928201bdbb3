"""Charts as SVG: curves, a coupling; and what `surface` shares with them: colours and the frame.

In: numbers. Out: markup whose colours come from the page's style sheet, so that one picture serves light, dark and
print; values stand in titles, which a pointer shows without script. Made here and not by a template, for nearly every
character of it is arithmetic; names that users chose are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from markupsafe import Markup, escape

from ..landscape.pictures import short_number
from ..types import Array

Point = tuple[float, float]
Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]

WIDTH = 380.0  # about a telephone's: letters keep their size there, and grow on wider screens
LEFT, TOP, RIGHT, BOTTOM = 42.0, 10.0, WIDTH - 8, 200.0  # of the lines of a chart; numbers and the legend are around
# Viridis, which the colour-blind read as well, and which grows evenly in grey.
VIRIDIS = ("440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725")


@dataclass(frozen=True)
class Chart:
    """Where the values of curves stand on a drawing.

    Args:
        ends: The first and the last x.
        marks: Round numbers along y, from the lowest to the highest.
    """

    ends: tuple[float, float]
    marks: tuple[float, ...]

    @staticmethod
    def around(lines: Iterable[tuple[Sequence[float], Sequence[float]]], *, zero: bool = True) -> Chart:
        """A chart that holds all finite values of lines; y starts at 0 or below, unless `zero` is False."""
        pairs = [pair for xs, ys in lines for pair in zip(xs, ys, strict=True)]
        xs = [x for x, _ in pairs]
        ys = [y for _, y in pairs if math.isfinite(y)] or [0.0]
        return Chart((min(xs), max(xs)), tuple(nice_ticks(min([0.0, *ys] if zero else ys), max(ys))))

    def place(self, x: float, y: float) -> Point:
        """The point of the drawing where a value stands."""
        across = (x - self.ends[0]) / ((self.ends[1] - self.ends[0]) or 1)
        up = (y - self.marks[0]) / (self.marks[-1] - self.marks[0])
        return LEFT + (RIGHT - LEFT) * across, BOTTOM - (BOTTOM - TOP) * up

    def inside(self, x: float, y: float) -> Point:
        """The point where a value stands, or would if it were on the chart; what is no number stands at its top."""
        return self.place(x, min(max(y, self.marks[0]), self.marks[-1]) if not math.isnan(y) else self.marks[-1])


def curves(series: Series, chart: Chart, *, ticks: Mapping[float, str], label: str, over: str = "") -> Markup:
    """A chart of lines with a legend below; x has the given ticks, and markup that is ready is drawn over the lines."""
    low, high = chart.ends
    parts = [
        _rule(chart.place(low, y), chart.place(high, y), text)
        for y, text in zip(chart.marks, tick_texts(chart.marks), strict=True)
    ]
    for x, text in ticks.items():
        across = chart.place(x, chart.marks[0])[0]
        anchor = "start" if x == low else "end" if x == high else "middle"
        parts.append(f'<text x="{across:.1f}" y="{BOTTOM + 15:.0f}" text-anchor="{anchor}">{escape(text)}</text>')
    for index, (name, each) in enumerate(series.items()):
        points = [(chart.place(x, y), x, y) for x, y in zip(*each, strict=True) if math.isfinite(y)]
        parts.append(_line(index, name, points, label))
        parts.append(_legend(index, name, LEFT, BOTTOM + 34 + 16 * index))
    height = BOTTOM + 26 + 16 * len(series)
    return drawing("".join([*parts, over]), height, f"{label} along {', '.join(series)}")


def nice_ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers that enclose a range.

    Example:
        >>> nice_ticks(0, 8.7), nice_ticks(3.0, 3.0)
        ([0.0, 2.0, 4.0, 6.0, 8.0, 10.0], [3.0, 4.0, 5.0, 6.0])
    """
    if high - low <= max(1e-9 * max(abs(low), abs(high)), 1e-300):  # flat: any range above it
        high = low + (abs(low) if abs(low) > 1e-280 else 1.0)
    step = 10.0 ** math.floor(math.log10(high - low))
    step *= next(factor for factor in (0.2, 0.5, 1.0, 2.0) if (high - low) / (step * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Texts of ticks with a few digits, or with as many as tell them apart.

    Example:
        >>> tick_texts([0.0, 2.5, 5.0]), tick_texts([103.8, 104.0, 104.2])
        (['0', '2.5', '5'], ['103.8', '104.0', '104.2'])
    """
    texts = [short_number(tick) for tick in ticks]
    if len(set(texts)) == len(texts):
        return texts
    digits = max(0, -math.floor(math.log10(min(b - a for a, b in pairwise(ticks)))))
    return [f"{tick:.{digits}f}" for tick in ticks]


def coupling_squares(image: Array) -> Markup:
    """Entries of a coupling as squares, darker where larger; negated units in another colour."""
    rows, columns = image.shape
    top = float(np.abs(image).max()) or 1.0
    squares = []
    for row, column in zip(*np.nonzero(np.abs(image) > 0.02 * top), strict=True):
        share = float(image[row, column]) / top
        kind = "negative" if share < 0 else "positive"
        squares.append(f'<path class="{kind}" d="M{column} {row}h1v1h-1z" opacity="{abs(share):.2f}"/>')
    return Markup(
        f'<svg class="coupling" viewBox="0 0 {columns} {rows}" role="img" aria-label="coupling" '
        f'preserveAspectRatio="none" shape-rendering="crispEdges">{"".join(squares)}</svg>'
    )


def colour(share: float) -> str:
    """The colour of viridis for a share from 0 to 1, as `#rrggbb`.

    Example:
        >>> colour(0.0), colour(1.0)
        ('#440154', '#fde725')
    """
    place = min(max(share, 0.0), 1.0) * (len(VIRIDIS) - 1)
    low = min(int(place), len(VIRIDIS) - 2)
    ends = [[int(VIRIDIS[low + step][at : at + 2], 16) for at in (0, 2, 4)] for step in (0, 1)]
    mixed = [round(a + (b - a) * (place - low)) for a, b in zip(*ends, strict=True)]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _rule(start: Point, end: Point, text: str) -> str:
    """A horizontal line of the chart with its value on the left."""
    return (
        f'<path class="rule" d="M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"/>'
        f'<text x="{start[0] - 5:.1f}" y="{start[1] + 3.5:.1f}" text-anchor="end">{text}</text>'
    )


def _line(index: int, name: str, points: Sequence[tuple[Point, float, float]], label: str) -> str:
    """One series as a line with a dot at each point; a dot tells its values."""
    path = "L".join(f"{x:.1f} {y:.1f}" for (x, y), _, _ in points)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6">'
        f"<title>{escape(name)}: {escape(label)} {short_number(b)} at {short_number(a)}</title></circle>"
        for (x, y), a, b in points
    )
    return f'<g class="series s{index % 6}"><path d="M{path}"/>{dots}</g>'


def _legend(index: int, name: str, x: float, y: float) -> str:
    """The name of a series beside a piece of its line."""
    return (
        f'<g class="series s{index % 6}"><path d="M{x:.1f} {y - 4:.1f}h22"/>'
        f'<circle cx="{x + 11:.1f}" cy="{y - 4:.1f}" r="2.6"/></g>'
        f'<text x="{x + 28:.1f}" y="{y:.1f}">{escape(name)}</text>'
    )


def drawing(content: str, height: float, label: str, kind: str = "chart") -> Markup:
    """A picture of the common width around markup that is ready."""
    size = f'viewBox="0 0 {WIDTH:.0f} {height:.0f}"'
    return Markup(f'<svg class="{kind}" {size} role="img" aria-label="{escape(label)}">{content}</svg>')
