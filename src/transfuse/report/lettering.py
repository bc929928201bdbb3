"""Text as pixels, without a library of fonts: outlines of letters (`LETTERS.md` says whose) are filled.

In: a text, its size. Out: how much of each pixel it covers. For pictures that are written where no browser is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

import numpy as np

from ..types import Array

EM = 1000  # units of the outlines in one size of the font
FINER = 4  # parts of a pixel in both directions, in which outlines are filled: edges have 17 shades
ABOVE, BELOW = 0.95, 0.25  # of the size: how far letters reach above and below the line on which they stand
UNKNOWN = "?"  # is written for a letter without an outline


@dataclass(frozen=True, eq=False)
class Letter:
    """One letter: how far the next one is from it, and its closed outlines as points [count, 2], y upwards."""

    advance: int
    outlines: tuple[Array, ...]


@cache
def _letters(weight: str) -> dict[str, Letter]:
    """All letters of a weight, `normal` or `bold`."""
    with files(__package__).joinpath("letters.npz").open("rb") as file, np.load(file) as content:
        outlines = np.split(content[f"{weight}/points"].astype(float), np.cumsum(content[f"{weight}/lengths"])[:-1])
        ends = np.cumsum(content[f"{weight}/contours"])
        return {
            str(letter): Letter(int(advance), tuple(outlines[end - count : end]))
            for letter, advance, count, end in zip(
                content["characters"], content[f"{weight}/advances"], content[f"{weight}/contours"], ends, strict=True
            )
        }


def _spelled(text: str, weight: str) -> list[Letter]:
    letters = _letters(weight)
    return [letters.get(each, letters[UNKNOWN]) for each in text.replace("\u00a0", " ")]


def text_width(text: str, size: float, weight: str = "normal") -> float:
    """How wide a text is, in pixels."""
    return size / EM * sum(letter.advance for letter in _spelled(text, weight))


@lru_cache(8)  # names on a map are painted several times, edges first
def text_pixels(text: str, size: float, weight: str = "normal") -> Array:
    """How much of each pixel [rows, columns] a line of text covers, from 0 to 1; it stands at `ABOVE` of its size."""
    shape = int(np.ceil((ABOVE + BELOW) * size)), int(np.ceil(text_width(text, size, weight))) + 1
    scale = FINER * size / EM
    turns = np.zeros((shape[0] * FINER, shape[1] * FINER + 1))
    at = 0.0
    for letter in _spelled(text, weight):
        for outline in letter.outlines:
            _add_turns(turns, (outline[:, 0] + at) * scale, ABOVE * size * FINER - outline[:, 1] * scale)
        at += letter.advance
    inside = np.cumsum(turns, 1)[:, :-1] != 0
    found: Array = inside.reshape(shape[0], FINER, shape[1], FINER).mean((1, 3))
    found.setflags(write=False)
    return found


def _add_turns(turns: Array, x: Array, y: Array) -> None:
    """Count, at the place where an outline crosses each row, whether it goes down or up; sums tell what is inside."""
    last = turns.shape[1] - 1
    for x0, y0, x1, y1 in zip(x, y, np.roll(x, -1), np.roll(y, -1), strict=True):
        rows = np.arange(*sorted((int(np.ceil(y0 - 0.5)), int(np.ceil(y1 - 0.5)))))
        if len(rows):
            across = x0 + (rows + 0.5 - y0) * (x1 - x0) / (y1 - y0)
            places = np.clip(np.ceil(across - 0.5), 0, last).astype(int)
            np.add.at(turns, (rows, places), 1.0 if y1 > y0 else -1.0)


def wrapped(text: str, size: float, width: float, weight: str = "normal", *, most: int) -> list[str]:
    """A text in lines that are at most so wide, broken between words, and in at most so many lines."""
    lines: list[str] = []
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and (len(lines) == most or text_width(longer, size, weight) <= width):
            lines[-1] = longer
        else:
            lines.append(word)
    return [fitting(line, size, width, weight) for line in lines]


def fitting(text: str, size: float, width: float, weight: str = "normal") -> str:
    """A text as far as it fits into a width, with an ellipsis if something is left out."""
    if text_width(text, size, weight) <= width:
        return text
    kept = next(count for count in range(len(text), -1, -1) if text_width(f"{text[:count]}…", size, weight) <= width)
    return f"{text[:kept].rstrip()}…"
