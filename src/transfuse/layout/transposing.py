"""Transposing: the layout of a network in which some weights stand the other way round.

A linear layer has its weight as [outputs, inputs]; some are written with [inputs, outputs] (GPT-2's). To the layout it
makes no difference, but whoever looks at rows of weights needs all of them to stand one way.

In: a layout, names of matrices. Out: a layout in which their axes have changed places.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from .framed import Framed
from .recipe import Layout
from .records import Frame, Members, Part


def transposed(layout: Layout, names: Collection[str]) -> Layout:
    """The layout of a network in which some matrices are transposed."""
    tensors = {name: axes[::-1] if name in names else axes for name, axes in layout.tensors.items()}
    fixed = {
        name: {1 - axis: reason for axis, reason in reasons.items()} if name in names else reasons
        for name, reasons in layout.fixed.items()
    }
    frames = tuple(_frame(frame, names) for frame in layout.frames)
    members = tuple(_members(each, names) for each in layout.members)
    return replace(layout, tensors=tensors, fixed=fixed, frames=frames, members=members)


def transposed_element(element: Framed, names: Collection[str]) -> Framed:
    """An element of the layout, for a network in which some matrices are transposed."""
    members = element.members and _members(element.members, names)
    return replace(element, frames=tuple(_frame(frame, names) for frame in element.frames), members=members)


def _frame(frame: Frame, names: Collection[str]) -> Frame:
    one, other = (tuple(_part(part, names) for part in side) for side in (frame.one, frame.other))
    return replace(frame, one=one, other=other)


def _members(members: Members, names: Collection[str]) -> Members:
    return replace(members, parts=tuple(tuple(_part(part, names) for part in own) for own in members.parts))


def _part(part: Part, names: Collection[str]) -> Part:
    return replace(part, axis=1 - part.axis) if part.tensor in names else part
