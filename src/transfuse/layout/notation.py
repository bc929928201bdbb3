"""The notation of layouts: a table to read that is also YAML to edit and read back.

    spaces:
      conv.out: 8 scales
      lstm.l0:  6 signs
    tensors:
      conv.weight:       [conv.out, 3, 5, 5]
      fc.weight:         [10, < conv.out*16]
      lstm.weight_ih_l0: ['|lstm.l0| + |lstm.l0| + lstm.l0 + |lstm.l0|', 28]
    fixed:
      fc.weight: {0: returned by the model}
    folds:
      norm.weight: {bias: norm.bias, into: {up.weight: up.bias, gate.weight: null}}

An axis is a sum of segments. `3`: three positions that stay. `conv.out`: its units in order. `conv.out*16`: sixteen
consecutive slots a unit. `(a b)`: woven, a slot of `a`, a slot of `b`, again for the next unit. `a[2 0 1]`: these
units. `|a|`: even slots, which ignore the unit's sign and scale. `< a`: the tensor consumes the units (is summed over
them); without it, it produces them. Beside a space's width stand its symmetries. `reduced` names spaces whose units are
`summed` away somewhere (by a softmax, between queries and keys), so that another width is another function, or
`averaged` (by a norm), so that only a whole multiple of the width is the same. `folds` has the norms over units that
rotate, by the name of the gain: their bias, and which weight (with which bias) reads them; or, for a vector by which
what layers write is multiplied, `from` which tensors that comes. `unrotated` says why the
units under a norm can be permuted only. `frames` has directions inside of units that may be mixed, each side as tensors
with an axis and the slots there; `members` parts of units that may change places, each a list of the same kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

import yaml

from ..errors import LayoutError, listing
from .fold_notation import fold_text, frame_text, members_text, parse_fold, parse_frames, parse_members
from .records import Axis, Fixed, Fold, Frame, Members, Run, Slot, Space, Tensors
from .scalars import MOST_SLOTS, MOST_UNITS, number, scalar
from .symmetry import WORDS, Symmetry

Reasons = Mapping[str, Mapping[int, str]]
T = TypeVar("T")

_OPTIONAL = ("fixed", "reduced", "folds", "unrotated", "frames", "members")
_NAME = r"[^\s\[\]()|*+<>,'\"{}&!%@`#]+"
_NUMBER = re.compile(r"[0-9]+")
_SLOT = re.compile(rf"(?P<even>\|)?(?P<name>{_NAME})(?(even)\|)(\*(?P<times>[0-9]+))?")
_RUN = re.compile(rf"(?P<body>\([^()]*\)|\|?{_NAME}\|?(?:\*[0-9]+)?)(?:\[(?P<units>[0-9 ]*)\])?")


def writable(name: str) -> bool:
    """Whether the notation can write a space of that name."""
    return re.fullmatch(_NAME, name) is not None and not _NUMBER.fullmatch(name)


class PlainLoader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice, and aliases, by which a few lines could stand for endless ones."""

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        """The next node of a document; an alias is none."""
        if self.check_event(yaml.events.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(
                None, None, f"*{event.anchor} is an alias; write it out", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping whose keys are different."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


def render(  # noqa: PLR0913, PLR0917
    spaces: Sequence[Space], tensors: Tensors, fixed: Reasons, reduced: Mapping[str, str], folds: Sequence[Fold],
    unrotated: Mapping[str, str], frames: Sequence[Frame], members: Sequence[Members],
) -> str:  # fmt: skip
    """The parts of a layout as text: an aligned table that `read` reads back."""
    sections = {
        "spaces": {space.name: _space_text(space) for space in spaces},
        "tensors": {
            name: f"[{', '.join(scalar(_axis_text(axis)) for axis in axes)}]" for name, axes in tensors.items()
        },
        "fixed": {
            name: "{" + ", ".join(f"{axis}: {scalar(reason)}" for axis, reason in reasons.items()) + "}"
            for name, reasons in fixed.items()
        },
        "reduced": {name: scalar(how) for name, how in reduced.items()},
        "folds": {fold.gain: fold_text(fold) for fold in folds},
        "unrotated": {name: scalar(why) for name, why in unrotated.items()},
        "frames": {
            space: "[" + ", ".join(frame_text(frame) for frame in frames if frame.space == space) + "]"
            for space in dict.fromkeys(frame.space for frame in frames)
        },
        "members": {each.space: members_text(each) for each in members},
    }
    return "\n".join(_section(title, rows) for title, rows in sections.items() if rows or title not in _OPTIONAL)


Parts = tuple[
    tuple[Space, ...], Tensors, Reasons, Mapping[str, str], tuple[Fold, ...], Mapping[str, str], tuple[Frame, ...],
    tuple[Members, ...],
]  # fmt: skip


def read(text: str) -> Parts:
    """The parts of a layout (spaces, tensors, fixed, reduced, folds, unrotated, frames, members) from text.

    Raises:
        LayoutError: with what cannot be read, where it stands, and what was expected there.
    """
    try:
        document = yaml.load(text, PlainLoader)
    except yaml.YAMLError as error:
        raise LayoutError(f"the layout is not valid YAML: {error}") from error
    except (RecursionError, ValueError, TypeError) as error:  # nested a thousand times, or keys that are no scalars
        raise LayoutError(
            f"the layout cannot be read: {type(error).__name__}; expected spaces, tensors and fixed as mappings of "
            "names, as `print(layout)` writes them"
        ) from error
    if not isinstance(document, Mapping):
        raise LayoutError("the layout is not a mapping: expected the keys spaces, tensors and, if any, fixed")
    unknown = sorted(str(key) for key in set(document) - {"spaces", "tensors", *_OPTIONAL})
    if unknown:
        known = ", ".join(["spaces", "tensors", *_OPTIONAL])
        raise LayoutError(f"unknown keys in the layout: {', '.join(unknown)}; known: {known}")
    problems: list[str] = []
    spaces = _entries(document, "spaces", _parse_space, problems)
    tensors = _entries(document, "tensors", _parse_axes, problems)
    fixed = _entries(document, "fixed", _parse_reasons, problems)
    reduced = _entries(document, "reduced", lambda name, how: str(how), problems)
    folds = _entries(document, "folds", parse_fold, problems)
    unrotated = _entries(document, "unrotated", lambda name, why: str(why), problems)
    frames = _entries(document, "frames", parse_frames, problems)
    members = _entries(document, "members", parse_members, problems)
    if problems:
        raise LayoutError(listing("the layout cannot be read:", problems))
    inside = tuple(frame for each in frames.values() for frame in each)
    return (
        tuple(spaces.values()), tensors, fixed, reduced, tuple(folds.values()), unrotated, inside,
        tuple(members.values()),
    )  # fmt: skip


def _entries(
    document: Mapping[Any, Any], key: str, entry: Callable[[str, Any], T], problems: list[str]
) -> dict[str, T]:
    """The entries of a section by name; those that cannot be read go to the problems."""
    section = document.get(key) or {}
    if not isinstance(section, Mapping):
        problems.append(f"{key} in the layout is {section!r}; expected a mapping of names")
        return {}
    found = {}
    for name, value in section.items():
        try:
            found[str(name)] = entry(str(name), value)
        except LayoutError as error:
            problems.append(str(error))
    return found


def _section(title: str, rows: Mapping[str, str]) -> str:
    if not rows:
        return f"{title}: {{}}"
    keys = {name: scalar(name) + ":" for name in rows}
    wide = max(map(len, keys.values()))
    return "\n".join([f"{title}:", *(f"  {keys[name]:<{wide}} {value}" for name, value in rows.items())])


def _space_text(space: Space) -> str:
    return " ".join([str(space.units), *space.symmetry.words])


def _axis_text(axis: Axis) -> str:
    text = " + ".join(_segment_text(segment) for segment in axis.segments) or "0"
    return f"< {text}" if axis.side == "consumes" else text


def _segment_text(segment: Run | Fixed) -> str:
    if isinstance(segment, Fixed):
        return str(segment.count)
    parts = []
    for slot, repeats in groupby(segment.cell):
        times = len(list(repeats))
        name = f"|{slot.space}|" if slot.even else slot.space
        parts.append(name if times == 1 else f"{name}*{times}")
    body = parts[0] if len(parts) == 1 else f"({' '.join(parts)})"
    return body if segment.units is None else f"{body}[{' '.join(map(str, segment.units))}]"


def _parse_reasons(tensor: str, reasons: Any) -> dict[int, str]:
    if not isinstance(reasons, Mapping) or not all(isinstance(axis, int) for axis in reasons):
        raise LayoutError(f"fixed {tensor}: cannot read {reasons!r}; expected reasons by axis ('{{0: a reason}}')")
    return {axis: str(reason) for axis, reason in reasons.items()}


def _parse_space(name: str, value: Any) -> Space:
    width, _, words = " ".join(str(value).split()).partition(" ")
    symmetry = Symmetry.of_words(words)
    if not _NUMBER.fullmatch(width) or symmetry is None:
        raise LayoutError(
            f"space {name}: cannot read {value!r}; expected its width and, if any, {', '.join(WORDS)} ('8 signs')"
        )
    return Space(name, number(width, MOST_UNITS, f"space {name}"), symmetry)


def _parse_axes(tensor: str, axes: Any) -> tuple[Axis, ...]:
    if not isinstance(axes, list):
        raise LayoutError(f"tensor {tensor}: {axes!r} is not a list; expected one entry for each axis")
    return tuple(_parse_axis(str(axis), f"tensor {tensor} axis {number}") for number, axis in enumerate(axes))


def _parse_axis(text: str, where: str) -> Axis:
    body = text.strip()
    consumes = body.startswith("<")
    segments = [_parse_segment(part.strip(), where) for part in body.removeprefix("<").split(" + ")]
    kept = tuple(segment for segment in segments if segment != Fixed(0))
    return Axis(kept, "consumes" if consumes else "produces")


def _parse_segment(text: str, where: str) -> Run | Fixed:
    if _NUMBER.fullmatch(text):
        return Fixed(number(text, MOST_UNITS, where))
    match = _RUN.fullmatch(text)
    parts = match["body"].strip("()").split() if match else []
    slots = [_SLOT.fullmatch(part) for part in parts]
    if not match or not slots or not all(slots):
        raise LayoutError(
            f"{where}: cannot read {text!r}; expected a number, a space, 'space*4', '|space|', '(a b)' or 'a[1 0]'"
        )
    times = [number(slot["times"] or "1", MOST_SLOTS, where) for slot in slots if slot]
    if sum(times) > MOST_SLOTS:
        raise LayoutError(f"{where}: {text!r} gives a unit {sum(times)} slots; expected at most {MOST_SLOTS}")
    cell = tuple(
        each for slot, count in zip(slots, times, strict=True) if slot
        for each in [Slot(slot["name"], bool(slot["even"]))] * count
    )  # fmt: skip
    units = match["units"] and tuple(number(unit, MOST_UNITS, where) for unit in match["units"].split())
    return Run(cell, None if match["units"] is None else units or ())
