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
Sides = tuple[list[Basis], list[Basis]]  # directions that meet one another, each list in one order
Members = Mapping[int, list[Direction]]  # all slots that are one direction, by the least
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


def without_planes(layout: Layout) -> Layout:
    """The layout without planes, which operations suggest, and only a proof can tell from other pairs of directions."""
    return replace(layout, frames=tuple(frame for frame in layout.frames if not frame.planes))


def _frames(framing: Framing, layout: Layout, aliases: Mapping[str, list[str]]) -> Iterator[Frame]:
    """The frames that are left: no direction of them is lost, and each stands at the same places."""
    least = _least(framing)
    members: dict[int, list[Direction]] = {}
    for number, direction in enumerate(framing.directions):
        members.setdefault(least[number], []).append(direction)
    lost, scaled = ({least[number] for number in some if number >= 0} for some in (framing.lost, framing.scaled))
    scaled |= {number for number, own in members.items() if len({each[:2] for each in own}) < len(own)}
    edges = [{least[a]: least[b] for a, b in pairs} for pairs in sorted(framing.duals)]
    for whole in _components(edges, lost):
        for sides, turned in _split(whole, scaled):
            places = _planes if turned else _parts
            found = [[places(basis, members, aliases) for basis in side] for side in sides]
            one, other = (tuple(part for _, parts in side for part in parts) for side in found)
            spaces = {space for part in (*one, *other) for space in layout.tensors[part.tensor][part.axis].spaces}
            somewhere = all(parts for side in found for _, parts in side)  # every direction stands somewhere
            distances = {apart for side in found for apart, _ in side}
            if somewhere and len(distances) == len(spaces) == 1 and not _twice(layout, space := spaces.pop()):
                yield Frame(space, one, other, distances.pop())


def _split(sides: Sides, scaled: set[int]) -> Iterator[tuple[Sides, bool]]:
    """Directions that no others are added to, without factors of their own; then the rest, each with whether it is."""
    bases = [basis for side in sides for basis in side]
    own = [any(basis[number] in scaled for basis in bases) for number in range(len(bases[0]))]
    for turned in (False, True):
        chosen = [number for number, has in enumerate(own) if has == turned]
        if chosen:
            one, other = ([tuple(basis[number] for number in chosen) for basis in side] for side in sides)
            yield (one, other), turned


def _least(framing: Framing) -> list[int]:
    """For each direction the least of those that it is one with."""
    left, right = (np.array([pair[side] for pair in framing.same], dtype=np.int64) for side in (0, 1))
    least = np.arange(len(framing.directions))
    nodes, found = connected(left, right)
    least[nodes] = found
    return [int(each) for each in least]


def _components(edges: Sequence[Edge], lost: set[int]) -> Iterator[Sides]:
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


def _parts(basis: Basis, members: Members, aliases: Mapping[str, list[str]]) -> tuple[int, list[Part]]:
    """Where directions stand: on the same axes of the same tensors, each once, evenly spaced; else nowhere."""
    places = [sorted((tensor, axis) for tensor, axis, _ in members[each]) for each in basis]
    if any(own != places[0] or len(set(own)) < len(own) for own in places):
        return 0, []
    found = []
    for place in places[0]:
        slots = tuple(slot for each in basis for tensor, axis, slot in members[each] if (tensor, axis) == place)
        if not _even(slots):
            return 0, []
        found += [Part(name, place[1], slots) for name in aliases[place[0]]]
    return 0, found


def _planes(basis: Basis, members: Members, aliases: Mapping[str, list[str]]) -> tuple[int, list[Part]]:
    """Where planes stand, each of two directions that are added to one another; and how far apart these two are.

    All directions together are evenly spaced on each axis, in the same order everywhere; else they stand nowhere.
    """
    found, orders = [], set()
    for place in sorted({(tensor, axis) for each in basis for tensor, axis, _ in members[each]}):
        own = sorted(
            (slot, number)
            for number, each in enumerate(basis)
            for tensor, axis, slot in members[each]
            if (tensor, axis) == place
        )
        slots = tuple(slot for slot, _ in own)
        orders.add(tuple(number for _, number in own) if _even(slots) else ())
        found += [Part(name, place[1], slots) for name in aliases[place[0]]]
    order = np.array(orders.pop() if len(orders) == 1 else (), dtype=np.int64)
    apart = int((order == order[0]).nonzero()[0][-1]) if len(order) == 2 * len(basis) else 0
    if not apart or len(order) % (2 * apart):
        return 0, []
    pairs = order.reshape(-1, 2, apart)
    return (apart, found) if np.array_equal(pairs[:, 0], pairs[:, 1]) else (0, [])


def _even(slots: Sequence[int]) -> bool:
    """Whether slots are in ascending order, all equally far apart."""
    return len({*np.diff(slots).tolist()}) <= 1 and (len(slots) < 2 or slots[1] > slots[0])


def _twice(layout: Layout, space: str) -> bool:
    """Whether a space stands on two axes of one tensor."""
    return any(sum(space in axis.spaces for axis in axes) > 1 for axes in layout.tensors.values())
