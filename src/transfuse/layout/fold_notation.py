"""The notation of what goes with rotations: gains that fold into what reads or writes, and what is inside of units.

    folds:
      norm.weight: {bias: norm.bias, into: {up.weight: up.bias, gate.weight: null}}
      scale.gamma: {from: [down.weight, down.bias]}
    frames:
      heads: [{one: ['query.weight 0 0:4'], other: ['key.weight 0 0:4']}]
      rotary: [{one: ['q.weight 0 0:4'], other: ['k.weight 0 0:4'], planes: 2}]
    members:
      groups: [['query.weight 0 0:4', 'out.weight 1 0:4'], ['query.weight 0 4:8', 'out.weight 1 4:8']]

In: records, or what YAML gives. Out: text, or records; a `LayoutError` says what cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import LayoutError
from .records import Fold, Frame, Members, Part, Reader
from .scalars import MOST_SLOTS, number, scalar

_PART = re.compile(r"(?P<tensor>.+) (?P<axis>[0-9]{1,2}) (?P<first>[0-9]+):(?P<last>[0-9]+)(:(?P<step>[0-9]+))?")


def fold_text(fold: Fold) -> str:
    """A norm, or a vector that multiplies what is written, without the name of its gain, as text."""
    if fold.writers:
        return f"{{from: [{', '.join(map(scalar, fold.writers))}]}}"
    into = ", ".join(f"{scalar(each.weight)}: {scalar(each.bias) if each.bias else 'null'}" for each in fold.readers)
    bias = f"bias: {scalar(fold.bias)}, " if fold.bias else ""
    return f"{{{bias}into: {{{into}}}}}"


def parse_fold(gain: str, value: Any) -> Fold:
    """A norm, or a vector that multiplies what is written, from what stands beside the name of its gain."""
    if isinstance(value, Mapping) and set(value) == {"from"} and isinstance(value["from"], list) and value["from"]:
        return Fold(gain, writers=tuple(map(str, value["from"])))
    into = value.get("into") if isinstance(value, Mapping) else None
    if not isinstance(into, Mapping) or not set(value) <= {"bias", "into"}:
        raise LayoutError(
            f"folds {gain}: cannot read {value!r}; expected the norm's bias, if any, and the weights that read it, "
            "each with its own ('{bias: norm.bias, into: {up.weight: up.bias, gate.weight: null}}'), or a list of what "
            "is multiplied ('{from: [down.weight, down.bias]}')"
        )
    readers = tuple(Reader(str(weight), "" if bias is None else str(bias)) for weight, bias in into.items())
    return Fold(gain, str(value.get("bias") or ""), readers)


def frame_text(frame: Frame) -> str:
    """A frame, without the name of its space, as text."""
    one, other = (", ".join(scalar(_part_text(part)) for part in side) for side in (frame.one, frame.other))
    planes = f", planes: {frame.planes}" if frame.planes else ""
    return f"{{one: [{one}], other: [{other}]{planes}}}"


def _part_text(part: Part) -> str:
    first, last = part.slots[0], part.slots[-1]
    step = part.slots[1] - first if len(part.slots) > 1 else 1
    return f"{part.tensor} {part.axis} {first}:{last + 1}" + (f":{step}" if step != 1 else "")


def parse_frames(space: str, value: Any) -> list[Frame]:
    """The frames of a space from what stands beside its name."""
    found = []
    for each in value if isinstance(value, list) else [value]:
        sides = [side for name in ("one", "other") if isinstance(side := _given(each, name), list) and side]
        planes = _given(each, "planes") or 0
        if len(sides) != 2 or not isinstance(planes, int) or isinstance(planes, bool):
            raise LayoutError(
                f"frames {space}: cannot read {each!r}; expected two sides of tensors with an axis and slots, and a "
                "number if they have planes ('{one: [query.weight 0 0:4], other: [key.weight 0 0:4], planes: 2}')"
            )
        one, other = (tuple(_parse_part(space, str(part)) for part in side) for side in sides)
        found.append(Frame(space, one, other, planes))
    return found


def members_text(members: Members) -> str:
    """Members, without the name of their space, as text."""
    return "[" + ", ".join(f"[{', '.join(scalar(_part_text(part)) for part in own)}]" for own in members.parts) + "]"


def parse_members(space: str, value: Any) -> Members:
    """The members of the units of a space from what stands beside its name."""
    if not isinstance(value, list) or not all(isinstance(own, list) for own in value):
        raise LayoutError(
            f"members {space}: cannot read {value!r}; expected a list for each member, of tensors with an axis and "
            "slots ('[[q.weight 0 0:4, o.weight 1 0:4], [q.weight 0 4:8, o.weight 1 4:8]]')"
        )
    return Members(space, tuple(tuple(_parse_part(space, str(part), "members") for part in own) for own in value))


def _given(entry: Any, name: str) -> Any:
    return entry.get(name) if isinstance(entry, Mapping) else None


def _parse_part(space: str, text: str, section: str = "frames") -> Part:
    match = _PART.fullmatch(text)
    if not match:
        raise LayoutError(
            f"{section} {space}: cannot read {text!r}; expected a tensor, an axis and slots ('a.weight 0 0:4')"
        )
    first, last, step = (
        number(match[name] or "1", MOST_SLOTS, f"{section} {space}") for name in ("first", "last", "step")
    )
    slots = tuple(range(first, last, step or 1))
    if not slots:
        raise LayoutError(f"{section} {space}: {text!r} has no slots; the second number must be larger than the first")
    return Part(match["tensor"], int(match["axis"]), slots)
