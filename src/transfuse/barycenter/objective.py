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

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from ..layout import Block, Layout
from ..types import State
from .carrying import Axes, Couplings, Pair, Sliced, carried, carried_rows, pieces, slices, units_of, whole
from .coupling import Coupling

Target = Mapping[str, Tensor | Sliced]

_THICK = 2048  # values of each unit: products of thinner pieces are slower
_LONG = 4  # times as many values as units: then products are made of some units at a time
_PARTS = 4  # so many times


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
    def _axes(self) -> dict[str, Axes]:
        """The same by tensor and axis."""
        found: dict[str, dict[int, list[Pair]]] = {}
        for name, pairs in self.blocks.items():
            for pair in sorted(pairs, key=lambda pair: pair.target.axis):
                found.setdefault(name, {}).setdefault(pair.target.axis, []).append(pair)
        return dict(found)

    @cached_property
    def _counted(self) -> list[int]:
        """The models with a weight."""
        return [model for model, weight in enumerate(self.weights) if weight]

    @cached_property
    def _shares(self) -> list[float]:
        """Their weights."""
        return [self.weights[model] for model in self._counted]

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
        axes = self._axes.get(tensor, {}) if but is None else self._axes_but(but)
        return carried(self.states[model][tensor], axes, model, couplings)

    def sliced(self, model: int, tensor: str, couplings: Couplings) -> Sliced:
        """The same, carried along all axes, slice by slice."""
        own, axes = self.states[model][tensor], self._axes.get(tensor, {})
        return Sliced(self.shape(tensor), lambda axis: carried_rows(own, axes, model, couplings, along=axis))

    def mean(self, tensor: str, couplings: Sequence[Couplings]) -> Tensor:
        """The weighted mean of a tensor over the carried models: the minimiser of F (the paper's update formula)."""
        return self.averaged(tensor, couplings)[0]

    def averaged(
        self, tensor: str, couplings: Sequence[Couplings], parts: Sequence[Tensor] = ()
    ) -> tuple[Tensor, float]:
        """The mean of a tensor, and its part in F: both are made of the same pieces. What does not move has no part.

        `parts` are every model's, where they are carried already.
        """
        if tensor not in self.blocks:
            result = torch.empty_like(self.states[0][tensor])
            _spread(self._shares, (self.states[model][tensor] for model in self._counted), result)
            return result, 0.0
        result = self.states[0][tensor].new_empty(self.shape(tensor))
        return result, self.term(tensor, couplings, parts, into=result)

    def barycenter(self, couplings: Sequence[Couplings], tensors: Collection[str] | None = None) -> dict[str, Tensor]:
        """The means of some tensors (default: of all that hold numbers)."""
        names = [name for name, tensor in self.states[0].items() if averages(tensor)] if tensors is None else tensors
        return {name: self.mean(name, couplings) for name in names}

    def objective(self, couplings: Sequence[Couplings]) -> float:
        """F for given couplings of every model."""
        return sum(self.term(name, couplings) for name in self.terms)

    def term(
        self,
        tensor: str,
        couplings: Sequence[Couplings],
        parts: Sequence[Tensor] = (),
        *,
        into: Tensor | None = None,
    ) -> float:
        """The part of one tensor in F, piece by piece: no permuted tensor is there as a whole.

        `parts` are every model's, where they are carried already; the mean is written `into` a tensor.
        """
        rows = {
            model: slices(parts[model] if parts else self.sliced(model, tensor, couplings[model]), 0)
            for model in self._counted
        }
        total = 0.0
        for piece in pieces(self.shape(tensor)):
            moved = (make(piece) for make in rows.values())  # one after the other: one is there at a time
            total += _spread(self._shares, moved, None if into is None else into[piece])
        for model, make in rows.items():
            if not all(couplings[model][pair.target.space].hard for pair in self.blocks[tensor]):
                kept = sum(_squared(make(piece)) for piece in pieces(self.shape(tensor)))
                total += self.weights[model] * (self._squared_norm(model, tensor) - kept)
        return self.importance.get(tensor, 1.0) * total

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Of a tensor of the target."""
        shape = list(self.states[0][tensor].shape)
        for pair in self.blocks.get(tensor, ()):
            shape[pair.target.axis] += pair.target.positions.size - pair.models[0].positions.size
        return tuple(shape)

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
        self, space: str, model: int, target: Target, couplings: Couplings, *, tensors: Collection[str] | None = None
    ) -> Tensor:
        """How well each unit of a model agrees with each unit of a target, [1 or 2, target units, model units].

        One matrix for all slots; two, of odd slots and of even ones, where units may be negated and not all that a unit
        has would be negated with it.

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
        total = like.new_zeros(2 if self.splits(space) else 1, *shape)
        for pair in self.blocks_of[space]:
            name = pair.target.tensor
            if name not in (self.terms if tensors is None else tensors):
                continue
            scale = shape[1] / shape[0] if pair.target.side == "consumes" else 1.0
            weight = self.importance.get(name, 1.0) * scale
            goal = target[name]
            if isinstance(goal, Tensor) and _long_units(pair.target, goal.shape):
                self._add_by_units(total, pair, model, goal, couplings, weight)
            else:
                self._add_by_values(total, pair, model, goal, couplings, weight)
        return total

    def splits(self, space: str) -> bool:
        """Whether units may be negated, and some of their slots stay as they are then."""
        return self.layout[space].signs and not all(pair.target.odd.all() for pair in self.blocks_of[space])

    def _add_by_values(
        self, total: Tensor, pair: Pair, model: int, target: Tensor | Sliced, couplings: Couplings, weight: float
    ) -> None:
        """Products of all units of a block are added to scores, some values of all units at a time."""
        axis, own = pair.target.axis, self.states[model][pair.target.tensor]
        along = 1 if own.dim() > 1 and axis == 0 else 0
        ours = slices(target, along)
        theirs = carried_rows(own, self._axes_but(pair), model, couplings, along=along)
        odd = pair.target.odd
        for piece in pieces(target.shape, along=along, least=_THICK * target.shape[axis]):
            both = (ours(piece), pair.target), (theirs(piece), pair.models[model])
            for part, slots in zip(total, (None,) if len(total) == 1 else (odd, ~odd), strict=True):
                if slots is None or slots.any():
                    left, right = (units_of(*each, slots) for each in both)
                    part.addmm_(left, right.T, alpha=weight)

    def _add_by_units(
        self, total: Tensor, pair: Pair, model: int, target: Tensor, couplings: Couplings, weight: float
    ) -> None:
        """The same, some of the model's units at a time: fewer additions, and columns are gathered within the cache."""
        own = self.states[model][pair.target.tensor]
        part = total[0 if len(total) == 1 or pair.target.odd[0] else 1]
        theirs = carried_rows(own, self._axes_but(pair), model, couplings)
        for units in pieces(own.shape, least=own.numel() // _PARTS):
            some = theirs(units)
            part[:, units].addmm_(target.reshape(len(target), -1), some.reshape(len(some), -1).T, alpha=weight)

    def _axes_but(self, pair: Pair) -> Axes:
        """The axes of a tensor on which something stands, but that of a block."""
        axes = self._axes[pair.target.tensor]
        return {axis: pairs for axis, pairs in axes.items() if axis != pair.target.axis}

    def agreement(self, model: int, target: Target, couplings: Couplings, tensors: Collection[str]) -> float:
        """`sum_t omega_t <target_t, T(W_t)>` over some tensors."""
        return sum(
            self.importance.get(name, 1.0) * _inner(whole(target[name]), self.carried(model, name, couplings))
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


def averages(tensor: Tensor) -> bool:
    """Whether a tensor holds numbers of which a mean can be made."""
    return tensor.is_floating_point() or tensor.is_complex()


def _rows(tensor: Tensor) -> Tensor:
    return tensor.flatten(1) if tensor.dim() > 1 else tensor.reshape(1, -1)


def _squared(tensor: Tensor) -> float:
    """|X|^2: row by row, and rows summed in float64; exact enough, and one pass."""
    return float(torch.linalg.vector_norm(_rows(tensor), dim=1).double().square().sum())


def _spread(weights: Sequence[float], parts: Iterable[Tensor], into: Tensor | None = None) -> float:
    """The weighted squared distances of tensors to their mean, which grows with each of them (West 1979).

    The mean is written `into` a tensor if one is given. That of equal tensors is exactly what they are.
    """
    others = iter(parts)
    seen, mean, total = weights[0], next(others), 0.0
    for left, weight, part in zip(range(len(weights) - 2, -1, -1), weights[1:], others, strict=True):
        seen += weight
        room = None if left else into
        apart = torch.sub(part, mean, out=room)
        total += weight * (seen - weight) / seen * _squared(apart)
        if left or into is not None:
            mean = torch.add(mean, apart, alpha=weight / seen, out=room)
    if into is not None and len(weights) == 1:
        into.copy_(mean)
    return total


def _long_units(block: Block, shape: Sequence[int]) -> bool:
    """Whether rows of a tensor are the units of a block, with many more values in each than there are units."""
    rows = block.axis == 0 and block.positions.shape[1] == 1 and block.whole(shape[0])
    return rows and math.prod(shape[1:]) >= _LONG * shape[0]


def _inner(one: Tensor, other: Tensor) -> float:
    return float(torch.linalg.vecdot(_rows(one), _rows(other)).sum(dtype=torch.float64))
