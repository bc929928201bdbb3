"""The registry of units: what is known of their ids, and what ties them to one another.

An *id* is a place where a unit shows up: a row of a weight, an activation. Three relations grow while the
network is read:

- same slot: two ids stand for one and the same thing (the rows of a weight and of its bias). A union-find.
- same unit: ids that move together though they are different things: on the same axis of a tensor, like the gates
  of an LSTM unit or the dimensions of a head. Edges, resolved at the end.
- degrees: how an id scales when its unit is multiplied by a number: equal, a sum (a product of activations), or zero.
  Linear equations, solved at the end.

Beside them each id has a *colour*, a hash of all operations it went through and of what it met there. Units of equal
colour can be exchanged. Pinning an id gives it a colour of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..layout import Reduced
from .labels import mix

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Distinction:
    """A place where ids were told apart: which ids, by what, and why."""

    ids: Ids
    colours: Ids
    reason: str


@dataclass(frozen=True, eq=False)
class Reduction:
    """A place where units were summed (or averaged) away, so that their number shows: which ids, how, and where."""

    ids: Ids
    how: Reduced
    where: str


@dataclass(frozen=True, eq=False)
class Showing:
    """A place where units are seen in an activation: which ids, and how long an axis is that has (or would have) them.

    Args:
        ids: The ids.
        lengths: The axis itself, and it together with its neighbours, as flattening makes of them.
        apart: Whether there are further axes, of which a pooled part may be flattened.
    """

    ids: Ids
    lengths: frozenset[int]
    apart: bool


@dataclass(frozen=True, eq=False)
class Equation:
    """Elementwise `degree[total] = degree[first] + sign * degree[second]` (0 as an id has degree zero)."""

    total: Ids
    first: Ids
    second: Ids
    sign: int = 1
    signs: bool = True
    scales: bool = True


@dataclass
class Registry:
    """Grows while a network is read; `resolve` reads it afterwards."""

    parent: Ids = field(default_factory=lambda: np.zeros(1024, dtype=np.int64))
    colour: Ids = field(default_factory=lambda: np.zeros(1024, dtype=np.int64))
    size: int = 1  # id 0 is nobody
    places: dict[int, int] = field(default_factory=dict)  # slot -> the axes of the state it is on, as bits
    together: list[tuple[Ids, Ids]] = field(default_factory=list)
    equations: list[Equation] = field(default_factory=list)
    distinctions: list[Distinction] = field(default_factory=list)
    consumed: list[Ids] = field(default_factory=list)
    bent: set[int] = field(default_factory=set)  # of weights that go through a function: a half of one is no half there
    shown: list[Showing] = field(default_factory=list)
    reductions: list[Reduction] = field(default_factory=list)
    lengths: set[int] = field(default_factory=set)  # of all axes of activations

    def fresh(self, count: int) -> Tensor:
        """New ids, each in a slot of its own."""
        start, self.size = self.size, self.size + count
        while self.size > len(self.parent):
            self.parent = np.concatenate([self.parent, np.zeros_like(self.parent)])
            self.colour = np.concatenate([self.colour, np.zeros_like(self.colour)])
        ids = np.arange(start, self.size)
        self.parent[start : self.size] = ids
        return torch.from_numpy(ids)

    def slots(self, ids: Ids) -> Ids:
        """The representative of each id's slot."""
        found = self.parent[ids]
        while not np.array_equal(found, self.parent[found]):
            found = self.parent[found]
        self.parent[ids] = found
        return found

    def same_slot(self, first: Tensor, second: Tensor) -> None:
        """Elementwise: the two ids stand for the same thing."""
        self._unite(*connected(self.slots(flat(first)), self.slots(flat(second))))

    def _unite(self, slots: Ids, least: Ids) -> None:
        """Each slot becomes one with the least that it is connected with."""
        self.parent[slots] = least
        higher = slots != least
        for high, low in pairs_of(slots[higher], least[higher]):
            if held := self.places.pop(high, 0):
                self.places[low] = self.places.get(low, 0) | held

    def same_unit(self, first: Tensor, second: Tensor) -> None:
        """Elementwise: the two ids belong to one unit."""
        self.together.append((flat(first), flat(second)))

    def equal(self, first: Tensor, second: Tensor, *, signs: bool = True, scales: bool = True) -> None:
        """Elementwise: both ids change alike when their unit is negated or scaled."""
        left = flat(first)
        self.equations.append(Equation(left, flat(second), np.zeros_like(left), 1, signs, scales))

    def summed(self, total: Tensor, first: Tensor, second: Tensor) -> None:
        """Elementwise: `total` changes like the product of the two."""
        self.equations.append(Equation(flat(total), flat(first), flat(second)))

    def inverse(self, ids: Tensor) -> Tensor:
        """New ids for one over the elements of ids, in the same slots."""
        unique, inverse = torch.unique(ids, return_inverse=True)
        made = torch.where(unique == 0, 0, self.fresh(len(unique)))
        self.same_slot(made, unique)
        self.equations.append(Equation(flat(made), np.zeros_like(flat(made)), flat(unique), -1))
        return made[inverse]

    def invariant(self, ids: Tensor, *, signs: bool = True, scales: bool = True) -> None:
        """The ids must not change when their unit is negated (`signs`) or scaled (`scales`)."""
        left = present(ids)
        if left.size and (signs or scales):
            nobody = np.zeros_like(left)
            self.equations.append(Equation(left, nobody, nobody, 1, signs, scales))

    def paint(self, ids: Tensor, colours: Tensor) -> tuple[Ids, Ids]:
        """Add to the colour of each id; returns what each distinct id was given in all."""
        left, what = (flat(array) for array in torch.broadcast_tensors(ids, colours))
        unique, inverse = np.unique(left, return_inverse=True)
        given = np.zeros(len(unique), dtype=np.int64)
        np.add.at(given, inverse, what)
        given[unique == 0] = 0
        self.colour[unique] += given
        return unique, given

    def pin(self, ids: Tensor, reason: str) -> None:
        """Each of the ids gets a colour of its own: its unit does not move."""
        left = np.unique(present(ids))
        if left.size:
            self.paint(torch.from_numpy(left), mix(torch.from_numpy(left) * 2 + 1))
            self.distinctions.append(Distinction(left, left, reason))

    def consume(self, ids: Tensor) -> None:
        """The ids are on axes of weights that are summed over."""
        self.consumed.append(np.unique(present(ids)))

    def bend(self, ids: Tensor) -> None:
        """The ids are on axes of weights of which a function is taken that is not homogeneous."""
        self.bent.update(np.unique(present(ids)).tolist())

    def is_bent(self, ids: Tensor) -> bool:
        """Whether some of the ids are on axes of such weights."""
        return bool(self.bent) and not self.bent.isdisjoint(np.unique(present(ids)).tolist())

    def show(self, ids: Tensor, shape: Sequence[int], axes: Iterable[int]) -> None:
        """The ids are units of an activation of that shape, along these axes of it."""
        lengths = {
            prod(shape[start:stop])
            for axis in axes
            for start in range(min(axis, 1), axis + 1)
            for stop in range(axis + 1, len(shape) + 1)
        }
        self.shown.append(Showing(np.unique(present(ids)), frozenset(lengths), len(shape) > 2))

    def reduce(self, ids: Tensor, how: Reduced, where: str) -> None:
        """The ids are units that are summed (or averaged) away, their number shows in the result."""
        self.reductions.append(Reduction(np.unique(present(ids)), how, where))

    def product(self, first: Tensor, second: Tensor) -> Tensor:
        """New ids for elementwise products of ids, one for each distinct pair."""
        pairs, inverse = self.pairs(first, second)
        made = self.fresh(pairs.shape[1])
        self.summed(made, pairs[0], pairs[1])
        self.relate(pairs[0], pairs[1])
        slots = [self.slots(flat(factor)) for factor in pairs]
        distinct = len(np.unique(slots[0] * self.size + slots[1]))
        for factor, own in zip(pairs, slots, strict=True):
            if len(np.unique(own)) == distinct:  # this factor tells the products apart
                self.relate(made, factor)
                return made[inverse]
        self.same_unit(made, pairs[0])
        return made[inverse]

    def pairs(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """The distinct pairs of ids that meet elementwise [2, pairs], and which of them each element is."""
        codes, inverse = torch.unique(first * self.size + second, return_inverse=True)
        return torch.stack([codes // self.size, codes % self.size]), inverse

    def relate(self, first: Tensor, second: Tensor) -> None:
        """Ids that meet elementwise move together: as one slot, unless that would hold two places of one axis."""
        slots, least = connected(self.slots(flat(first)), self.slots(flat(second)))
        if self._compatible(slots, least):
            self._unite(slots, least)
        else:
            self.same_unit(first, second)

    def _compatible(self, slots: Ids, least: Ids) -> bool:
        """Whether no two slots that would become one are on the same axis of the same tensor."""
        held: dict[int, int] = {}
        for slot, leader in pairs_of(slots, least):
            own, others = self.places.get(slot, 0), held.get(leader, 0)
            if own & others:
                return False
            held[leader] = own | others
        return True

    def put(self, ids: Tensor, place: int) -> None:
        """The ids stand on an axis of the state, which has that number."""
        for slot in self.slots(flat(ids)).tolist():
            self.places[slot] = self.places.get(slot, 0) | 1 << place


def connected(left: Ids, right: Ids) -> tuple[Ids, Ids]:
    """What pairs of different ids connect: these ids, and for each the least that it is connected with."""
    from scipy.sparse import coo_array  # imported when it is needed: a tenth of the time of `import torch`
    from scipy.sparse.csgraph import connected_components

    different = left != right
    if not different.any():
        return left[:0], left[:0]
    nodes, index = np.unique(np.concatenate([left[different], right[different]]), return_inverse=True)
    edges = index.reshape(2, -1)
    graph = coo_array((np.ones(edges.shape[1], dtype=bool), edges), shape=(len(nodes), len(nodes)))
    count, group = connected_components(graph, directed=False)
    least = np.zeros(count, dtype=np.int64)
    least[group[::-1]] = nodes[::-1]  # nodes ascend: the first of a group is written last
    return nodes, least[group]


def flat(array: Tensor) -> Ids:
    """A tensor of ids as a flat array."""
    result: Ids = array.reshape(-1).numpy()
    return result


def present(ids: Tensor) -> Ids:
    """The ids that are somebody's."""
    left = flat(ids)
    somebody: Ids = left[left != 0]
    return somebody


def pairs_of(first: Ids, second: Ids) -> Iterator[tuple[int, int]]:
    """Elementwise pairs as plain integers."""
    return zip(first.tolist(), second.tolist(), strict=True)
