"""The one objective: how far the models, carried to a common order, are from their barycenter.

    F = sum_i lambda_i sum_t omega_t (|W_t - T_i(W_i,t)|^2 + |W_i,t|^2 - |T_i(W_i,t)|^2)
    W_t = sum_i lambda_i T_i(W_i,t)

T_i carries every tensor t of model i along every axis by the couplings of the spaces there. What a coupling loses by
mixing units, the last two terms, is nothing where it permutes or repeats them (norms of a model are those of the
model with units repeated to the widths of the target). With W eliminated (the paper's update formula), F falls exactly
as |W|^2 rises; between permutations, as the agreement of each model with the weighted sum of the others. The agreement
is linear in the coupling of a space that stands once on each tensor (the paper's eq. for the l-th layer), and quadratic
where it stands twice (hidden-to-hidden weights: Gromov-Wasserstein, Section 3).

In: states, a layout. Out: carried states, scores for couplings, the objective. Here no solver chooses anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..layout import Block, Layout
from .coupling import Coupling

State = Mapping[str, Tensor]
Couplings = Mapping[str, Coupling]


@dataclass(frozen=True, eq=False)
class Pair:
    """A block of the target, and the same block of each model."""

    target: Block
    models: tuple[Block, ...]


@dataclass(frozen=True, eq=False)
class Problem:
    """Models on one layout, maybe of different widths, and the widths of their target.

    Args:
        states: The models' tensors, in a type in which arithmetic is safe.
        layout: Which axes move together.
        weights: Proportions of the models, summing to 1.
        widths: Units of each space in the target.
        importance: Weight omega of tensors in the objective; 1 where none is given.
    """

    states: Sequence[State]
    layout: Layout
    weights: Sequence[float]
    widths: Mapping[str, int]
    importance: Mapping[str, float] = field(default_factory=dict)

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
        """The same by space."""
        found: dict[str, list[Pair]] = {space.name: [] for space in self.layout.spaces}
        for pairs in self.blocks.values():
            for pair in pairs:
                found[pair.target.space].append(pair)
        return found

    @cached_property
    def terms(self) -> list[str]:
        """The tensors that enter the objective: those that move and hold numbers."""
        return [name for name in self.blocks if self.states[0][name].is_floating_point()]

    @cached_property
    def _terms_by_space(self) -> dict[str, list[str]]:
        found: dict[str, dict[str, None]] = {space.name: {} for space in self.layout.spaces}
        for name in self.terms:
            for pair in self.blocks[name]:
                found[pair.target.space][name] = None
        return {space: list(names) for space, names in found.items()}

    def terms_of(self, space: str) -> list[str]:
        """Those on which a space stands."""
        return self._terms_by_space[space]

    def neighbours(self, space: str) -> set[str]:
        """The spaces that stand on a tensor with it, itself among them: whose couplings its scores depend on."""
        return {pair.target.space for name in self.terms_of(space) for pair in self.blocks[name]}

    def is_quadratic(self, space: str, tensors: Collection[str] | None = None) -> bool:
        """Whether the space stands on two axes of one tensor (of these)."""
        found = [pair.target.tensor for pair in self.blocks_of[space]]
        return any(found.count(name) > 1 for name in (self.terms_of(space) if tensors is None else tensors))

    def start(self, model: int) -> dict[str, Coupling]:
        """Units of a model stay where they are, are repeated, or merge, as the widths ask."""
        like = next(tensor for tensor in self.states[model].values() if tensor.is_floating_point())
        own = self.layout.widths(self.states[model])
        return {name: Coupling.start(width, own[name], like) for name, width in self.widths.items()}

    def carried(self, model: int, tensor: str, couplings: Couplings, *, but: Pair | None = None) -> Tensor:
        """A tensor of a model, carried along all its axes (but one). Where nothing moves it is the model's own."""
        result = self.states[model][tensor]
        for axis in sorted({pair.target.axis for pair in self.blocks.get(tensor, ())}):
            if but is None or axis != but.target.axis:
                pairs = [pair for pair in self.blocks[tensor] if pair.target.axis == axis]
                result = _carry(result, axis, pairs, model, couplings)
        return result

    def mean(self, tensor: str, couplings: Sequence[Couplings]) -> Tensor:
        """The weighted mean of a tensor over the carried models: the minimiser of F (the paper's update formula)."""
        first, *others = (model for model, weight in enumerate(self.weights) if weight)
        total = self.weights[first] * self.carried(first, tensor, couplings[first])
        for model in others:
            total.add_(self.carried(model, tensor, couplings[model]), alpha=self.weights[model])
        return total

    def fused(self, tensor: str, couplings: Sequence[Couplings]) -> Tensor:
        """A tensor of the result: the mean, or the first model's where it holds no numbers to average."""
        return self.mean(tensor, couplings) if _averages(self.states[0][tensor]) else self.states[0][tensor]

    def barycenter(self, couplings: Sequence[Couplings], tensors: Collection[str] | None = None) -> dict[str, Tensor]:
        """The means of some tensors (default: of all that hold numbers)."""
        names = [name for name, tensor in self.states[0].items() if _averages(tensor)] if tensors is None else tensors
        return {name: self.mean(name, couplings) for name in names}

    def objective(self, couplings: Sequence[Couplings]) -> float:
        """F for given couplings of every model."""
        return sum(self.term(name, couplings) for name in self.terms)

    def term(self, tensor: str, couplings: Sequence[Couplings]) -> float:
        """The part of one tensor in F. The mean grows with each model (West 1979): every one is carried once."""
        mean: Tensor | None = None
        seen = total = 0.0
        for model, weight in enumerate(self.weights):
            if not weight:
                continue
            moved = self.carried(model, tensor, couplings[model])
            seen += weight
            if mean is None:
                mean = moved
            else:
                apart = moved - mean
                total += weight * (seen - weight) / seen * _squared(apart)
                mean = torch.add(mean, apart, alpha=weight / seen)
            if not all(couplings[model][pair.target.space].hard for pair in self.blocks[tensor]):
                total += weight * (self._squared_norm(model, tensor) - _squared(moved))
        return self.importance.get(tensor, 1.0) * total

    def _squared_norm(self, model: int, tensor: str) -> float:
        """|W|^2 of a tensor of a model whose units are repeated to the widths of the target."""
        values = self.states[model][tensor]
        for pair in self.blocks[tensor]:
            target, own = len(pair.target.positions), len(pair.models[model].positions)
            if target != own:
                ratio = target / own if pair.target.side == "produces" else own / target
                scale = values.new_ones(values.shape[pair.target.axis])
                scale[torch.from_numpy(pair.models[model].positions).to(scale.device)] = ratio**0.5
                values = values * scale.view([-1 if axis == pair.target.axis else 1 for axis in range(values.dim())])
        return _squared(values)

    def scores(
        self, space: str, model: int, target: State, couplings: Couplings, *, tensors: Collection[str] | None = None
    ) -> tuple[Tensor, Tensor]:
        """How well each unit of a model agrees with each unit of a target: scores [units, units], odd and even slots.

        The gradient of the agreement `sum_t omega_t <target_t, T(W_t)>` in the coupling: a space that stands on two
        axes of a tensor counts on both, each time with the other one carried by its present coupling.

        Args:
            space: The space to be coupled.
            model: Which model.
            target: The state to agree with.
            couplings: The present couplings of the model; an axis of a space without one is left out of the sum
                by leaving out its tensor.
            tensors: Only these tensors count; default: all terms.
        """
        first = self.blocks_of[space][0]
        like = self.states[model][self.terms_of(space)[0]]
        shape = len(first.target.positions), len(first.models[model].positions)
        odd, even = (torch.zeros(shape, dtype=like.dtype, device=like.device) for _ in range(2))
        for pair in self.blocks_of[space]:
            name = pair.target.tensor
            if name not in (self.terms if tensors is None else tensors):
                continue
            own, other = self.carried(model, name, couplings, but=pair), target[name]
            scale = shape[1] / shape[0] if pair.target.side == "consumes" else 1.0
            for slots, total in ((pair.target.odd, odd), (~pair.target.odd, even)):
                if slots.any():
                    left, right = units_of(other, pair.target, slots), units_of(own, pair.models[model], slots)
                    total.addmm_(left, right.T, alpha=self.importance.get(name, 1.0) * scale)
        return odd, even

    def agreement(self, model: int, target: State, couplings: Couplings, tensors: Collection[str]) -> float:
        """`sum_t omega_t <target_t, T(W_t)>` over some tensors."""
        return sum(
            self.importance.get(name, 1.0) * _inner(target[name], self.carried(model, name, couplings))
            for name in tensors
        )

    def square(self, model: int, tensors: Collection[str]) -> float:
        """`sum_t omega_t |W_t|^2` over some tensors of a model."""
        return sum(self.importance.get(name, 1.0) * self._squares[model][name] for name in tensors)

    @cached_property
    def _squares(self) -> list[dict[str, float]]:
        return [{name: _squared(state[name]) for name in self.terms} for state in self.states]

    def features(self, model: int, pairs: Sequence[Pair], couplings: Couplings) -> Tensor:
        """What some blocks hold of each unit of a model [units, values], their other axes in the common order."""
        return torch.cat([
            self.importance.get(pair.target.tensor, 1.0) ** 0.5
            * units_of(self.carried(model, pair.target.tensor, couplings, but=pair), pair.models[model])
            for pair in pairs
        ], 1)  # fmt: skip

    def target_features(self, target: State, pairs: Sequence[Pair]) -> Tensor:
        """The same of a state of the target."""
        return torch.cat([
            self.importance.get(pair.target.tensor, 1.0) ** 0.5
            * units_of(target[pair.target.tensor], pair.target)
            for pair in pairs
        ], 1)  # fmt: skip


