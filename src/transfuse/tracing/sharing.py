"""Members: heads of queries that share keys and values, as parts of their group that may change places.

A group is one unit, for its heads meet the same keys. A frame of it then stands several times on the axis of the
queries, or of what reads the values, once for each head; so frames tell how many heads a group has, and where each one
stands. That heads come in one order everywhere, and nothing else tells them apart, is a conjecture, as planes are: only
a proof can tell.

In: a layout with its frames. Out: the layout with members, or without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..layout import Block, Frame, Layout, Members, Part

Heads = list[Part]  # one for each head of a group, in their order on an axis


def with_members(layout: Layout) -> Layout:
    """The layout with the parts of units that may change places."""
    names = dict.fromkeys(frame.space for frame in layout.frames)
    found = tuple(members for space in names if (members := _members(layout, space)))
    return replace(layout, members=found) if found else layout


def without_members(layout: Layout) -> Layout:
    """The layout in which parts of units stay where they are."""
    return replace(layout, members=()) if layout.members else layout


def _members(layout: Layout, space: str) -> Members | None:
    """The members of the units of a space: their parts of all that stands once for each; none where nothing does."""
    blocks, frames = [block for block in layout.blocks() if block.space == space], layout.frames_of(space)
    heads = [each for block in blocks for frame in frames for each in _standing(frame, block)]
    repeated = [each for each in heads if len(each) > 1]
    if len({len(each) for each in repeated}) != 1:
        return None
    count, size = len(repeated[0]), max(len(each[0].slots) for each in repeated)
    for block in blocks:
        framed = {slot for frame in frames for slots, _ in frame.slots_on(block.tensor, block.axis) for slot in slots}
        left = [slot for slot in range(block.positions.shape[1]) if slot not in framed]
        if len(left) == count * size:  # of queries that are normed head by head, no frame is left
            starts = range(0, len(left), size)
            repeated.append([Part(block.tensor, block.axis, tuple(left[at : at + size])) for at in starts])
    return Members(space, tuple(zip(*repeated, strict=True)))


def _standing(frame: Frame, block: Block) -> Iterator[Heads]:
    """Where each side of a frame stands on the axis of a block, in ascending order."""
    found = frame.slots_on(block.tensor, block.axis)
    for side in (True, False):
        own = sorted(slots for slots, first in found if first == side)
        yield [Part(block.tensor, block.axis, slots) for slots in own]
