"""The algebra of frames: the rules of all operations read once more, by what they do to directions inside of units.

A head of attention is a unit with several slots: its dimensions, in queries, keys, values and in what reads these.
Where they only ever meet in sums of products (queries with keys, values with columns of the output), any invertible
matrix may multiply the one if its inverse, transposed, multiplies the other. Such sets of slots are a *frame*.

It has the functions of `algebra.Algebra`, so that every rule is written once. A value has *fields*: integers that say
which slot of which unit an element is. What is linear passes them on, a sum makes slots one direction, a product summed
over slots makes two sets of them dual; anything else loses them. Slots with factors of their own that are added to each
other, two by two, may be planes that positions turn; whether they are, by these factors, the proof finds out.

In: the layout so far, and the operations, by the reader. Out: which slots are one direction, dual, scaled, or lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..layout import Layout
from .algebra import Join, Over, Value
from .labels import Labels, compress, support
from .registry import Registry
from .turns import listed

Direction = tuple[str, int, int]  # a slot: a tensor, one of its axes, which slot of each unit there


@dataclass(frozen=True, eq=False)
class Fielded(Labels):
    """A value of the network, as directions inside of units see it.

    Args:
        fields: Ids of slots of units, 0 where there is none, each broadcasting to the shape of the value.
    """

    fields: tuple[Tensor, ...] = ()


@dataclass
class Framing:
    """Finds directions inside of units, operation by operation."""

    layout: Layout
    registry: Registry = field(default_factory=Registry)  # rules may note something there; nobody reads it
    where: str = ""  # the operation at hand
    units: Tensor = field(default_factory=lambda: torch.tensor([-1]))  # of each id: its unit
    slots: Tensor = field(default_factory=lambda: torch.tensor([-1]))  # of each id: which direction it is
    directions: list[Direction] = field(default_factory=list)
    same: list[tuple[int, int]] = field(default_factory=list)  # directions that are one
    duals: set[tuple[tuple[int, int], ...]] = field(default_factory=set)  # directions that meet in a sum of products
    lost: set[int] = field(default_factory=set)  # directions that do not turn
    scaled: set[int] = field(default_factory=set)  # directions with factors of their own, as rotary embeddings have

    def parameter(self, shape: Sequence[int], name: str = "") -> Fielded:
        """A tensor of the state: an id for each slot of each unit, on axes that have several slots of one space."""
        fields = []
        for number, axis in enumerate(self.layout.tensors[name]):
            blocks = [each for each in self._blocks.get((name, number), ()) if each.positions.shape[1] > 1]
            if len(blocks) == len(axis.spaces) == 1 and blocks[0].positions.size == shape[number]:
                view = [-1 if number == other else 1 for other in range(len(shape))]
                fields.append(self._fresh(name, number, blocks[0].positions).view(view))
        return Fielded(tuple(shape), weight=True, fields=tuple(fields))

    def __post_init__(self) -> None:
        """Find what stands on each axis."""
        self._blocks: dict[tuple[str, int], list[Any]] = {}
        for block in self.layout.blocks():
            self._blocks.setdefault((block.tensor, block.axis), []).append(block)

    def _fresh(self, tensor: str, axis: int, positions: Any) -> Tensor:
        """New ids [length of the axis] for the slots of all units on it."""
        count, width = positions.shape
        first = len(self.directions)
        self.directions += [(tensor, axis, slot) for slot in range(width)]
        ids = np.zeros(positions.size, dtype=np.int64)
        ids[positions] = len(self.units) + np.arange(positions.size).reshape(positions.shape)
        self.units = torch.cat([self.units, torch.arange(count).repeat_interleave(width)])
        self.slots = torch.cat([self.slots, first + torch.arange(width).repeat(count)])
        return torch.from_numpy(ids)

    def lose(self, *fields: Tensor) -> None:
        """The directions of some ids do not turn."""
        for ids in fields:
            self.lost.update(self.slots[torch.unique(ids)].tolist())

    def _stopped(self, value: Fielded) -> Fielded:
        self.lose(*value.fields)
        return Fielded(value.shape, weight=value.weight)

    # -- where values come from, and functions of single elements ---------------------------------------------------

    def labels(self, value: Value) -> Fielded:
        """Anything that can be an operand; what was computed otherwise, and constants, have no fields."""
        if isinstance(value, Fielded):
            return value
        if isinstance(value, Labels):
            return Fielded(value.shape)
        return Fielded(tuple(value.shape) if isinstance(value, Tensor) else (), weight=True)

    def source(self, shape: Sequence[int]) -> Fielded:
        """An input of the model."""
        return Fielded(tuple(shape))

    def pointwise(
        self, value: Value, *, odd: bool = False, homogeneous: bool = False, keeps_zero: bool = False
    ) -> Fielded:
        """A function of one value, elementwise: one that is linear passes."""
        x = self.labels(value)
        return x if odd and homogeneous else self._stopped(x)

    def absolute(self, value: Value) -> Fielded:
        """Absolute values, which no matrix passes."""
        return self._stopped(self.labels(value))

    def squared(self, value: Value) -> Fielded:
        """Squares, which only a rotation would pass."""
        return self._stopped(self.labels(value))

    def join(self, *values: Value, kind: Join = "other") -> Fielded:
        """An elementwise function of several values, with broadcasting."""
        result, *rest = [self.labels(value) for value in values]
        for other in rest:
            result = self._join(result, other, kind)
        return result

    def _join(self, first: Fielded, second: Fielded, kind: Join) -> Fielded:
        shape = tuple(torch.broadcast_shapes(first.shape, second.shape))
        x, y = (_ranked(value, len(shape)) for value in (first, second))
        weight = x.weight and y.weight
        if kind == "add" and len(x.fields) == len(y.fields) == 1:
            return Fielded(shape, weight=weight, fields=self._sum(x.fields[0], y.fields[0]))
        factors = kind == "multiply" and not (x.fields and y.fields)
        if factors or (kind == "divide" and not y.fields):
            own, other = (x, y) if x.fields else (y, x)
            for ids in own.fields:
                self._scale(ids, other.shape)
            return Fielded(shape, weight=weight, fields=own.fields)
        self.lose(*x.fields, *y.fields)
        return Fielded(shape, weight=weight)

    def _sum(self, one: Tensor, other: Tensor) -> tuple[Tensor, ...]:
        """Slots that are added are one direction, if they are of one unit."""
        a, b = torch.broadcast_tensors(one, other)
        if not torch.equal(self.units[a], self.units[b]):
            self.lose(one, other)
            return ()
        pairs = torch.unique(torch.stack([self.slots[each].reshape(-1) for each in (a, b)], 1), dim=0)
        self.same += [(int(left), int(right)) for left, right in pairs]
        return (compress(a),)

    def _single(self, ids: Tensor, shape: Sequence[int]) -> bool:
        """Whether a factor of that shape is one number for all directions of a unit; else these are lost."""
        single = self._is_single(ids, shape)
        if not single:
            self.lose(ids)
        return single

    def _is_single(self, ids: Tensor, shape: Sequence[int]) -> bool:
        return all(shape[axis] == 1 for axis in support(compress(self.slots[ids])))

    def _scale(self, ids: Tensor, shape: Sequence[int]) -> None:
        """Note directions that a factor of that shape multiplies one by one: they may still turn in planes."""
        if not self._is_single(ids, shape):
            self.scaled.update(self.slots[torch.unique(ids)].tolist())

    # -- axes ------------------------------------------------------------------------------------------------------

    def reduce(
        self, value: Value, axes: Iterable[int], *, keepdim: bool = False, odd: bool = False,
        homogeneous: bool = False, over: Over = "sum",
    ) -> Fielded:  # fmt: skip
        """A symmetric function over axes: a linear one over other axes passes."""
        return self.collapse(value, axes, keepdim=keepdim, linear=odd and homogeneous)

    def collapse(self, value: Value, axes: Iterable[int], *, keepdim: bool = False, linear: bool = True) -> Fielded:
        """A function over axes: a linear one over other axes passes."""
        x = self.labels(value)
        gone = {axis % len(x.shape) for axis in axes} if x.shape else set()
        kept = tuple(ids for ids in x.fields if linear and not support(ids) & gone)
        self.lose(*(ids for ids in x.fields if all(ids is not each for each in kept)))
        shape = tuple(1 if axis in gone else n for axis, n in enumerate(x.shape))
        if not keepdim:
            left = [axis for axis in range(len(shape)) if axis not in gone]
            kept = tuple(ids.reshape([ids.shape[axis] for axis in left]) for ids in kept)
            shape = tuple(shape[axis] for axis in left)
        return Fielded(shape, weight=x.weight, fields=kept)

    def contract(self, equation: str, first: Value, second: Value) -> Fielded:
        """The product of two values, summed: an einsum of letters, `bti,oi->bto`."""
        operands, output = equation.split("->")
        letters = operands.split(",")
        if any(len(set(own)) != len(own) for own in letters):
            raise ValueError(f"repeated index in {operands}")
        values = [self.labels(first), self.labels(second)]
        sizes: dict[str, int] = {}
        for own, value in zip(letters, values, strict=True):
            for letter, size in zip(own, value.shape, strict=True):
                sizes[letter] = max(sizes.get(letter, 1), size)
        joint = output + "".join(letter for letter in sizes if letter not in output)
        fields = [[_lettered(ids, own, joint) for ids in v.fields] for own, v in zip(letters, values, strict=True)]
        summed = frozenset(range(len(output), len(joint)))
        kept: list[Tensor] = []
        for number, other in ((0, 1), (1, 0)):
            extent = [values[other].shape[letters[other].index(c)] if c in letters[other] else 1 for c in joint]
            still = [ids for ids in fields[number] if not support(ids) & summed]
            kept += [ids for ids in still if self._single(ids, extent)]
        met = [[ids for ids in own if support(ids) & summed] for own in fields]
        if len(met[0]) == len(met[1]) == 1 and self._dual(met[0][0], met[1][0], summed):
            met = []
        self.lose(*(ids for own in met for ids in own))
        results = tuple(ids.reshape(ids.shape[: len(output)]) for ids in kept)
        shape = tuple(sizes[letter] for letter in output)
        return Fielded(shape, weight=all(value.weight for value in values), fields=results)

    def _dual(self, one: Tensor, other: Tensor, summed: frozenset[int]) -> bool:
        """Note which directions of a unit meet which in a sum of products; false if other units meet."""
        a, b = torch.broadcast_tensors(one, other)
        if not torch.equal(self.units[a], self.units[b]) or bool((a == 0).any()) or bool((b == 0).any()):
            return False
        kept = [axis for axis in range(a.dim()) if axis not in summed]
        order = [*kept, *sorted(summed)]
        places = int(np.prod([a.shape[axis] for axis in kept]))
        rows = [ids.permute(order).reshape(places, -1) for ids in (a, b)]
        columns = [self.units[rows[0]].tolist(), *(self.slots[each].tolist() for each in rows)]
        for row in zip(*columns, strict=True):
            found: dict[int, list[tuple[int, int]]] = {}
            for unit, left, right in zip(*row, strict=True):
                found.setdefault(unit, []).append((left, right))
            for pairs in found.values():
                self.duals.update(_split(pairs))
        return True

    def move(self, function: Callable[..., Any], *values: Value) -> list[Fielded]:
        """An operation that changes places only, run on integers."""
        given = [self.labels(value) for value in values]
        outputs = listed(function(*(torch.zeros((), dtype=torch.int64).expand(value.shape) for value in given)))
        fields: list[list[Tensor]] = [[] for _ in outputs]
        if len(given) > 1 and any(len(value.fields) > 1 for value in given):
            self.lose(*(ids for value in given for ids in value.fields))
            given = [replace(value, fields=()) for value in given]
        for number in range(max((len(value.fields) for value in given), default=0)):
            arrays = [
                (value.fields[number] if value.fields else torch.tensor(0)).expand(value.shape) for value in given
            ]
            for own, moved in zip(fields, listed(function(*arrays)), strict=True):
                if bool((moved == 0).any()):
                    self.lose(moved)
                else:
                    own.append(compress(moved))
        weight = all(value.weight for value in given)
        return [
            Fielded(tuple(output.shape), weight=weight, fields=tuple(own))
            for output, own in zip(outputs, fields, strict=True)
        ]

    def blend(
        self, value: Value, axes: Iterable[int], shape: Sequence[int], *, odd: bool = False,
        homogeneous: bool = False, why: str = "",
    ) -> Fielded:  # fmt: skip
        """An operation that mixes positions along axes, to a result of another length there."""
        kept = self.collapse(value, axes, keepdim=True, linear=odd and homogeneous)
        return replace(kept, shape=tuple(shape))

    def opaque(self, shape: Sequence[int], inputs: Iterable[Value], why: str) -> Fielded:
        """The result of an operation of which nothing is known: nothing that it touches turns."""
        values = [self._stopped(self.labels(value)) for value in inputs if isinstance(value, Labels | Tensor)]
        return Fielded(tuple(shape), weight=all(value.weight for value in values))

    def pinned(self, value: Labels, axes: frozenset[int] | None, why: str) -> Fielded:
        """A value whose units along some axes (default: all) stay in place."""
        x = self.labels(value)
        kept = tuple(ids for ids in x.fields if axes is not None and not support(ids) & axes)
        self.lose(*(ids for ids in x.fields if all(ids is not each for each in kept)))
        return replace(x, fields=kept)

    def distinguish(self, ids: Tensor, classes: Tensor, why: str) -> None:
        """Units that cannot be exchanged: nothing follows for what is inside of them."""


def _ranked(value: Fielded, rank: int) -> Fielded:
    """A value with leading axes of length 1, up to a rank."""
    more = (1,) * (rank - len(value.shape))
    fields = tuple(ids.reshape(more + tuple(ids.shape)) for ids in value.fields)
    return replace(value, shape=more + value.shape, fields=fields) if more else value


def _lettered(ids: Tensor, own: str, joint: str) -> Tensor:
    """A field with an axis for each letter of `joint`, from one with those of `own`."""
    moved = ids.permute([own.index(letter) for letter in joint if letter in own])
    return moved.reshape([ids.shape[own.index(letter)] if letter in own else 1 for letter in joint])


def _split(pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Pairs of directions as sets in which each is once: keys that several queries share meet each of them."""
    left = [pairs]
    while left:
        some = left.pop()
        seen: tuple[set[int], set[int]] = (set(), set())
        once: list[tuple[int, int]] = []
        more: list[tuple[int, int]] = []
        for pair in some:
            new = pair[0] not in seen[0] and pair[1] not in seen[1]
            (once if new else more).append(pair)
            if new:
                seen[0].add(pair[0])
                seen[1].add(pair[1])
        yield tuple(sorted(once))
        if more:
            left.append(more)
