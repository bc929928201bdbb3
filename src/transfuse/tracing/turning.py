"""The algebra of rotations: the rules of all operations read once more, by what they do to units that are rotated.

It has the functions of `algebra.Algebra`, so that every rule is written once. In place of ids, a value has a *turn* for
each axis along which the units of a space stand, one for each position: whatever rotates the space rotates this axis.
All spaces start with rotations, and lose them where an operation does not commute with them: a function of single
units, a product of units with units, a slice or a concatenation of the axis. What is linear passes, and so does a norm,
once its gain is folded into what reads it: until then a turn remembers the norm. A vector that multiplies what layers
write, before any norm, goes into these: for that a turn remembers the tensors whose sum the units are.

In: the layout so far, and the operations, by the reader. Out: which spaces are left, which of them have to fix the
mean, the norms with their readers, and for the others why not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..layout import Layout
from .algebra import Join, Over, Value
from .findings import Findings
from .labels import Labels
from .registry import Registry
from .turns import (
    COMPUTED,
    Norm,
    Term,
    Turn,
    Turned,
    all_terms,
    arrived,
    is_vector,
    listed,
    moving_layers,
    numbered,
    of_rank,
    repeated,
)


@dataclass
class Turning:
    """Finds the spaces whose units rotate, operation by operation."""

    layout: Layout
    spaces: Collection[str]  # those that rotate until something is found that does not allow it
    registry: Registry = field(default_factory=Registry)  # rules may note something there; nobody reads it
    found: Findings = field(default_factory=Findings)

    @property
    def where(self) -> str:
        """The operation at hand, for reasons."""
        return self.found.where

    @where.setter
    def where(self, operation: str) -> None:
        self.found.where = operation

    def _left(self, value: Turned) -> Turned:
        """A value without the turns of spaces that do not rotate any more."""
        if not any(turn.space in self.found.lost for turn in value.turns.values()):
            return value
        return replace(
            value, turns={axis: turn for axis, turn in value.turns.items() if turn.space not in self.found.lost}
        )

    # -- where values come from ------------------------------------------------------------------------------------

    def labels(self, value: Value) -> Turned:
        """Anything that can be an operand; what was computed otherwise, and constants, do not turn."""
        if isinstance(value, Turned):
            return self._left(value)
        if isinstance(value, Labels):
            return Turned(value.shape)
        return Turned(tuple(value.shape) if isinstance(value, Tensor) else (), weight=True)

    def source(self, shape: Sequence[int]) -> Turned:
        """An input of the model."""
        return Turned(tuple(shape))

    def parameter(self, shape: Sequence[int], name: str = "") -> Turned:
        """A tensor of the state: where units stand alone on an axis, it turns with them."""
        axes = self.layout.tensors[name]
        turns = {
            number: Turn(axis.alone, terms=frozenset([Term(name, number)]))
            for number, axis in enumerate(axes)
            if axis.alone in self.spaces
        }
        return Turned(tuple(shape), weight=True, turns=turns, tensor=name)

    # -- elementwise -----------------------------------------------------------------------------------------------

    def pointwise(
        self, value: Value, *, odd: bool = False, homogeneous: bool = False, keeps_zero: bool = False
    ) -> Turned:
        """A function of one value, elementwise: one that is linear passes."""
        x = self.labels(value)
        if odd and homogeneous:
            return self._unplain(x) if self.where.startswith("aten.neg") else x
        return self._stopped(x, "is put through a function of single units")

    def _unplain(self, value: Turned) -> Turned:
        turns = {axis: replace(turn, plain=False) for axis, turn in value.turns.items()}
        return replace(value, turns=turns, read="")

    def _stopped(self, value: Turned, why: str) -> Turned:
        """A value that no rotation passes."""
        self.found.lose(value.turns.values(), why)
        self.found.use(value.tensor, why)
        return Turned(value.shape, weight=value.weight)

    def absolute(self, value: Value) -> Turned:
        """Absolute values of single units, which no rotation passes."""
        return self._stopped(self.labels(value), "its absolute values are taken")

    def squared(self, value: Value) -> Turned:
        """Squares of units, which may be summed over all of them."""
        x = self.labels(value)
        if any(turn.norm or turn.squared for turn in x.turns.values()):
            return self._stopped(x, "is squared after a norm")
        self.found.use(x.tensor, "squared")
        turns = {axis: replace(turn, squared=True) for axis, turn in x.turns.items()}
        return replace(x, turns=turns, tensor="", read="")

    def join(self, *values: Value, kind: Join = "other") -> Turned:
        """An elementwise function of several values, with broadcasting."""
        if kind == "multiply" and len(values) == 2 and values[0] is values[1]:
            return self.squared(values[0])
        result, *rest = [self.labels(value) for value in values]
        for other in rest:
            result = self._join(result, other, kind)
        return result

    def _join(self, first: Turned, second: Turned, kind: Join) -> Turned:
        shape = tuple(torch.broadcast_shapes(first.shape, second.shape))
        x, y = (of_rank(value, len(shape)) for value in (first, second))
        before = self.found.counts([x, y])
        turns = {axis: self._met(axis, x, y, kind) for axis in sorted({*x.turns, *y.turns})}
        for value, other in ((x, y), (y, x)):
            if kind == "add" and value.read and other.tensor and len(other.shape) - other.shape.count(1) == 1:
                self.found.use(value.read, "with bias", other.tensor)
                self.found.use(other.tensor, "bias of", value.read)
        self.found.use_else(kind, before)
        kept = {axis: turn for axis, turn in turns.items() if turn is not None and turn.space not in self.found.lost}
        return Turned(shape, weight=x.weight and y.weight, turns=kept)

    def _met(self, axis: int, x: Turned, y: Turned, kind: Join) -> Turn | None:
        """What is left of the units along an axis where two values meet."""
        a, b = x.turns.get(axis), y.turns.get(axis)
        if a is None or b is None:
            turn, other = (a, y) if a is not None else (b, x)
            assert turn is not None, "one of two values turns"
            return self._met_alone(turn, other, other.single(axis), kind, below=other is x)
        found = None
        if kind == "add":
            found = self._sum(a, b, x, y) or self._sum(b, a, y, x)
        elif kind == "multiply":
            found = self._gained(a, b, y) or self._gained(b, a, x)
        if found is None:
            why = "is multiplied by units" if kind in ("multiply", "divide") else "meets units"
            norm = next((turn.norm for turn in (a, b) if turn.norm), None)
            self.found.lose([a, b], f"has the gain {norm.gain} where it {why}" if norm else why)
        return found

    def _met_alone(self, turn: Turn, other: Turned, single: bool, kind: Join, *, below: bool) -> Turn | None:
        """Units that meet what does not turn: one number for all passes, as a factor or, for the mean, as a term."""
        if single and (kind == "multiply" or (kind == "divide" and not below)):
            return replace(turn if other.weight else self._ended(turn), plain=False)
        if single and kind == "add" and not turn.norm and not turn.squared:
            self.found.centred.add(turn.space)
            return self._ended(turn)
        self.found.lose(
            [turn], f"meets what does not rotate ({other.tensor})" if other.tensor else "meets what does not rotate"
        )
        return None

    def _ended(self, turn: Turn) -> Turn:
        """Units with a number for all that is computed, maybe from themselves as by a norm: no sum of tensors now."""
        self.found.arrive(turn)
        return replace(turn, terms=frozenset([COMPUTED]))

    def _sum(self, a: Turn, b: Turn, x: Turned, y: Turned) -> Turn | None:
        """The sum of units and units; or of units with a gain and a bias, which then belongs to the norm."""
        if a.space != b.space or a.squared or b.squared or b.norm:
            return None
        if a.norm is None:
            return Turn(a.space, terms=all_terms([a, b]))
        if a.norm.bias or not is_vector(y):
            return None
        return self.found.with_norm(replace(a, plain=True), Norm(a.norm.gain, y.tensor))

    def _gained(self, a: Turn, b: Turn, other: Turned) -> Turn | None:
        """Units times a vector of the state: of what layers write, a scale that goes into these; else a norm's gain."""
        if a.space != b.space or a.norm or b.norm or a.squared or b.squared or not is_vector(other):
            return None
        if a.scalable:
            return self.found.with_scale(replace(a, plain=False), other.tensor)
        return self.found.with_norm(replace(a, plain=True), Norm(other.tensor))

    # -- axes ------------------------------------------------------------------------------------------------------

    def reduce(
        self, value: Value, axes: Iterable[int], *, keepdim: bool = False, odd: bool = False,
        homogeneous: bool = False, over: Over = "sum",
    ) -> Turned:  # fmt: skip
        """A symmetric function over axes; linear ones pass, and a sum of all units does for the mean or of squares."""
        x = self.labels(value)
        gone = frozenset(axis % len(x.shape) for axis in axes) if x.shape else frozenset()
        linear = odd and homogeneous
        kept = {}
        for axis, turn in x.turns.items():
            if axis in gone:
                self.found.summed(turn, linear)
            elif linear:
                kept[axis] = turn if over == "mean" else replace(turn, plain=False)
            else:
                self.found.lose([turn], "is put through a function of single units")
        self.found.use(x.tensor, "reduced")
        return self._without(replace(x, turns=kept, tensor="", read=""), gone, keepdim=keepdim)

    def collapse(self, value: Value, axes: Iterable[int], *, keepdim: bool = False, linear: bool = True) -> Turned:
        """A function over axes for which the order along them matters: rows of a table, kernel positions."""
        x = self.labels(value)
        gone = frozenset(axis % len(x.shape) for axis in axes)
        if not linear:
            x = self._stopped(x, "is put through a function of single units")
        self.found.lose([turn for axis, turn in x.turns.items() if axis in gone], "its order along the axis matters")
        return self._without(self._left(x), gone, keepdim=keepdim)

    @staticmethod
    def _without(value: Turned, gone: Collection[int], *, keepdim: bool) -> Turned:
        """A value some of whose axes have length 1, or are gone."""
        if keepdim:
            return replace(value, shape=tuple(1 if axis in gone else n for axis, n in enumerate(value.shape)))
        left = [axis for axis in range(len(value.shape)) if axis not in gone]
        turns = {left.index(axis): turn for axis, turn in value.turns.items() if axis in left}
        return replace(value, shape=tuple(value.shape[axis] for axis in left), turns=turns)

    def contract(self, equation: str, first: Value, second: Value) -> Turned:
        """The product of two values, summed: an einsum of letters, `bti,oi->bto`."""
        operands, output = equation.split("->")
        letters = operands.split(",")
        if any(len(set(own)) != len(own) for own in letters):
            raise ValueError(f"repeated index in {operands}")
        values = [self.labels(first), self.labels(second)]
        sizes: dict[str, int] = {}
        turns: dict[str, list[tuple[int, Turn]]] = {}
        for number, (own, value) in enumerate(zip(letters, values, strict=True)):
            for axis, letter in enumerate(own):
                sizes[letter] = max(sizes.get(letter, 1), value.shape[axis])
                if axis in value.turns:
                    turns.setdefault(letter, []).append((number, value.turns[axis]))
        read = ""
        kept = {}
        before = self.found.counts(values)
        for letter, found in turns.items():
            if letter not in output:
                read = self._contracted(found, values, shared=all(letter in own for own in letters)) or read
            elif len(found) == 1 and not all(letter in own for own in letters):
                kept[output.index(letter)] = replace(found[0][1], plain=False)
                self.found.use(values[found[0][0]].tensor, "writes", found[0][1].space)
            else:
                self.found.lose([turn for _, turn in found], "is multiplied by units")
        self.found.use_else("product", before)
        kept = {axis: turn for axis, turn in kept.items() if turn.space not in self.found.lost}
        return Turned(
            tuple(sizes[letter] for letter in output), weight=all(v.weight for v in values), turns=kept, read=read
        )

    def _contracted(self, found: Sequence[tuple[int, Turn]], values: Sequence[Turned], *, shared: bool) -> str:
        """Units that are summed over: against units of the same space, by a weight or by another value."""
        turns = [turn for _, turn in found]
        if not shared and len(turns) == 1:
            self.found.summed(turns[0], linear=True)
            return ""
        for turn in turns:
            self.found.arrive(turn)
        if len(turns) == 1 or turns[0].space != turns[1].space or any(turn.squared for turn in turns):
            self.found.lose(turns, "is summed against what does not rotate with it")
            return ""
        norms = [turn.norm for turn in turns]
        if not any(norms):
            for value in values:
                self.found.use(value.tensor, "reads without gain")
            return ""
        which = 0 if norms[0] else 1
        weight, norm = values[1 - which].tensor, norms[which]
        if not weight or all(norms) or norm is None:
            gains = " and ".join(each.gain for each in norms if each)
            self.found.lose(turns, f"has the gain {gains} where it is not read by a weight")
            return ""
        self.found.use(weight, "reads", norm.gain)
        if not turns[which].plain:
            self.found.use(weight, "with bias", "")
        return weight if turns[which].plain else ""

    def move(self, function: Callable[..., Any], *values: Value) -> list[Turned]:
        """An operation that changes places only, run on integers: a turn moves if its axis arrives whole, in order."""
        given = [self.labels(value) for value in values]
        outputs = listed(function(*(torch.zeros((), dtype=torch.int64).expand(value.shape) for value in given)))
        turns: list[dict[int, Turn]] = [{} for _ in outputs]
        for value in given if len(given) > 1 else ():
            spaces = [turn.space for turn in value.turns.values()]
            self.found.lose(
                [t for t in value.turns.values() if spaces.count(t.space) > 1], "stands twice where values join"
            )
        for wanted in moving_layers(given):
            arrays = [numbered(value, axis) for value, axis in zip(given, wanted, strict=True)]
            own = [value.turns[axis] for value, axis in zip(given, wanted, strict=True) if axis is not None]
            length = next(value.shape[axis] for value, axis in zip(given, wanted, strict=True) if axis is not None)
            found = [arrived(output, length) for output in listed(function(*arrays))]
            self._moved_on(own, found, turns)
        tensor = given[0].tensor if len(given) == 1 else ""
        for value in given if len(given) > 1 else ():
            self.found.use(value.tensor, "moved")
        read = given[0].read if len(given) == 1 else ""
        weight = all(value.weight for value in given)
        repeats = self.where.startswith("aten.expand")
        even = [repeated(given[0].shape, tuple(output.shape)) if repeats else frozenset() for output in outputs]
        return [
            self._left(Turned(tuple(output.shape), weight=weight, turns=own, tensor=tensor, read=read, even=same))
            for output, own, same in zip(outputs, turns, even, strict=True)
        ]

    def _moved_on(self, own: Sequence[Turn], found: Sequence[int | None], turns: list[dict[int, Turn]]) -> None:
        """Turns of one space at the axes at which they arrived; where they did not, it is lost."""
        first = replace(own[0], terms=all_terms(own))
        same = all(replace(turn, plain=True, terms=first.terms) == replace(first, plain=True) for turn in own)
        for result, axis in zip(turns, found, strict=True):
            if axis is None or not same:
                norm = next((turn.norm for turn in own if turn.norm), None)
                beside = f"has the gain {norm.gain} where it is put beside others" if norm else "is put beside others"
                self.found.lose(own, "is cut, joined or reordered along its axis" if same else beside)
            elif axis >= 0:
                result[axis] = replace(first, plain=all(turn.plain for turn in own))

    def blend(
        self, value: Value, axes: Iterable[int], shape: Sequence[int], *, odd: bool = False,
        homogeneous: bool = False, why: str = "positions along its axis are mixed",
    ) -> Turned:  # fmt: skip
        """An operation that mixes positions along axes, to a result of another length there."""
        x = self.labels(value)
        mixed = {axis % len(x.shape) for axis in axes}
        self.found.lose([turn for axis, turn in x.turns.items() if axis in mixed], why)
        if not (odd and homogeneous):
            x = self._stopped(x, "is put through a function of single units")
        return replace(self._unplain(self._left(x)), shape=tuple(shape))

    def opaque(self, shape: Sequence[int], inputs: Iterable[Value], why: str) -> Turned:
        """The result of an operation of which nothing is known: nothing that it touches rotates."""
        values = [self.labels(value) for value in inputs if isinstance(value, Labels | Tensor)]
        for value in values:
            self._stopped(value, why)
        return Turned(tuple(shape), weight=all(value.weight for value in values))

    def pinned(self, value: Labels, axes: frozenset[int] | None, why: str) -> Turned:
        """A value whose units along some axes (default: all) stay in place."""
        x = self.labels(value)
        self.found.lose([turn for axis, turn in x.turns.items() if axes is None or axis in axes], why)
        return self._left(x)

    def distinguish(self, ids: Tensor, classes: Tensor, why: str) -> None:
        """Units that cannot be exchanged: there are none here, for values have no ids."""
