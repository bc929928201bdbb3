"""Where the names of points on a picture go: beside each point, hiding neither another name nor a point."""

from __future__ import annotations

from collections.abc import Sequence

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom

LINE = 14.0  # height of a line of text, in units of the drawing


def name_boxes(points: Sequence[Point], widths: Sequence[float], size: Point) -> list[Box]:
    """Where names go: (left, top, right, bottom) of each, beside its point.

    Right or left of it, a little higher or lower: the first place that is inside the picture and free, or the one that
    covers least.

    Args:
        points: Where the points stand.
        widths: How wide the names are.
        size: Width and height of the picture.
    """
    taken: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    chosen = []
    for (x, y), width in zip(points, widths, strict=True):
        sides = ((x + 8, x + 8 + width), (x - 8 - width, x - 8))
        places = [
            (left, y + shift - LINE / 2, right, y + shift + LINE / 2)
            for left, right in (sides if x < size[0] / 2 else sides[::-1])
            for shift in (0.0, 11.0, -11.0, 26.0, -26.0)
        ]
        best = min(places, key=lambda box: sum(_shared(box, other) for other in taken) + _outside(box, size))
        taken.append(best)
        chosen.append(best)
    return chosen


def _shared(one: Box, other: Box) -> float:
    """The area in which two boxes overlap."""
    return max(0.0, min(one[2], other[2]) - max(one[0], other[0])) * max(
        0.0, min(one[3], other[3]) - max(one[1], other[1])
    )


def _outside(box: Box, size: Point) -> float:
    """The area of a box outside of the picture."""
    return (box[2] - box[0]) * (box[3] - box[1]) - _shared(box, (0.0, 0.0, *size))
