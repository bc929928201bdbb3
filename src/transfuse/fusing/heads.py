"""Heads: models with outputs for other classes become models with the same outputs, in which nothing else changes.

A model's outputs are placed where its classes stand among those of all models: the rows of its last layer go there, and
the other rows are zeros. Each row is divided by the proportions of the models that know its class, so that the mean of
the placed models is, for each class, the mean over those that know it. Whatever couples, averages, corrects and judges
models of one architecture does so with placed ones, and knows nothing of heads.

In: states and their layout, and the classes of each model if they have names. Out: placed states, and the layout with
as many outputs as there are classes. Not here: modules, and what is calibrated by inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from ..arguments import Kind, count, either, many, optional
from ..corrections import AUTO_AIM, MEAN
from ..errors import InputError, listing
from ..layout import Axis, Fixed, Layout
from ..lazy import Entry, LazyState, entries_of
from ..types import State

RETURNED = "is returned by the model"  # how the tracer says why outputs stay where they are
JOIN = "join"
HEADS = optional(Kind(lambda value: value == JOIN, f"{JOIN!r}: outputs of all models in one network"))
NAMES = many(either(Kind(lambda value: isinstance(value, str), "a name"), count(0)), "names or numbers")
CLASSES = optional(many(NAMES, "the classes of each model, by name or number: [['cat', 'dog'], ['dog', 'ship']]"))

Classes = Sequence[Sequence[str | int]]


@dataclass(frozen=True)
class Heads:
    """Where the outputs of each model stand among those of a network that has the outputs of all.

    Args:
        places: For each model the numbers of its outputs in the network, in the order of its own.
        classes: The class of each output of the network; empty if none were given, and all outputs stand side by side.
        factors: What the outputs of each model were multiplied by, so that none drowns out the others; 1 if they were
            not calibrated.
        offsets: What was added to the outputs of each model then.

    Example:
        >>> heads = Heads.of([2, 2], [["cat", "dog"], ["dog", "ship"]])
        >>> heads.classes, heads.places
        (('cat', 'dog', 'ship'), ((0, 1), (1, 2)))
    """

    places: tuple[tuple[int, ...], ...]
    classes: tuple[str | int, ...] = ()
    factors: tuple[float, ...] = ()
    offsets: tuple[float, ...] = ()

    @staticmethod
    def of(counts: Sequence[int], classes: Classes | None = None) -> Heads:
        """Outputs side by side, or by class: numbers in their order, names in the order in which they are met.

        Args:
            counts: How many outputs each model has.
            classes: The class of each of them.

        Raises:
            InputError: classes do not add up; with everything that is wrong.
        """
        if classes is None:
            ends = [sum(counts[: number + 1]) for number in range(len(counts))]
            return Heads(tuple(tuple(range(end - own, end)) for end, own in zip(ends, counts, strict=True)))
        if problems := list(_problems(counts, classes)):
            raise InputError(listing("classes do not add up:", problems))
        met = list(dict.fromkeys(chain.from_iterable(classes)))
        union = met if isinstance(met[0], str) else sorted(met)
        return Heads(tuple(tuple(map(union.index, own)) for own in classes), tuple(union))

    @property
    def width(self) -> int:
        """How many outputs the network has."""
        return 1 + max(chain.from_iterable(self.places))

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments of `fuse` by which heads are joined like this."""
        named = [[self.classes[place] for place in own] for own in self.places] if self.classes else None
        return {"heads": JOIN, **({"classes": named} if named else {})}

    def of_model(self, outputs: Tensor, model: int, *, axis: int = -1) -> Tensor:
        """The outputs of the network that belong to a model, counted from 0, in the order of the model's own.

        Example:
            >>> Heads.of([1, 2]).of_model(torch.tensor([[5.0, 6.0, 7.0]]), 1)
            tensor([[6., 7.]])
        """
        return outputs.index_select(axis, torch.tensor(self.places[model], device=outputs.device))

    def known(self, weights: Sequence[float]) -> list[float]:
        """For each output, the proportions of the models that know it.

        Raises:
            InputError: some are known only to models whose proportion is zero.
        """
        found = [0.0] * self.width
        for own, weight in zip(self.places, weights, strict=True):
            for place in own:
                found[place] += weight
        if lost := [place for place, share in enumerate(found) if not share]:
            raise InputError(
                f"outputs {', '.join(map(str, lost))} are known only to models whose weight is 0; give these a weight, "
                "or leave them out"
            )
        return found

    def __str__(self) -> str:
        """Which outputs are whose, in one line."""
        whose = (f"{_ranges(own)} of model {number}" for number, own in enumerate(self.places, start=1))
        return f"{self.width} outputs: {', '.join(whose)}"


