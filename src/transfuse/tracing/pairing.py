"""Frames: the layout with the directions inside of units that may be mixed.

In: a recording, and the layout that reading it gave. Out: the layout with its frames: two sides of slots each, between
which there are nothing but sums of products. Not here: what single operations do (`framing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from torch import Tensor

from ..layout import Frame, Layout, Part, Run
from .algebra import Algebra
from .framing import Direction, Framing
from .reading import Unknown, read
from .recording import Recording
from .registry import connected
from .rules import Rule

Basis = tuple[int, ...]  # directions in an order, each by the least that it is one with
Edge = Mapping[int, int]  # which direction each one meets in a sum of products


def with_frames(
    recordings: Sequence[Recording], state: Mapping[str, Tensor], layout: Layout, canonical: Mapping[str, str], *,
    rules: Mapping[str, Rule], unknown: Unknown,
) -> Layout:  # fmt: skip
    """The layout with directions inside of units; see `rotating.with_rotations` for the arguments."""
    runs = (run for axes in layout.tensors.values() for axis in axes for run in axis.segments if isinstance(run, Run))
    if not any(len(run.cell) > 1 for run in runs):
        return layout
    framing = Framing(layout)
    # Rules ask nothing of an algebra but the functions that this one has, too.
    read(recordings, state, rules=rules, unknown=unknown, algebra=cast(Algebra, framing))
    aliases: dict[str, list[str]] = {}
    for name, own in canonical.items():
        aliases.setdefault(own, []).append(name)
    order = list(layout.units)
    return replace(
        layout, frames=tuple(sorted(_frames(framing, layout, aliases), key=lambda frame: order.index(frame.space)))
    )


def _frames(framing: Framing, layout: Layout, aliases: Mapping[str, list[str]]) -> Iterator[Frame]:
    """The frames that are left: no direction of them is lost, and each stands at the same places."""
    least = _least(framing)
    members: dict[int, list[Direction]] = {}
    for number, direction in enumerate(framing.directions):
        members.setdefault(least[number], []).append(direction)
    lost = {least[number] for number in framing.lost if number >= 0}
    edges = [{least[a]: least[b] for a, b in pairs} for pairs in sorted(framing.duals)]
    for sides in _components(edges, lost):
        found = [[_parts(basis, members, aliases) for basis in side] for side in sides]
        one, other = ([part for parts in side for part in parts] for side in found)
        spaces = {space for part in (*one, *other) for space in layout.tensors[part.tensor][part.axis].spaces}
        whole = all(parts for side in found for parts in side)  # every direction stands somewhere
        if whole and len(spaces) == 1 and not _twice(layout, space := spaces.pop()):
            yield Frame(space, tuple(one), tuple(other))


def _least(framing: Framing) -> list[int]:
    """For each direction the least of those that it is one with."""
    left, right = (np.array([pair[side] for pair in framing.same], dtype=np.int64) for side in (0, 1))
    least = np.arange(len(framing.directions))
    nodes, found = connected(left, right)
    least[nodes] = found
    return [int(each) for each in least]


def _components(edges: Sequence[Edge], lost: set[int]) -> Iterator[tuple[list[Basis], list[Basis]]]:
    """Sets of directions that meet one another, on two sides, each in the order of the first; none that contradict."""
    nodes = {frozenset(side) for edge in edges for side in (edge.keys(), edge.values())}
    shared = {each for node in nodes for each in node if sum(each in other for other in nodes) > 1}
    reached: set[frozenset[int]] = set()
    for edge in edges:
        if frozenset(edge) in reached:
            continue
        found = _spread(tuple(sorted(edge)), edges)
        reached |= {frozenset(basis) for basis, _ in found}
        sound = len({frozenset(basis) for basis, _ in found}) == len(found)
        if sound and not any({*basis} & (lost | shared) or len({*basis}) < len(basis) for basis, _ in found):
            yield [basis for basis, first in found if first], [basis for basis, first in found if not first]


def _spread(start: Basis, edges: Sequence[Edge]) -> list[tuple[Basis, bool]]:
    """All sets of directions that a first one meets, in its order, each with whether it is on its side."""
    found = [(start, True)]
    for basis, first in found:  # it grows
        for edge in edges:
            back = {b: a for a, b in edge.items()}
            for way in (edge, back):
                if way.keys() == {*basis} and (met := (tuple(way[each] for each in basis), not first)) not in found:
                    found.append(met)
    return found


def _parts(basis: Basis, members: Mapping[int, list[Direction]], aliases: Mapping[str, list[str]]) -> list[Part]:
    """Where directions stand: on the same axes of the same tensors, each once, evenly spaced; else nowhere."""
    places = [sorted((tensor, axis) for tensor, axis, _ in members[each]) for each in basis]
    if any(own != places[0] or len(set(own)) < len(own) for own in places):
        return []
    found = []
    for place in places[0]:
        slots = tuple(slot for each in basis for tensor, axis, slot in members[each] if (tensor, axis) == place)
        if len({*np.diff(slots).tolist()}) > 1 or (len(slots) > 1 and slots[1] <= slots[0]):
            return []
        found += [Part(name, place[1], slots) for name in aliases[place[0]]]
    return found


def _twice(layout: Layout, space: str) -> bool:
    """Whether a space stands on two axes of one tensor."""
    return any(sum(space in axis.spaces for axis in axes) > 1 for axes in layout.tensors.values())
