"""The algebra in which op rules are written: join, contract, reduce, move, blend, pin.

Each function takes labels, records in the registry what the operation ties together, and returns the labels of the
result. A rule for an op says which of these it is made of; none of them knows a particular op.

- `join`: elementwise operations of several values; units that meet are tied.
- `reduce`: sum (or maximum...) over axes; units along them are gone, groups of units become one.
- `contract`: a product summed over axes (linear layers, attention), written as an einsum.
- `move`: elements change place and nothing else.
- `blend`: positions along axes are mixed (pooling, softmax): units there cannot move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from .labels import (
    Labels,
    combine,
    compress,
    indices,
    mix,
    moved,
    of_constant,
    overlapping,
    ranked,
    salted,
    support,
    tidy,
    without_units,
)
from .registry import Distinction, Registry

Value = Labels | Tensor | float | int | bool
Join = Literal["add", "multiply", "divide", "maximum", "other"]
Over = Literal["sum", "mean", "extreme", "weights"]


@dataclass
class Algebra:
    """Records relations between units in a registry, operation by operation."""

    registry: Registry = field(default_factory=Registry)
    where: str = ""  # the operation at hand, for reasons
    clock: int = 0  # tells operations apart

    def tick(self) -> Tensor:
        """A hash that no other operation has."""
        self.clock += 1
        return salted(self.clock)

    # -- where values come from ------------------------------------------------------------------------------------

    def labels(self, value: Value) -> Labels:
        """Labels of anything that can be an operand; constants are known by value."""
        if isinstance(value, Labels):
            return value
        return of_constant(value if isinstance(value, Tensor) else torch.tensor(value))

    def source(self, shape: Sequence[int]) -> Labels:
        """An input of the model: every position is its own, none of them moves."""
        salt = self.tick()
        self.registry.lengths.update(shape)
        return Labels(tuple(shape), (), tidy([*indices(shape, range(len(shape)), salt), salt]))

    def parameter(self, shape: Sequence[int], name: str = "") -> Labels:
        """A tensor of the state: a new unit for each position of each axis; its name does not matter here."""
        fields = []
        for axis, length in enumerate(shape):
            if length > 1:
                view = [1] * len(shape)
                view[axis] = -1
                ids = self.registry.fresh(length)
                self.registry.put(ids, self.clock)
                fields.append(ids.view(view))
                self.tick()
        return Labels(tuple(shape), tuple(fields), (self.tick(),), weight=True)

    # -- elementwise -----------------------------------------------------------------------------------------------

    def pointwise(
        self, value: Value, *, odd: bool = False, homogeneous: bool = False, keeps_zero: bool = False
    ) -> Labels:
        """A function of one value, elementwise."""
        x = self.labels(value)
        for ids in x.units:
            self.registry.invariant(ids, signs=not odd, scales=not homogeneous)
            if x.weight and not homogeneous:
                self.registry.bend(ids)
        tags = tidy([*x.tags, self.tick()])
        return self._observed(replace(x, tags=tags, zero=x.zero if keeps_zero else None))

    def absolute(self, value: Value) -> Labels:
        """An even, homogeneous function: the sign of the input does not show in the output."""
        x = self.labels(value)
        fields = []
        for ids in x.units:
            unique, inverse = torch.unique(ids, return_inverse=True)
            made = torch.where(unique == 0, 0, self.registry.fresh(len(unique)))
            self.registry.same_slot(made, unique)
            self.registry.equal(made, unique, signs=False)
            self.registry.invariant(made, scales=False)
            fields.append(made[inverse])
        return self._observed(replace(x, units=tuple(fields), tags=tidy([*x.tags, self.tick()])))

    def squared(self, value: Value) -> Labels:
        """Squares, of which only the sum counts: what absolute values are to signs and scales."""
        return self.absolute(value)

    def join(self, *values: Value, kind: Join = "other") -> Labels:
        """An elementwise function of several values, with broadcasting."""
        result, *rest = [self.labels(value) for value in values]
        if kind == "divide" and all(isinstance(value, Labels) and value.weight for value in values):
            for ids in result.units:  # a weight over its own size, say, has none left
                self.registry.bend(ids)
        for other in rest:
            result = self._join(result, other, kind)
        return result

    def _join(self, first: Labels, second: Labels, kind: Join, *, shown: bool = True) -> Labels:
        shape = torch.broadcast_shapes(first.shape, second.shape)
        x, y = (_ranked(value, len(shape)) for value in (first, second))
        x, y = self._settled(x, y.tags), self._settled(y, x.tags)
        if kind == "divide":
            y = replace(y, units=tuple(self.registry.inverse(ids) for ids in y.units))
        fields = self._merge([*x.units, *y.units], kind)
        self._constrain(fields, x, y, kind)
        if x.weight and y.weight and shown:
            self._bend(fields, x, y, kind)
        tags = tidy([*x.tags, *y.tags, self.tick()])
        both = Labels(tuple(shape), fields, tags, _joint_zero(x, y, kind), x.weight and y.weight)
        return self._observed(both, shown=shown)

    def _merge(self, arrays: Sequence[Tensor], kind: Join) -> tuple[Tensor, ...]:
        """Unit fields that vary along a common axis become one."""
        fields: list[Tensor] = []
        for new in arrays:
            for old in overlapping(fields, support(new)):
                fields = [array for array in fields if array is not old]
                new = self._meet(old, new, kind)
            fields.append(new)
        return tuple(fields)

    def _meet(self, first: Tensor, second: Tensor, kind: Join) -> Tensor:
        """Two unit fields on common axes: tie the units that meet, and give the field of the result."""
        a, b = torch.broadcast_tensors(first, second)
        both = (a != 0) & (b != 0)
        either = torch.where(a != 0, a, b)
        if not bool(both.any()):
            return compress(either)
        if kind in ("multiply", "divide"):
            made = self.registry.product(a[both], b[both])
            return compress(either.masked_scatter(both, made))
        pairs, inverse = self.registry.pairs(a[both], b[both])
        self.registry.equal(pairs[0], pairs[1])
        self.registry.relate(pairs[0], pairs[1])
        for candidate in pairs:
            if len(torch.unique(candidate)) == pairs.shape[1]:
                return compress(either.masked_scatter(both, candidate[inverse]))
        made = self.registry.fresh(pairs.shape[1])
        self.registry.same_unit(made, pairs[0])
        self.registry.equal(made, pairs[0])
        return compress(either.masked_scatter(both, made[inverse]))

    def _constrain(self, fields: Iterable[Tensor], x: Labels, y: Labels, kind: Join) -> None:
        """Degrees that the function itself asks for, and those that a partner without the unit asks for."""
        if kind in ("multiply", "divide"):
            return
        for ids in fields:
            if kind != "add":
                self.registry.invariant(ids, signs=True, scales=kind != "maximum")
            for value in (x, y):
                self.registry.invariant(_alone(ids, value))

    def _bend(self, fields: Iterable[Tensor], x: Labels, y: Labels, kind: Join) -> None:
        """Note weights of which a function is taken that is not homogeneous, or of two of which a product is."""
        for ids in fields:
            if kind == "add":
                for value in (x, y):
                    self.registry.bend(_alone(ids, value))
            elif kind in ("maximum", "other") or all(overlapping(each.units, support(ids)) for each in (x, y)):
                self.registry.bend(ids)

    # -- axes ------------------------------------------------------------------------------------------------------

    def reduce(
        self, value: Value, axes: Iterable[int], *, keepdim: bool = False, odd: bool = False,
        homogeneous: bool = False, over: Over = "sum",
    ) -> Labels:  # fmt: skip
        """A symmetric function over axes: a sum is odd and homogeneous, a maximum homogeneous.

        Args:
            value: What is reduced.
            axes: The axes that go.
            keepdim: They stay, with length 1.
            odd: The function is.
            homogeneous: The function is.
            over: What repeating units does to the result: it shows in a "sum", it does not in a "mean" where all are
                repeated equally often, nor in an "extreme" value, nor where "weights" are split among the copies.
        """
        x = self.labels(value)
        if over in ("sum", "mean"):
            gone = frozenset(axis % len(x.shape) for axis in axes)
            for ids in x.units:
                if support(ids) <= gone:
                    self.registry.reduce(ids, "summed" if over == "sum" else "averaged", self.where)
        return self._reduce(x, axes, keepdim, odd, homogeneous, ordered=False)

    def collapse(self, value: Value, axes: Iterable[int], *, keepdim: bool = False, linear: bool = True) -> Labels:
        """A function over axes for which the order along them matters."""
        return self._reduce(value, axes, keepdim, linear, linear, ordered=True)

    def _reduce(
        self, value: Value, axes: Iterable[int], keepdim: bool, odd: bool, homogeneous: bool, *, ordered: bool
    ) -> Labels:
        x = self.labels(value)
        rank = len(x.shape)
        gone = frozenset(axis % rank for axis in axes)
        fields = [self._reduced_units(ids, x, gone, odd, homogeneous, ordered=ordered) for ids in x.units]
        tags = [*_reduced_tags(x, gone, ordered=ordered), self.tick()]
        shape = tuple(1 if axis in gone else size for axis, size in enumerate(x.shape))
        result = Labels(shape, tuple(ids for ids in fields if ids is not None), tidy(tags), None, x.weight)
        return self._observed(result if keepdim else _squeezed(result, gone))

    def _reduced_units(
        self, ids: Tensor, value: Labels, gone: frozenset[int], odd: bool, homogeneous: bool, *, ordered: bool
    ) -> Tensor | None:
        """Units after axes are gone: untouched, gone as well, or groups of units that are units now."""
        inner = support(ids) & gone
        if not inner:
            self.registry.invariant(ids, signs=not odd, scales=not homogeneous)
            return ids
        if inner == support(ids):
            self.registry.invariant(ids)
            return None
        there = ids != 0
        content = torch.where(there, _hash_of([ids, *_order(ids.shape, inner, ordered)], torch.tensor(0)), 0)
        for axis in sorted(gone):
            content = content.sum(axis, keepdim=True)
        groups, which = torch.unique(content, return_inverse=True)
        if not ordered and bool(there.all()) and self._told_apart(which, value, gone):
            # Groups that nothing can exchange are no units, and those inside of them move: a token put before others.
            self.distinguish(ids, which.expand(ids.shape), "is summed with others")
            self.registry.invariant(ids)
            return None
        made = self.registry.fresh(len(groups))[which]  # positions with the same units are one group
        group = made.expand(ids.shape)[there]
        self.registry.same_unit(group, ids[there])
        self.registry.equal(group, ids[there])
        self.registry.invariant(made, signs=not odd, scales=not homogeneous)
        self.registry.invariant(made.expand(ids.shape)[~there & ~_known_zero(value, ids)])
        empty = ~there
        for axis in sorted(gone):
            empty = empty.all(axis, keepdim=True)
        return torch.where(empty, 0, made)

    @staticmethod
    def _told_apart(groups: Tensor, value: Labels, gone: frozenset[int]) -> bool:
        """Whether numbered groups differ in what else is known of their elements once some axes are gone."""
        return _all_differ(groups + 1, overlapping(_reduced_tags(value, gone, ordered=False), support(groups)))

    def contract(self, equation: str, first: Value, second: Value) -> Labels:
        """The product of two values, summed: an einsum of letters, `bti,oi->bto`."""
        operands, output = equation.split("->")
        letters = operands.split(",")
        joint = output + "".join(c for c in dict.fromkeys("".join(letters)) if c not in output)
        x, y = (_lettered(self.labels(v), own, joint) for v, own in zip((first, second), letters, strict=True))
        summed = frozenset(range(len(output), len(joint)))
        over: Over = "sum"
        for value in [value for value in (x, y) if value.weight][-1:]:
            for ids in overlapping(value.units, summed):
                self.registry.consume(ids)
                over = "sum" if self.registry.is_bent(ids) else "weights"
        product = self._join(x, y, "multiply", shown=False)
        return self.reduce(product, summed, odd=True, homogeneous=True, over=over)

    def move(self, function: Callable[..., Any], *values: Value) -> list[Labels]:
        """An operation that changes places only, run on integers."""
        results = moved(function, [self.labels(value) for value in values], self.tick())
        return [self._observed(self._separated(value)) for value in results]

    def _separated(self, value: Labels) -> Labels:
        """Fields that were moved onto one axis: the largest keeps moving, the others are fixed."""
        fields = sorted(value.units, key=lambda ids: -len(torch.unique(ids)))
        kept: list[Tensor] = []
        tags = list(value.tags)
        for ids in fields:
            clashing = overlapping(kept, support(ids))
            disjoint = [old for old in clashing if not bool(((old != 0) & (ids != 0)).any())]
            if clashing and len(disjoint) == len(clashing):
                kept = [old for old in kept if all(old is not other for other in clashing)]
                for old in clashing:
                    ids = torch.where(ids != 0, ids, old)
                kept.append(ids)
            elif clashing:
                self.registry.pin(ids, f"shares its axis with other units, {self.where}")
                tags.append(ids)
            else:
                kept.append(ids)
        return replace(value, units=tuple(kept), tags=tidy(tags))

    def blend(
        self, value: Value, axes: Iterable[int], shape: Sequence[int], *, odd: bool = False,
        homogeneous: bool = False, why: str = "positions along its axis are mixed",
    ) -> Labels:  # fmt: skip
        """An operation that mixes positions along axes, to a result of another length there."""
        x = self.labels(value)
        rank = len(x.shape)
        mixed = frozenset(axis % rank for axis in axes)
        inside = [ids for ids in x.units if support(ids) <= mixed]
        for ids in inside:
            self.registry.pin(ids, f"{why}, {self.where}")
        outside = [ids for ids in x.units if not support(ids) <= mixed]
        fields = [self._reduced_units(ids, x, mixed, odd, homogeneous, ordered=True) for ids in outside]
        salt = self.tick()
        tags = [*_reduced_tags(x, mixed, ordered=True), *indices(shape, sorted(mixed), salt), salt]
        kept = tuple(ids for ids in fields if ids is not None)
        return self._observed(Labels(tuple(shape), kept, tidy(tags), None, x.weight))

    def opaque(self, shape: Sequence[int], inputs: Iterable[Value], why: str) -> Labels:
        """The result of an operation of which nothing is known: all that it touches is fixed."""
        values = [self.labels(value) for value in inputs if isinstance(value, Labels | Tensor)]
        for value in values:
            self.pinned(value, None, why)
        return replace(self.source(shape), weight=all(value.weight for value in values))

    # -- telling units apart ---------------------------------------------------------------------------------------

    def pinned(self, value: Labels, axes: frozenset[int] | None, why: str) -> Labels:
        """The value with its units along some axes (default: all) fixed in place."""
        chosen = frozenset(range(len(value.shape))) if axes is None else axes
        for ids in overlapping(value.units, chosen) if axes is not None else value.units:
            self.registry.pin(ids, f"{why}, {self.where}" if self.where else why)
        return without_units(value, chosen)

    def distinguish(self, ids: Tensor, classes: Tensor, why: str) -> None:
        """Ids of different classes cannot be exchanged."""
        unique, given = self.registry.paint(ids, combine(classes, self.tick()))
        self.registry.distinctions.append(Distinction(unique, given, f"{why}, {self.where}"))

    def _observed(self, value: Labels, *, shown: bool = True) -> Labels:
        """Colour the units of a value by where they are and what tells their elements apart."""
        value = replace(value, units=tuple(self._collapsed(ids) for ids in value.units))
        salt = self.tick()
        if not value.weight:
            self.registry.lengths.update(value.shape)
        for ids in value.units:
            related = overlapping(value.tags, support(ids))
            if value.zero is not None and support(value.zero) & support(ids):
                related.append(value.zero.long())
            outside = _axes_of(related) - support(ids)
            others = [other for other in value.units if other is not ids and support(other) & outside]
            places = _order(value.shape, outside, ordered=True)  # exchanging units moves nothing along other axes
            unique, given = self.registry.paint(ids, _hash_of([*related, *others, *places], salt))
            if shown and not value.weight:
                self.registry.show(ids, value.shape, support(ids))
            if related:
                why = f"its positions meet different inputs or constants, {self.where}"
                self.registry.distinctions.append(Distinction(unique, given, why))
        return self._settled(value, value.tags)

    def _settled(self, value: Labels, tags: Sequence[Tensor]) -> Labels:
        """Fields whose units all differ in the tags that they meet are fixed, hence tags themselves."""
        gone = [ids for ids in value.units if _all_differ(ids, overlapping(tags, support(ids)))]
        if not gone:
            return value
        for ids in gone:
            self.registry.pin(ids, f"its positions meet different inputs or constants, {self.where}")
        kept = tuple(ids for ids in value.units if all(ids is not other for other in gone))
        return replace(value, units=kept, tags=tidy([*value.tags, *gone]))

    def _collapsed(self, ids: Tensor) -> Tensor:
        """A field along whose axis ids vary but slots do not (one layer used at every step): the first id for all."""
        axes = sorted(support(ids))
        if len(axes) < 2:
            return ids
        slots = torch.from_numpy(self.registry.slots(ids.reshape(-1).numpy())).reshape(ids.shape)
        for axis in axes:
            first = slots.narrow(axis, 0, 1)
            if bool((slots == first).all()):
                chosen = ids.narrow(axis, 0, 1)
                self.registry.equal(ids, chosen.expand(ids.shape))
                ids, slots = chosen, first
        return ids


def _axes_of(arrays: Iterable[Tensor]) -> frozenset[int]:
    """The axes along which some of the arrays vary."""
    return frozenset(axis for array in arrays for axis in support(array))


def _all_differ(ids: Tensor, tags: Sequence[Tensor]) -> bool:
    """Whether tags tell all ids of a field apart; a single id is always told apart."""
    if not support(ids):
        return True
    if not tags:
        return False
    shape = torch.broadcast_shapes(ids.shape, *(tag.shape for tag in tags))
    places = _order(shape, _axes_of(tags) - support(ids), ordered=True)
    left, colours = torch.broadcast_tensors(ids, _hash_of([*tags, *places], torch.tensor(0)))
    unique, inverse = torch.unique(left, return_inverse=True)
    sums = torch.zeros(len(unique), dtype=torch.int64).index_add(0, inverse.reshape(-1), colours.reshape(-1))
    return len(torch.unique(sums[unique != 0])) == int((unique != 0).sum())


def _hash_of(arrays: Sequence[Tensor], salt: Tensor) -> Tensor:
    """One hash of several arrays, elementwise."""
    for array in arrays:
        salt = combine(salt, array)
    return mix(salt)


def _ranked(value: Labels, rank: int) -> Labels:
    """Labels with leading axes of size 1."""
    return replace(
        value,
        shape=(1,) * (rank - len(value.shape)) + value.shape,
        units=tuple(ranked(array, rank) for array in value.units),
        tags=tuple(ranked(array, rank) for array in value.tags),
        zero=None if value.zero is None else ranked(value.zero, rank),
    )


def _lettered(value: Labels, own: str, joint: str) -> Labels:
    """Labels with an axis for each letter of `joint`, from labels with those of `own`, each once."""
    if len(set(own)) != len(own):
        raise ValueError(f"repeated index in {own}")
    present = [letter for letter in joint if letter in own]

    def place(array: Tensor) -> Tensor:
        array = ranked(array, len(own)).permute([own.index(letter) for letter in present])
        for position, letter in enumerate(joint):
            if letter not in own:
                array = array.unsqueeze(position)
        return array

    return Labels(
        tuple(value.shape[own.index(letter)] if letter in own else 1 for letter in joint),
        tuple(place(array) for array in value.units),
        tuple(place(array) for array in value.tags),
        None if value.zero is None else place(value.zero),
        value.weight,
    )


def _alone(ids: Tensor, value: Labels) -> Tensor:
    """Ids at positions where a value has neither a unit nor a known zero: adding it is not linear in the unit."""
    carried = torch.zeros((), dtype=torch.bool)
    for other in overlapping(value.units, support(ids)):
        carried = carried | (other != 0)
    if value.zero is not None:
        carried = carried | value.zero
    here, lonely = torch.broadcast_tensors(ids, ~carried)
    left: Tensor = here[lonely]
    return left


def _known_zero(value: Labels, ids: Tensor) -> Tensor:
    """Where a field's elements are all known to be zero, in the shape of the field."""
    if value.zero is None:
        return torch.zeros_like(ids, dtype=torch.bool)
    zero = value.zero.expand(value.shape)
    for axis in set(range(len(value.shape))) - support(ids):
        zero = zero.all(axis, keepdim=True)
    return zero


