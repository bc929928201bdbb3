"""Texts that a user types as values: shapes, counts, sizes, pairs, classes."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import read_text


def shape(text: str) -> tuple[int, ...]:
    """The shape that a text such as `1,28,28` or `1x28x28` stands for."""
    try:
        lengths = tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        lengths = ()
    if not lengths or min(lengths) < 1:
        raise ArgumentTypeError(f"{text!r} is no shape; expected numbers from 1, such as 1,28,28")
    return lengths


def count(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no count; expected a whole number from 1")
    return int(text)


def seed(text: str) -> int:
    """A whole number from 0."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no seed; expected a whole number from 0")
    return int(text)


def size(text: str) -> int:
    """The number of bytes that a text such as `5GB`, `300MB` or `1000` stands for."""
    units = {"GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1, "": 1}
    number = text.rstrip("GMKBgmkb")
    try:
        bytes_ = int(float(number) * units[text[len(number) :].upper()])
    except (ValueError, KeyError, OverflowError):
        bytes_ = 0
    if bytes_ < 1:
        raise ArgumentTypeError(f"{text!r} is no size; expected one such as 5GB or 300MB")
    return bytes_


def pairs(texts: Sequence[str], flag: str) -> dict[str, Any]:
    """`["width=3", "bias=true"]` as `{"width": 3, "bias": True}`: values are read as YAML."""
    import yaml  # not needed for help

    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"{flag} {text!r}: expected KEY=VALUE")
        try:
            found[key.replace("-", "_")] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise InputError(
                f"{flag} {text!r}: {value!r} is no YAML; expected a value such as 3, true, relu or [1, 2]"
            ) from error
    return found


def factor(text: str) -> float:
    """A factor of widths, such as 1.5."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < inf:
        raise ArgumentTypeError(f"{text!r} is no factor of widths; expected a number above 0, such as 1.5")
    return value


def classes_in(texts: Sequence[str] | None) -> list[list[str]] | list[list[int]] | None:
    """`["cat,dog", "ship.txt"]` as `[["cat", "dog"], ["ship", ...]]`: the classes of each input that --classes names.

    If all of them are numbers, they are read as such.

    Raises:
        InputError: a file cannot be read, or a class has no name.
    """
    if not texts:
        return None
    found = [read_text(text).splitlines() if Path(text).is_file() else text.split(",") for text in texts]
    names = [[name.strip() for name in own] for own in found]
    if empty := [text for text, own in zip(texts, names, strict=True) if not all(own)]:
        raise InputError(f"--classes {empty[0]!r}: a class has no name; expected names with commas between them: a,b,c")
    numbers = all(name.isdecimal() for own in names for name in own)
    return [[int(name) for name in own] for own in names] if numbers else names


def widths_in(texts: Sequence[str]) -> dict[str, int | float]:
    """`["conv.out=32", "fc*=1.5"]` as `{"conv.out": 32, "fc*": 1.5}`: the widths of spaces that --target names."""
    found: dict[str, int | float] = {}
    for text in texts:
        name, _, width = text.partition("=")
        try:
            found[name] = int(width) if width.isdecimal() else factor(width)
        except ArgumentTypeError as error:
            raise InputError(
                f"--target {text!r}: expected SPACE=WIDTH, a number of units or a factor with a point, such as 1.5; or "
                "one model such as mlplarge"
            ) from error
    return found


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """What files are called in tables and figures: their names without endings; as typed, where two would be alike.

    Example:
        >>> short_names(["runs/a.pt", "runs/b.pt"])
        {'runs/a.pt': 'a', 'runs/b.pt': 'b'}
        >>> short_names(["one/a.pt", "two/a.pt"])
        {'one/a.pt': 'one/a.pt', 'two/a.pt': 'two/a.pt'}
    """
    short = {path: Path(path).stem if Path(path).suffix else Path(path).name for path in paths}
    return short if len(set(short.values())) == len(short) else {path: path for path in paths}
