"""The problem: models on one layout, maybe of different widths, and the widths of their target.

In: states, a layout. Out: which blocks stand where, which tensors count, tensors carried to the target. Not here: what
is minimised (`objective`), what couplings are chosen by (`scores`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import nan

import torch
from torch import Tensor

from ..layout import Layout
from ..layout.moving import Axes, Pair, carried, carried_rows
from ..layout.slicing import Sliced
from ..types import State
from .coupling import Coupling, Couplings, start_coupling
from .sums import squared


@dataclass(frozen=True, eq=False)
class Problem:
    """Models on one layout, maybe of different widths, and the widths of their target.

    Args:
        states: The models' tensors, in a type in which arithmetic is safe.
        layout: Which axes move together.
        weights: Proportions of the models, summing to 1.
        widths: Units of each space in the target.
        importance: Weight omega of tensors in the objective; 1 where none is given.
        known: For each model the couplings that are known to be near, or None; nothing if none are known.
        executor: Finds what does not depend on each other; default: one after the other, here.
        one_start: Whether tensors are such that the same couplings are found from anywhere, or as good ones.
    """

    states: Sequence[State]
    layout: Layout
    weights: Sequence[float]
    widths: Mapping[str, int]
    importance: Mapping[str, float] = field(default_factory=dict)
    known: Sequence[Couplings | None] = ()
    executor: Executor | None = None
    one_start: bool = False

    def alone(self, model: int, tensors: Collection[str]) -> Problem:
        """A problem of one model with some tensors, small to send: all that is needed to couple the model by these.

        Of other floating-point tensors it has the shapes: one NaN, repeated, so that no number comes of them unseen.
        """
        state = {
            name: tensor.new_full((), nan).expand(tensor.shape)
            if tensor.is_floating_point() and name not in tensors
            else tensor
            for name, tensor in self.states[model].items()
        }
        return replace(self, states=[state], weights=[1.0], known=[self.known_of(model)], executor=None)

    @cached_property
    def blocks(self) -> dict[str, list[Pair]]:
        """By tensor: each block of the target with the same block of every model."""
        models = [self.layout.blocks(self.layout.widths(state)) for state in self.states]
        found: dict[str, list[Pair]] = {}
        for target, *own in zip(self.layout.blocks(self.widths), *models, strict=True):
            found.setdefault(target.tensor, []).append(Pair(target, tuple(own)))
        return found

    @cached_property
    def blocks_of(self) -> dict[str, list[Pair]]:
        """By space: each block of the target with the same block of every model."""
        found: dict[str, list[Pair]] = {space.name: [] for space in self.layout.spaces}
        for pairs in self.blocks.values():
            for pair in pairs:
                found[pair.target.space].append(pair)
        return found

    @cached_property
    def axes(self) -> dict[str, Axes]:
        """By tensor and axis: each block of the target with the same block of every model."""
        found: dict[str, dict[int, list[Pair]]] = {}
        for name, pairs in self.blocks.items():
            for pair in sorted(pairs, key=lambda pair: pair.target.axis):
                found.setdefault(name, {}).setdefault(pair.target.axis, []).append(pair)
        return dict(found)

    @cached_property
    def counted(self) -> list[int]:
        """Which models have a weight other than zero."""
        return [model for model, weight in enumerate(self.weights) if weight]

    @cached_property
    def shares(self) -> list[float]:
        """The weights of the models that have one."""
        return [self.weights[model] for model in self.counted]

    @cached_property
    def terms(self) -> list[str]:
        """The tensors that enter the objective: those that move and hold numbers."""
        return [name for name in self.blocks if self.states[0][name].is_floating_point()]

    @cached_property
    def squares(self) -> list[dict[str, float]]:
        """For each model, |W|^2 of every tensor that enters the objective."""
        return [{name: squared(state[name]) for name in self.terms} for state in self.states]

    @cached_property
    def _terms_by_space(self) -> dict[str, list[str]]:
        found: dict[str, dict[str, None]] = {space.name: {} for space in self.layout.spaces}
        for name in self.terms:
            for pair in self.blocks[name]:
                found[pair.target.space][name] = None
        return {space: list(names) for space, names in found.items()}

    def terms_of(self, space: str) -> list[str]:
        """The tensors that enter the objective and on which a space stands."""
        return self._terms_by_space[space]

    def neighbours(self, space: str) -> set[str]:
        """The spaces that stand on a tensor with it, itself among them: whose couplings its scores depend on."""
        return {pair.target.space for name in self.terms_of(space) for pair in self.blocks[name]}

    def is_quadratic(self, space: str, tensors: Collection[str] | None = None) -> bool:
        """Whether the space stands on two axes of one tensor (of these)."""
        found = [pair.target.tensor for pair in self.blocks_of[space]]
        return any(found.count(name) > 1 for name in (self.terms_of(space) if tensors is None else tensors))

    def known_of(self, model: int) -> Couplings | None:
        """The couplings of a model that are known to be near, if there are any."""
        return self.known[model] if self.known else None

    def start(self, model: int) -> dict[str, Coupling]:
        """The couplings of a model that are known; else units stay, are repeated, or merge, as the widths ask."""
        if (known := self.known_of(model)) is not None:
            return dict(known)
        floats = (tensor for tensor in self.states[model].values() if tensor.is_floating_point())
        like = next(floats, torch.empty(0))  # without any nothing moves: complex networks, and those without tensors
        own = self.layout.widths(self.states[model])
        return {name: start_coupling(width, own[name], like) for name, width in self.widths.items()}

    def carried(self, model: int, tensor: str, couplings: Couplings, *, but: Pair | None = None) -> Tensor:
        """A tensor of a model, carried along all its axes (but one). Where nothing moves it is the model's own."""
        axes = self.axes.get(tensor, {}) if but is None else self.axes_but(but)
        return carried(self.states[model][tensor], axes, model, couplings)

    def sliced(self, model: int, tensor: str, couplings: Couplings) -> Sliced:
        """A tensor of a model, carried along all axes, to be made slice by slice."""
        own, axes = self.states[model][tensor], self.axes.get(tensor, {})
        return Sliced(self.shape(tensor), lambda axis: carried_rows(own, axes, model, couplings, along=axis))

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The shape of a tensor in the widths of the target."""
        shape = list(self.states[0][tensor].shape)
        for pair in self.blocks.get(tensor, ()):
            shape[pair.target.axis] += pair.target.positions.size - pair.models[0].positions.size
        return tuple(shape)

    def axes_but(self, pair: Pair) -> Axes:
        """The axes of a tensor on which something stands, but that of a block."""
        axes = self.axes[pair.target.tensor]
        return {axis: pairs for axis, pairs in axes.items() if axis != pair.target.axis}