def _joint_zero(x: Labels, y: Labels, kind: Join) -> Tensor | None:
    """Where the result is known to be zero."""
    if kind == "multiply":
        masks = [value.zero for value in (x, y) if value.zero is not None]
        return masks[0] if len(masks) == 1 else masks[0] | masks[1] if masks else None
    if kind == "divide":
        return x.zero
    if kind in ("add", "maximum") and x.zero is not None and y.zero is not None:
        return x.zero & y.zero
    return None


def _order(shape: Sequence[int], axes: Iterable[int], ordered: bool) -> list[Tensor]:
    """Indices along axes, if their order matters."""
    return indices(shape, sorted(axes), torch.tensor(0)) if ordered else []


def _reduced_tags(value: Labels, gone: frozenset[int], *, ordered: bool) -> list[Tensor]:
    """Tags after axes are gone: what varied along them jointly with others is hashed, as a multiset or in order."""
    joint = overlapping(value.tags, gone)
    kept = [tag for tag in value.tags if not support(tag) & gone]
    if not any(support(tag) - gone for tag in joint):
        return kept
    vanished = [ids for ids in value.units if support(ids) <= gone]
    code = _hash_of([*joint, *vanished, *_order(value.shape, gone, ordered)], torch.tensor(0))
    for axis in sorted(gone):
        code = code.sum(axis, keepdim=True)
    return [*kept, compress(code)]


def _squeezed(value: Labels, axes: frozenset[int]) -> Labels:
    """Labels without some axes of size 1."""

    def squeeze(array: Tensor) -> Tensor:
        array = ranked(array, len(value.shape))
        return array.squeeze(tuple(sorted(axes))) if axes else array

    return Labels(
        tuple(size for axis, size in enumerate(value.shape) if axis not in axes),
        tuple(squeeze(array) for array in value.units),
        tuple(squeeze(array) for array in value.tags),
        None if value.zero is None else squeeze(value.zero),
        value.weight,
    )