def _problems(counts: Sequence[int], classes: Classes) -> Iterator[str]:
    """What is wrong with the classes of models that have these numbers of outputs."""
    if len(classes) != len(counts):
        yield f"there are {len(classes)} lists of classes for {len(counts)} models; give one for each"
        return
    for number, (own, outputs) in enumerate(zip(classes, counts, strict=True), start=1):
        if len(own) != outputs:
            yield f"model {number} has {outputs} outputs and {len(own)} classes; give one class for each output"
        if twice := [str(name) for name, times in Counter(own).items() if times > 1]:
            yield f"model {number} has classes twice: {', '.join(twice)}; each output has a class of its own"
    if len({isinstance(name, str) for own in classes for name in own}) > 1:
        yield "some classes are names and some are numbers; give all as names, or all as numbers"


def _ranges(places: Sequence[int]) -> str:
    """Numbers as text; those that follow each other as a range.

    Example:
        >>> _ranges((0, 1, 2, 7))
        '0-2, 7'
    """
    starts = [n for n, place in enumerate(places) if n == 0 or place != places[n - 1] + 1]
    runs = [places[a:b] for a, b in zip(starts, [*starts[1:], len(places)], strict=True)]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


@dataclass(frozen=True, eq=False)
class Joined:
    """Models whose outputs are placed among those of all.

    Args:
        heads: Where they are placed.
        axes: By name of a tensor of the last layer: the axis along which it has the outputs.
        shares: For each output, the proportions of the models that know it.
    """

    heads: Heads
    axes: Mapping[str, int]
    shares: Sequence[float]

    @staticmethod
    def of(layout: Layout, states: Sequence[State], weights: Sequence[float], classes: Classes | None) -> Joined:
        """Models on a layout, by their proportions.

        Raises:
            InputError: it cannot be seen which axes have the outputs, or classes do not add up.
        """
        axes = {name: axis for name, found in layout.fixed.items() for axis, why in found.items()
                if why.startswith(RETURNED)}  # fmt: skip
        heads = Heads.of(_counts(layout, axes, states), classes)
        return Joined(heads, axes, heads.known(weights))

    @property
    def has_biases(self) -> bool:
        """Whether outputs can be shifted: the last layer has a bias."""
        return any(self._is_bias(name) for name in self.axes)

    def layout(self, layout: Layout) -> Layout:
        """A layout whose last layer has the outputs of all models.

        Units that the last layer reads keep their scale, unless all models have the same outputs: scales are found by
        what reads a unit, and different heads would give the same unit different ones.
        """
        tensors = {
            name: tuple(
                replace(each, segments=(Fixed(self.heads.width),)) if self.axes.get(name) == number else each
                for number, each in enumerate(axes)
            )
            for name, axes in layout.tensors.items()
        }
        if len({frozenset(own) for own in self.heads.places}) == 1:
            return replace(layout, tensors=tensors)
        read = {space for name in self.axes for axis in layout.tensors[name] for space in axis.spaces}
        spaces = [replace(each, symmetry=replace(each.symmetry, scales=False)) if each.name in read else each
                  for each in layout.spaces]  # fmt: skip
        return replace(layout, tensors=tensors, spaces=tuple(spaces))

    def calibrated(self, factors: Sequence[float], offsets: Sequence[float]) -> Joined:
        """The same, with the outputs of each model multiplied and shifted."""
        return replace(self, heads=replace(self.heads, factors=tuple(factors), offsets=tuple(offsets)))

    def all_placed(self, states: Sequence[State]) -> list[State]:
        """The states of all models, each with its outputs among those of all; lazy if the state is."""
        return [self.placed(model, state) for model, state in enumerate(states)]

    def placed(self, model: int, state: State) -> State:
        """The state of a model with its outputs among those of all; lazy if the state is."""
        if not isinstance(state, LazyState):
            return {name: self._placed(model, name, tensor) for name, tensor in state.items()}
        entries = [Entry(name, entry.dtype, self._shape(name, entry.shape)) for name, entry in state.entries.items()]
        return LazyState(entries, lambda entry: self._placed(model, entry.name, state[entry.name]))

    def placed_alike(self, state: State) -> State:
        """A state whose last layer has any number of outputs, with as many as there are; only its shapes count."""
        shapes = {name: self._shape(name, entry.shape) for name, entry in entries_of(state).items()}
        return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}

    def expected(self, model: int, outputs: Tensor, axis: int) -> Tensor:
        """What a placed model gives where the model itself gives some outputs, along an axis."""
        return self._spread(model, self._calibrated(model, outputs, shift=True), axis)

    def _is_bias(self, name: str) -> bool:
        return name.rpartition(".")[2] == "bias"

    def _shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.heads.width if self.axes.get(name) == axis else length for axis, length in enumerate(shape))

    def _placed(self, model: int, name: str, tensor: Tensor) -> Tensor:
        if name not in self.axes:
            return tensor
        return self._spread(model, self._calibrated(model, tensor, shift=self._is_bias(name)), self.axes[name])

    def _calibrated(self, model: int, values: Tensor, *, shift: bool) -> Tensor:
        if not self.heads.factors:
            return values
        return self.heads.factors[model] * values + (self.heads.offsets[model] if shift else 0.0)

    def _spread(self, model: int, values: Tensor, axis: int) -> Tensor:
        """Values at their places along an axis, each divided by the proportions of those who have one; else zeros."""
        places = torch.tensor(self.heads.places[model], device=values.device)
        shares = values.new_tensor(self.shares)[places].view([-1 if n == axis else 1 for n in range(values.dim())])
        spread = values.new_zeros([self.heads.width if n == axis else size for n, size in enumerate(values.shape)])
        return spread.index_copy(axis, places, values / shares)