def _averages(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _rows(tensor: Tensor) -> Tensor:
    return tensor.flatten(1) if tensor.dim() > 1 else tensor.reshape(1, -1)


def _squared(tensor: Tensor) -> float:
    """|X|^2: row by row, and rows summed in float64; exact enough, and one pass."""
    return float(torch.linalg.vector_norm(_rows(tensor), dim=1).double().square().sum())


def _inner(one: Tensor, other: Tensor) -> float:
    return float(torch.linalg.vecdot(_rows(one), _rows(other)).sum(dtype=torch.float64))


def units_of(tensor: Tensor, block: Block, slots: NDArray[np.bool_] | None = None) -> Tensor:
    """A tensor as [units, values] of some slots of a block (default: all); a view where nothing has to be copied."""
    places = block.positions if slots is None or slots.all() else block.positions[:, slots]
    if places.size != tensor.shape[block.axis] or (places.ravel() != np.arange(places.size)).any():
        tensor = tensor.index_select(block.axis, torch.from_numpy(places.ravel()).to(tensor.device))
    return tensor.movedim(block.axis, 0).reshape(len(places), -1)


def _carry(tensor: Tensor, axis: int, pairs: Sequence[Pair], model: int, couplings: Couplings) -> Tensor:
    """A tensor with one axis carried by the couplings of the spaces on it."""
    used = [couplings[pair.target.space] for pair in pairs]
    if all(coupling.still for coupling in used):
        return tensor
    return (_move if all(coupling.hard for coupling in used) else _mix)(tensor, axis, pairs, model, couplings)


def _move(tensor: Tensor, axis: int, pairs: Sequence[Pair], model: int, couplings: Couplings) -> Tensor:
    """By permutations with signs: one index along the axis, and a factor where units are negated."""
    index = torch.arange(tensor.shape[axis], device=tensor.device)
    factor = None
    for pair in pairs:
        coupling = couplings[pair.target.space]
        assert coupling.order is not None, "only permutations come here"
        assert coupling.sign is not None, "a hard coupling has signs"
        places, sources = (torch.from_numpy(b.positions).to(tensor.device) for b in (pair.target, pair.models[model]))
        index[places] = sources[coupling.order]
        if coupling.negates and pair.target.odd.any():
            factor = tensor.new_ones(len(index)) if factor is None else factor
            odd = torch.from_numpy(pair.target.odd).to(tensor.device)
            factor[places[:, odd]] = coupling.sign[:, None].to(tensor.dtype)
    moved = tensor.index_select(axis, index)
    return moved if factor is None else moved.mul_(factor.view(-1, *[1] * (tensor.dim() - axis - 1)))


def _mix(tensor: Tensor, axis: int, pairs: Sequence[Pair], model: int, couplings: Couplings) -> Tensor:
    """By couplings of any kind, block by block."""
    front = tensor.movedim(axis, 0)
    moving = sum(pair.models[model].positions.size for pair in pairs)
    length = len(front) - moving + sum(pair.target.positions.size for pair in pairs)
    result = front.new_zeros(length, *front.shape[1:])
    there, here = [pair.target for pair in pairs], [pair.models[model] for pair in pairs]
    result[_rest(length, there, front.device)] = front[_rest(len(front), here, front.device)]
    for pair in pairs:
        own, target = pair.models[model], pair.target
        for slots, odd in ((target.odd, True), (~target.odd, False)):
            if slots.any():
                places, sources = (torch.from_numpy(b.positions[:, slots]).to(tensor.device) for b in (target, own))
                result[places] = couplings[target.space].carry(front[sources], odd=odd, side=target.side)
    return result.movedim(0, axis)


def _rest(length: int, blocks: Sequence[Block], device: torch.device) -> Tensor:
    """Positions of an axis that no block holds."""
    free = np.ones(length, dtype=bool)
    for block in blocks:
        free[block.positions] = False
    return torch.from_numpy(np.flatnonzero(free)).to(device)
