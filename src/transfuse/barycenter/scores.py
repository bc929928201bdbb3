"""Scores: how well each unit of a model agrees with each unit of a target, which couplings are chosen by.

In: a problem, a target, present couplings. Out: matrices of scores, agreements, features of units. No solver here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..layout import Block
from ..layout.moving import Axes, Pair, carried_rows, units_of
from ..layout.slicing import Sliced, pieces, slices, whole
from ..types import State
from .coupling import Couplings
from .problem import Problem
from .sums import inner

Target = Mapping[str, Tensor | Sliced]
Blocks = tuple[Block, Block]  # of the target, and of the model

_THICK = 2048  # values of each unit in a piece: products of thinner pieces are slower
_LONG = 4  # values of each unit, in numbers of units: from there on products are made of some units at a time
_PARTS = 4  # into how many parts the units are cut then: columns are gathered within the cache


@dataclass(frozen=True, eq=False)
class _Model:
    """A tensor of a model, and what carries all its axes but one."""

    tensor: Tensor
    axes: Axes
    number: int
    couplings: Couplings

    def carried(self, along: int) -> Callable[[slice], Tensor]:
        """The carried tensor as a function of slices along an axis."""
        return carried_rows(self.tensor, self.axes, self.number, self.couplings, along=along)


def unit_scores(
    problem: Problem,
    space: str,
    model: int,
    target: Target,
    couplings: Couplings,
    *,
    tensors: Collection[str] | None = None,
) -> Tensor:
    """How well each unit of a model agrees with each unit of a target, [1 or 2, target units, model units].

    One matrix for all slots; two, of odd slots and of even ones, where units may be negated and not all that a unit
    has would be negated with it.

    The gradient of the agreement `sum_t omega_t <target_t, T(W_t)>` in the coupling: a space that stands on two
    axes of a tensor counts on both, each time with the other one carried by its present coupling.

    Args:
        problem: The models.
        space: The space to be coupled.
        model: Which model.
        target: The state to agree with.
        couplings: The present couplings of the model; an axis of a space without one is left out of the sum
            by leaving out its tensor.
        tensors: Only these tensors count; default: all terms.
    """
    first = problem.blocks_of[space][0]
    like = problem.states[model][problem.terms_of(space)[0]]
    shape = len(first.target.positions), len(first.models[model].positions)
    total = like.new_zeros(2 if splits(problem, space) else 1, *shape)
    for pair in problem.blocks_of[space]:
        name = pair.target.tensor
        if name not in (problem.terms if tensors is None else tensors):
            continue
        scale = shape[1] / shape[0] if pair.target.side == "consumes" else 1.0
        weight = problem.importance.get(name, 1.0) * scale
        goal, blocks = target[name], (pair.target, pair.models[model])
        own = _Model(problem.states[model][name], problem.axes_but(pair), model, couplings)
        if isinstance(goal, Tensor) and _long_units(pair.target, goal.shape):
            _add_by_units(total, blocks, goal, own, weight)
        else:
            _add_by_values(total, blocks, goal, own, weight)
    return total


def splits(problem: Problem, space: str) -> bool:
    """Whether units may be negated, and some of their slots stay as they are then."""
    return problem.layout[space].signs and not all(pair.target.odd.all() for pair in problem.blocks_of[space])


def _add_by_values(total: Tensor, blocks: Blocks, target: Tensor | Sliced, model: _Model, weight: float) -> None:
    """Products of all units of a block are added to scores, some values of all units at a time."""
    axis, odd = blocks[0].axis, blocks[0].odd
    along = 1 if model.tensor.dim() > 1 and axis == 0 else 0
    ours, theirs = slices(target, along), model.carried(along)
    for piece in pieces(target.shape, along=along, least=_THICK * target.shape[axis]):
        both = (ours(piece), blocks[0]), (theirs(piece), blocks[1])
        for part, slots in zip(total, (None,) if len(total) == 1 else (odd, ~odd), strict=True):
            if slots is None or slots.any():
                left, right = (units_of(*each, slots) for each in both)
                part.addmm_(left, right.T, alpha=weight)


def _add_by_units(total: Tensor, blocks: Blocks, target: Tensor, model: _Model, weight: float) -> None:
    """Products of all units of a block are added to scores, some of the model's units at a time: fewer additions."""
    part = total[0 if len(total) == 1 or blocks[0].odd[0] else 1]
    theirs = model.carried(0)
    for units in pieces(model.tensor.shape, least=model.tensor.numel() // _PARTS):
        some = theirs(units)
        part[:, units].addmm_(target.reshape(len(target), -1), some.reshape(len(some), -1).T, alpha=weight)


def agreement(problem: Problem, model: int, target: Target, couplings: Couplings, tensors: Collection[str]) -> float:
    """`sum_t omega_t <target_t, T(W_t)>` over some tensors."""
    return sum(
        problem.importance.get(name, 1.0) * inner(whole(target[name]), problem.carried(model, name, couplings))
        for name in tensors
    )


def square(problem: Problem, model: int, tensors: Collection[str]) -> float:
    """`sum_t omega_t |W_t|^2` over some tensors of a model."""
    return sum(problem.importance.get(name, 1.0) * problem.squares[model][name] for name in tensors)


def features(problem: Problem, model: int, pairs: Sequence[Pair], couplings: Couplings) -> Tensor:
    """What some blocks hold of each unit of a model [units, values], their other axes in the common order."""
    return torch.cat([
        problem.importance.get(pair.target.tensor, 1.0) ** 0.5
        * units_of(problem.carried(model, pair.target.tensor, couplings, but=pair), pair.models[model])
        for pair in pairs
    ], 1)  # fmt: skip


def target_features(problem: Problem, target: State, pairs: Sequence[Pair]) -> Tensor:
    """What some blocks hold of each unit of a target [units, values]."""
    return torch.cat([
        problem.importance.get(pair.target.tensor, 1.0) ** 0.5
        * units_of(target[pair.target.tensor], pair.target)
        for pair in pairs
    ], 1)  # fmt: skip


def _long_units(block: Block, shape: Sequence[int]) -> bool:
    """Whether rows of a tensor are the units of a block, with many more values in each than there are units."""
    rows = block.axis == 0 and block.positions.shape[1] == 1 and block.whole(shape[0])
    return rows and math.prod(shape[1:]) >= _LONG * shape[0]