def _counts(layout: Layout, axes: Mapping[str, int], states: Sequence[State]) -> list[int]:
    """How many outputs each model has.

    Raises:
        InputError: that cannot be seen, or a model has several numbers of them.
    """
    if not axes:
        raise InputError(
            "heads are joined along outputs, and the layout names none: no axis of several positions is told to be "
            f"one that {RETURNED!r} (`layout.fixed`); let `fuse` trace the models, or write it there"
        )
    problems = [f"{name} axis {axis} has units that move" for name, axis in axes.items()
                if not _is_fixed(layout.tensors[name][axis])]  # fmt: skip
    counts = []
    for number, state in enumerate(states, start=1):
        shapes = {name: entry.shape for name, entry in entries_of(state).items()}
        found = {name: shapes[name][axis] for name, axis in axes.items() if len(shapes.get(name, ())) > axis}
        if len(set(found.values())) != 1:
            told = ", ".join(f"{name} {length}" for name, length in found.items()) or "none of its tensors"
            problems.append(f"model {number}: outputs differ in number ({told}); heads of one length can be joined")
        counts += list(found.values())[:1]
    if problems:
        raise InputError(listing("heads that cannot be joined:", problems))
    return counts


def _is_fixed(axis: Axis) -> bool:
    return all(isinstance(segment, Fixed) for segment in axis.segments)


def checked_heads(heads: str | None, classes: Any, aim: str = AUTO_AIM) -> str:
    """What corrections aim at: what was asked for, and with joined heads the mean of placed models.

    Raises:
        InputError: there are classes without heads that they could name, or joined heads with another aim.
    """
    if classes is not None and heads is None:
        raise InputError(f"classes are given, but heads are not joined; pass heads={JOIN!r}, or leave classes out")
    if heads is None:
        return aim
    if aim not in (AUTO_AIM, MEAN):
        raise InputError(
            f"aim is {aim!r}, but heads are joined: what each model knows of its own classes is aimed at; leave aim out"
        )
    return MEAN
