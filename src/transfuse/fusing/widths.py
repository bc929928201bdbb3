"""Widths of the result of a fusion: numbers of units, or factors, for spaces by name or by pattern.

In: what the user asks for, and the widths of the first model. Out: a number of units for each space, or one error with
everything that is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from math import inf
from numbers import Integral, Real

from ..arguments import Kind, either, mapping
from ..errors import InputError, listing
from ..layout import Layout

Widths = Mapping[str, int | float] | float  # units, or a factor, by space or by pattern; or one factor for all spaces
FACTOR = Kind(
    lambda value: isinstance(value, Real) and not isinstance(value, Integral) and 0 < float(value) < inf,
    "a factor for all widths: 1.5",
)
UNITS = Kind(lambda value: isinstance(value, Integral) and not isinstance(value, bool), "a number of units")
WIDTHS = either(
    mapping(
        either(FACTOR, UNITS),
        "widths by space: {'0.out': 100}, or factors: {'conv*': 1.5}",
    ),
    FACTOR,
)


def named_widths(own: Mapping[str, int], wanted: Widths) -> dict[str, int]:
    """The number of units that is asked for, for each space that is meant.

    Args:
        own: The widths of the first model, by space.
        wanted: For names of spaces, or patterns such as `layer*.out`, a number of units, or a factor (a float) by which
            the space shall be wider than in the first model; or one factor for all. Of several patterns that fit a
            space the last one counts, and a name counts more than any pattern.

    Raises:
        InputError: there is no space of that name, or none that fits the pattern.

    Example:
        >>> named_widths({"a.out": 10, "b.out": 20}, {"*": 1.5, "b.out": 7})
        {'a.out': 15, 'b.out': 7}
    """
    given = wanted if isinstance(wanted, Mapping) else {"*": wanted}
    meant = {name: [space for space in own if space == name or fnmatchcase(space, name)] for name in given}
    if strange := [name for name, spaces in meant.items() if not spaces]:
        problems = [f"no space is called {name!r}, or fits it as a pattern" for name in strange]
        raise InputError(_refused(own, problems))
    patterns = {space: given[name] for name, spaces in meant.items() if name not in own for space in spaces}
    names = {name: given[name] for name in given if name in own}
    return {space: _units(own[space], width) for space, width in {**patterns, **names}.items()}


def _units(own: int, width: int | float) -> int:
    """A number of units: as it is, or a factor of the first model's."""
    return max(round(width * own), 1) if FACTOR.holds(width) else int(width)


def _refused(own: Mapping[str, int], problems: list[str]) -> str:
    """Why the target cannot be as wide as was asked for."""
    known = ", ".join(own) or "none"
    return listing(f"the target cannot have these widths (the spaces of this network: {known}):", problems)


def target_widths(layout: Layout, own: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """The widths of the result: those asked for, and the first model's where none is.

    Raises:
        InputError: the target cannot have them.
    """
    problems = [f"space {name} cannot have {width!r} units" for name, width in wanted.items() if width < 1]
    listed = {slot.space for run in layout.runs() if run.units is not None for slot in run.cell}
    for name in sorted(listed & wanted.keys()):
        if wanted[name] != own[name]:
            problems.append(f"space {name} is listed unit by unit in the layout and keeps its {own[name]} units")
    if not problems:
        objections = (layout.growth_objection(name, own[name], width) for name, width in wanted.items())
        problems = [objection for objection in objections if objection]
    if problems:
        raise InputError(_refused(own, problems))
    return {**own, **wanted}
