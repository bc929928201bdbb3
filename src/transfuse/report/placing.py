"""Where the names of points on a picture go: beside each point, hiding neither another name nor a point."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom

HIDDEN = 8.0  # how much worse it is that a name covers another name, which nobody can read then, than a point or a line
ROUNDS = 3  # times that each name is placed: the first ones know nothing yet of those that come after them
CUT = 4.0  # how much worse it is that a name is cut at the border than that it covers something
ALONG = 40  # boxes that stand for a line: nearer to each other than a name is wide
LINE = 14.0  # height of a line of text, in units of a drawing for a page


def name_boxes(
    points: Sequence[Point], widths: Sequence[float], size: Point, ways: Sequence[tuple[Point, Point]] = (), *,
    line: float = LINE,
) -> list[Box]:  # fmt: skip
    """Where names go: (left, top, right, bottom) of each, beside its point.

    Right or left of it, a little higher or lower: the first place that is inside the picture and free, or the one that
    covers least.

    Args:
        points: Where the points stand.
        widths: How wide the names are.
        size: Width and height of the picture.
        ways: Lines that names should not hide.
        line: The height of a line of text; distances from points grow with it.
    """
    unit = line / LINE
    room = 6 * unit
    covered: list[Box] = [(x - room, y - room, x + room, y + room) for x, y in points]
    covered += [box for way in ways for box in _boxes_along(*way)]
    chosen: dict[int, Box] = {}

    def cost(box: Box, names: Sequence[Box]) -> float:
        hidden = HIDDEN * sum(_shared(box, other) for other in names)
        return sum(_shared(box, other) for other in covered) + hidden + CUT * _outside(box, size)

    for index in [*range(len(points))] * ROUNDS:
        others = [box for each, box in chosen.items() if each != index]
        places = _places(points[index], widths[index], size, unit)
        chosen[index] = min(places, key=partial(cost, names=others))
    return [chosen[index] for index in range(len(points))]


def _places(point: Point, width: float, size: Point, unit: float) -> list[Box]:
    """The places for a name beside its point, the best ones first."""
    (x, y), near, half = point, 8 * unit, LINE * unit / 2
    sides = ((x + near, x + near + width), (x - near - width, x - near))
    return [
        (left, y + shift * unit - half, right, y + shift * unit + half)
        for left, right in (sides if x < size[0] / 2 else sides[::-1])
        for shift in (0.0, 11.0, -11.0, 26.0, -26.0, 41.0, -41.0)
    ]


def _boxes_along(start: Point, end: Point) -> list[Box]:
    """Small boxes that cover a line."""
    steps = [index / ALONG for index in range(ALONG + 1)]
    middles = [(start[0] + t * (end[0] - start[0]), start[1] + t * (end[1] - start[1])) for t in steps]
    return [(x - 3, y - 3, x + 3, y + 3) for x, y in middles]


def _shared(one: Box, other: Box) -> float:
    """The area in which two boxes overlap."""
    return max(0.0, min(one[2], other[2]) - max(one[0], other[0])) * max(
        0.0, min(one[3], other[3]) - max(one[1], other[1])
    )


def _outside(box: Box, size: Point) -> float:
    """The area of a box outside of the picture."""
    return (box[2] - box[0]) * (box[3] - box[1]) - _shared(box, (0.0, 0.0, *size))
