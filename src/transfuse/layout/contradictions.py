"""What a layout cannot say, whatever the widths: everything in it that contradicts itself, in words.

In: a layout. Out: sentences. Not here: what contradicts a state (`widths`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .notation import writable
from .records import REDUCED, Fixed, Part, Run, Side

if TYPE_CHECKING:
    from .recipe import Layout


def all_contradictions(layout: Layout) -> Iterator[str]:
    """Everything in a layout that cannot be, whatever the widths."""
    names = [space.name for space in layout.spaces]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"space {name} is listed twice; merge the entries"
    for space in layout.spaces:
        if not writable(space.name):
            yield f"space {space.name!r} has a name that cannot be written; use letters, digits, dots, underscores"
        if space.units < 1:
            yield f"space {space.name} has {space.units} units; it needs one or more"
    for name, how in layout.reduced.items():
        if name not in names or how.split(" ", 1)[0] not in REDUCED:
            yield f"reduced {name}: {how!r}; expected a space, and a text that begins with {' or '.join(REDUCED)}"
    for name in layout.unrotated:
        if name not in names:
            yield f"unrotated {name}: no space is called so; leave it out"
    yield from _contradicting_axes(layout, names)
    yield from _contradicting_rotations(layout)
    yield from _contradicting_folds(layout)
    yield from _contradicting_frames(layout, names)
    yield from _contradicting_members(layout)


def _contradicting_rotations(layout: Layout) -> Iterator[str]:
    """What is wrong with units that rotate: anything else beside them on an axis."""
    for tensor, axes in layout.tensors.items():
        for number, axis in enumerate(axes):
            for space in set(axis.spaces) & set(layout.rotating):
                if axis.alone != space:
                    yield (
                        f"{tensor} axis {number} has more on it than one slot for each unit of space {space}, which "
                        "rotates; leave out its rotations"
                    )


def _contradicting_folds(layout: Layout) -> Iterator[str]:
    """What is wrong with norms over units that rotate: tensors that are not there, or do not stand on these units."""
    for fold in layout.folds:
        if strange := [name for name in fold.tensors if name not in layout.tensors]:
            yield f"folds {fold.gain}: no tensor is called {', '.join(strange)}; name tensors of the layout"
            continue
        own = [axis.alone for axis in layout.tensors[fold.gain] if axis.spaces]
        if len(own) != 1 or own[0] not in layout.rotating:
            yield f"folds {fold.gain}: it does not stand on one space that rotates; leave out the entry"
            continue
        wanted: list[tuple[str, Side]] = [(each.weight, "consumes") for each in fold.readers]
        wanted += [(name, "produces") for name in fold.writers]
        for name, side in wanted:
            sides: list[str] = [axis.side for axis in layout.tensors[name] if axis.alone == own[0]]
            if sides.count(side) != 1:
                how = side.removesuffix("s")
                yield f"folds {fold.gain}: {name} does not {how} space {own[0]} along one axis; leave it out"


def _contradicting_frames(layout: Layout, names: Sequence[str]) -> Iterator[str]:
    """What is wrong with directions inside of units: spaces, tensors or slots that are not there, sides that differ."""
    for frame in layout.frames:
        if frame.space not in names:
            yield f"frames {frame.space}: no space is called so; leave it out"
        if frame.planes < 0 or (frame.planes and frame.size % (2 * frame.planes)):
            yield (
                f"frames {frame.space}: {frame.size} directions cannot be planes of two that are {frame.planes} apart; "
                "give half of the directions, or 1 where neighbours are a plane"
            )
        for part in (*frame.one, *frame.other):
            count = _slots(layout, part, frame.space)
            if len(part.slots) != frame.size or not all(0 <= slot < count for slot in part.slots):
                yield (
                    f"frames {frame.space}: {part.tensor} axis {part.axis} has {count} slots of it, and "
                    f"{list(part.slots)} are named; expected {frame.size} of them"
                )


def _contradicting_members(layout: Layout) -> Iterator[str]:
    """What is wrong with members of units: spaces without frames, slots that are not there or shared, unequal parts."""
    for members in layout.members:
        where = f"members {members.space}"
        if not layout.frames_of(members.space):
            yield f"{where}: that space has no frames; leave it out"
        if members.count < 2 or layout.members_of(members.space) is not members:
            yield f"{where}: there must be one list of two members or more for a space"
        shapes = {tuple(sorted((part.tensor, part.axis, len(part.slots)) for part in own)) for own in members.parts}
        if len(shapes) > 1:
            yield f"{where}: each must stand on the same axes of the same tensors, with as many slots"
        parts = [part for own in members.parts for part in own]
        slots = [(part.tensor, part.axis, slot) for part in parts for slot in part.slots]
        if len(set(slots)) < len(slots):
            yield f"{where}: a slot is named twice; each belongs to one member at most"
        for part in parts:
            count = _slots(layout, part, members.space)
            if not all(0 <= slot < count for slot in part.slots):
                yield f"{where}: {part.tensor} axis {part.axis} has {count} slots of it; {list(part.slots)} are named"


def _slots(layout: Layout, part: Part, space: str) -> int:
    """How many slots a unit of a space has on the axis of a part."""
    axes = layout.tensors.get(part.tensor, ())
    runs = axes[part.axis].segments if 0 <= part.axis < len(axes) else ()
    return sum(slot.space == space for run in runs if isinstance(run, Run) for slot in run.cell)


def _contradicting_axes(layout: Layout, names: Sequence[str]) -> Iterator[str]:
    """What is wrong with axes: spaces that are not listed, segments that hold nothing."""
    for tensor, axes in layout.tensors.items():
        for number, axis in enumerate(axes):
            for name in axis.spaces:
                if name not in names:
                    yield f"{tensor} axis {number} names space {name}, which is not listed; add it to the spaces"
            for segment in axis.segments:
                if isinstance(segment, Fixed) and segment.count < 1:
                    yield f"{tensor} axis {number} has {segment.count} fixed positions; give one or more"
                if isinstance(segment, Run) and not segment.cell:
                    yield f"{tensor} axis {number} has a run without slots; name at least one space"
