"""The preview card of a page: what a chat or a feed shows of it, 1200 by 630 pixels.

In: the first lines of the page, and its journey. Out: a PNG file. It says what the page says first: one sentence, one
large number, the plane with the ways on it, or the curves if there is no plane.
"""

from __future__ import annotations

import numpy as np

from ..landscape.pictures import mark_label
from ..types import Array
from .canvas import paint_disc, paint_line, paint_text
from .first_lines import Opening
from .images import colour_png
from .lettering import fitting, text_width, wrapped
from .placing import name_boxes
from .surface import Ground
from .svg import BOTTOM, LEFT, RIGHT, TOP, VIRIDIS, WIDTH, Point
from .travel import Journey, picture_routes

SIZE = (1200, 630)  # pixels: what the services that show cards ask for
EDGE = 56  # pixels around all that is on the card
COLUMN = 500  # pixels: the width of the text
NUMBER = 108  # pixels: the size of the large number, if it fits
NAME = 17  # pixels: the size of names on the map
INK, SOFT, WHITE, BLACK = "#1b1f24", "#57606a", "#ffffff", "#000000"
SERIES = ("#0072b2", "#b84b00", "#00795a", "#a34d83", "#17779f", "#8f6000")  # as in charts.css
Box = tuple[int, int, int, int]  # left, top, right, bottom


def card_png(title: str, opening: Opening, journey: Journey | None) -> bytes:
    """The preview card of a page as a PNG file."""
    pixels = np.full((SIZE[1], SIZE[0], 3), 255.0)
    _write_column(pixels, title, opening)
    box = (EDGE + COLUMN + 44, EDGE + 4, SIZE[0] - EDGE, SIZE[1] - EDGE)
    if journey is not None and journey.ground is not None:
        _draw_map(pixels, journey, journey.ground, box)
    elif journey is not None:
        _draw_curves(pixels, journey, box)
    return colour_png(pixels.round().astype(np.uint8))


def _write_column(pixels: Array, title: str, opening: Opening) -> None:
    """The title and the sentence from the top, the large number and its label at the foot."""
    top = EDGE
    for line in wrapped(title, 24, COLUMN, most=2):
        paint_text(pixels, line, (EDGE, top), 24, SOFT)
        top += 33
    top += 14
    for line in wrapped(opening.sentence, 38, COLUMN, "bold", most=5 if opening.number else 8):
        paint_text(pixels, line, (EDGE, top), 38, INK, "bold")
        top += 48
    foot = SIZE[1] - EDGE
    if opening.number:
        size = min(NUMBER, NUMBER * COLUMN / text_width(opening.number, NUMBER, "bold"))
        paint_text(pixels, opening.number, (EDGE - 4, foot - 72 - 1.1 * size), size, SERIES[1], "bold")
        paint_text(pixels, fitting(opening.label, 24, COLUMN), (EDGE, foot - 68), 24, SOFT)
    paint_text(pixels, "transfuse", (EDGE, foot - 24), 22, SOFT, "bold")


def _draw_map(pixels: Array, journey: Journey, ground: Ground, box: Box) -> None:
    """The plane as large as it fits into a box, with its ways and marks."""
    left, top, right, bottom = box
    scale = min((right - left) / WIDTH, (bottom - top) / ground.high)
    columns = round(scale * WIDTH)
    shares = ground.shares(columns, inside=True)[::-1]
    left, top = right - columns, top + (bottom - top - len(shares)) // 2
    part = pixels[top : top + len(shares), left : left + columns]
    part[:] = np.where(np.isfinite(shares)[..., None], _viridis(np.nan_to_num(shares)), part)
    routes = picture_routes(journey, "m")
    for index, route in routes.items():
        ends = [(left + x * scale, top + y * scale) for x, y in (route[0], route[-1])]
        paint_line(pixels, ends, 4.0, WHITE)
        paint_line(pixels, ends, 2.0, SERIES[index % 6])
    _draw_marks(part, ground, scale, [(_times(scale, route[0]), _times(scale, route[-1])) for route in routes.values()])


def _draw_marks(part: Array, ground: Ground, scale: float, ways: list[tuple[Point, Point]]) -> None:
    """The networks on the part of the card that the map fills, with their names where they hide least."""
    marks = ground.plane.marks
    points = [_times(scale, ground.place(mark.x, mark.y)) for mark in marks]
    names = [mark_label(mark, ground.plane) for mark in marks]
    wide = [text_width(name, NAME, "bold") for name in names]
    boxes = name_boxes(points, wide, (float(part.shape[1]), float(part.shape[0])), ways, line=1.2 * NAME)
    for mark, name, point, (left, top, _, _) in zip(marks, names, points, boxes, strict=True):
        paint_disc(part, point, 9.5, BLACK)
        paint_disc(part, point, 8.5, WHITE)
        paint_disc(part, point, 5.5, ground.colour_of(mark))
        for shift in ((-1, -1), (1, -1), (-1, 1), (1, 1), (0, 2), (0, -2), (2, 0), (-2, 0)):
            paint_text(part, name, (left + shift[0], top + shift[1]), NAME, BLACK, "bold")
        paint_text(part, name, (left, top), NAME, WHITE, "bold")


def _times(scale: float, point: Point) -> Point:
    return scale * point[0], scale * point[1]


def _draw_curves(pixels: Array, journey: Journey, box: Box) -> None:
    """The curves in a box, over a line at their foot."""
    left, top, right, bottom = box

    def place(point: Point) -> Point:
        across, down = (point[0] - LEFT) / (RIGHT - LEFT), (point[1] - TOP) / (BOTTOM - TOP)
        return left + across * (right - left), top + down * (bottom - 50 - top)

    paint_line(pixels, (place((LEFT, BOTTOM)), place((RIGHT, BOTTOM))), 1.0, SOFT)
    for index, route in picture_routes(journey, "c").items():
        paint_line(pixels, [place(point) for point in route], 2.5, SERIES[index % 6])
    for x, name in ((left, "model 1"), (right - text_width(journey.end, 22), journey.end)):
        paint_text(pixels, name, (x, bottom - 38), 22, SOFT)


def _viridis(shares: Array) -> Array:
    """The colours of shares from 0 to 1 as red, green and blue."""
    anchors = np.array([[int(each[at : at + 2], 16) for at in (0, 2, 4)] for each in VIRIDIS], float)
    places = np.linspace(0, 1, len(anchors))
    return np.stack([np.interp(shares, places, anchors[:, part]) for part in range(3)], -1)
