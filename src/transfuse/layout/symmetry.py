"""Symmetries: what may be done to the units of a space without changing what the network computes.

A symmetry knows three things: a random element of itself, why an element does not belong to it, and the best element
for a matrix of scores. Every space allows permutations; signs and positive scales are allowed where all operations on
the space commute with them. A `Permutation` is the element of all of these.

In: numbers of units, scores. Out: elements. Not here: how an element is applied to tensors (`moving`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..transport import assignment
from ..types import Array

LARGEST_RANDOM_SCALE = np.exp(0.7)  # about 2: far enough from 1 to be seen, near enough not to drown other units


@dataclass(frozen=True, eq=False, init=False)
class Permutation:
    """Units in another order, each multiplied by a factor; it is applied as an index, never as a matrix product.

    Args:
        order: Integers [units], a permutation: the new unit `u` is the old unit `order[u]`.
        factor: Numbers [units] other than zero: what the new unit `u` is multiplied by (where it is consumed, divided
            by); -1 negates a unit. Default: 1.

    Example:
        >>> swap = Permutation(np.array([1, 0]), np.array([1.0, -2.0]))
        >>> swap.inverse().order.tolist(), swap.inverse().factor.tolist(), swap.keeps_norms
        ([1, 0], [-0.5, 1.0], False)
    """

    by_index: ClassVar[bool] = True

    order: Tensor
    factor: Tensor

    def __init__(
        self, order: Tensor | NDArray[np.int64] | Sequence[int],
        factor: Tensor | Array | Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        object.__setattr__(self, "order", _tensor(order))
        ones = np.ones(tuple(self.order.shape))
        object.__setattr__(self, "factor", _tensor(ones if factor is None else factor).to(self.order.device))

    @staticmethod
    def scaling(factor: Array) -> Permutation:
        """The element that leaves units where they are and multiplies each by a factor."""
        return Permutation(np.arange(len(factor)), factor)

    @property
    def width(self) -> int:
        """How many units there are."""
        return len(self.order)

    @cached_property
    def reorders(self) -> bool:
        """Whether a unit changes its place."""
        return not torch.equal(self.order, torch.arange(len(self.order), device=self.order.device))

    @cached_property
    def rescales(self) -> bool:
        """Whether a unit is negated or scaled."""
        return bool((self.factor != 1).any())

    @cached_property
    def keeps_norms(self) -> bool:
        """Whether every factor is 1 or -1, so that no sum of squares changes."""
        return not self.rescales or bool((self.factor.abs() == 1).all())

    @property
    def is_identity(self) -> bool:
        """Whether every unit stays where it is, as it is: nothing has to be moved."""
        return not self.reorders and not self.rescales

    def inverse(self) -> Permutation:
        """The element that undoes this one."""
        back = self.order.argsort()
        return Permutation(back, 1 / self.factor[back])

    def relative_to(self, first: Permutation) -> Permutation:
        """What this element becomes when the new units are renumbered so that another one becomes the identity."""
        back = first.order.argsort()
        return Permutation(self.order[back], self.factor[back] / first.factor[back])

    def of_shuffled(self, order: NDArray[np.int64]) -> Permutation:
        """The element for a network in which the place of unit `u` is taken by unit `order[u]`."""
        return Permutation(torch.from_numpy(order).to(self.order.device)[self.order], self.factor)

    def same_as(self, other: object) -> bool:
        """Whether another element does exactly the same."""
        return (
            isinstance(other, Permutation)
            and torch.equal(self.order, other.order)
            and torch.equal(self.factor, other.factor)
        )

    @property
    def signed(self) -> Tensor:
        """The matrix [new units, old units] by which odd slots are carried where they are produced."""
        return self._dense(self.factor)

    @property
    def matrices(self) -> Tensor:
        """What odd and what even slots are carried by where they are produced, [2, new units, old units]."""
        return torch.stack([self.signed, self._dense(torch.ones_like(self.factor))])

    def _dense(self, values: Tensor) -> Tensor:
        matrix = values.new_zeros(len(values), len(values))
        matrix[torch.arange(len(values), device=values.device), self.order] = values
        return matrix

    def carriers(self, count: int) -> Tensor:
        """Matrices [count, new units, old units]: one of all slots, or two, of odd slots and of even ones."""
        return self.signed[None] if count == 1 else self.matrices

    def agreement(self, scores: Tensor) -> float:
        """The total score, for scores [1 or 2, new units, old units] of odd (and of even) slots."""
        odd, *even = (each.gather(1, self.order[:, None])[:, 0].double() for each in scores)
        return float((odd * self.factor).sum()) + sum(float(each.sum()) for each in even)

    def carry(self, units: Tensor, *, odd: bool, produced: bool) -> Tensor:
        """Values [old units, ...] in the new order; odd slots are multiplied, where they are consumed divided."""
        moved: Tensor = units.index_select(0, self.order)
        if not odd or not self.rescales:
            return moved
        factor = self.factor if produced else 1 / self.factor
        return moved * factor.to(units.dtype).view(-1, *[1] * (units.dim() - 1))


@dataclass(frozen=True)
class Symmetry:
    """The group of a space: permutations of its units and, where allowed, signs and positive scales.

    Args:
        signs: Any unit may be negated (every operation on the space is odd, such as tanh).
        scales: Any unit may be multiplied by a positive number (every operation is positively homogeneous, such as
            ReLU).
    """

    signs: bool = False
    scales: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """What is allowed beyond permutation, in the words of the notation and of reports.

        Example:
            >>> Symmetry(scales=True).words
            ('scales',)
        """
        return tuple(field.name for field in fields(self) if getattr(self, field.name))

    @classmethod
    def all_words(cls) -> tuple[str, ...]:
        """The words of everything that any symmetry may allow beyond permutation."""
        return tuple(field.name for field in fields(cls))

    def random_element(self, width: int, rng: np.random.Generator) -> Permutation:
        """A random element that is not trivial: where units can be permuted or negated, at least one is."""
        factor = np.ones(width)
        if self.signs:
            factor *= rng.choice([-1.0, 1.0], size=width)
            factor[rng.integers(width)] *= -1.0 if (factor > 0).all() else 1.0
        if self.scales:
            most = np.log(LARGEST_RANDOM_SCALE)
            factor *= np.exp(rng.uniform(-most, most, size=width))
        return Permutation(_shuffled(width, rng), factor)

    def objection(self, element: Permutation, width: int) -> str:
        """Why an element is not one of this symmetry, in words that end a sentence about it; empty if it is."""
        order, factor = element.order, element.factor
        whole = not (order.is_floating_point() or order.is_complex() or order.dtype is torch.bool)
        if not whole or order.dim() != 1 or sorted(order.tolist()) != list(range(width)):
            return f"order is not a permutation of its {width} units: {order.tolist()!r}"
        if factor.shape != (width,) or not bool(factor.isfinite().all()) or bool((factor == 0).any()):
            return f"factor must be {width} finite numbers other than zero"
        if not self.signs and bool((factor < 0).any()):
            return "its units may not be negated; give positive factors"
        if not self.scales and not element.keeps_norms:
            return "its units may not be scaled; give factors 1 (or -1)"
        return ""

    def best_element(self, scores: Tensor, *, signs: bool = True) -> Permutation:
        """The permutation with the largest total score, for scores [1 or 2, units, units].

        The first matrix belongs to odd slots, a second one to even slots. Where units may be negated, and `signs` says
        that they shall be, a pair scores `even + |odd|` and takes the sign of `odd`.
        """
        odd = scores[0]
        order = assignment(pair_scores(scores, signs=self.signs and signs))
        own = odd[torch.arange(len(order), device=odd.device), order]
        negated = self.signs and signs
        return Permutation(order, torch.where(own < 0, -1.0, 1.0).to(odd.dtype) if negated else torch.ones_like(own))


PERMUTATIONS = Symmetry()


def _tensor(values: Tensor | NDArray[Any] | Sequence[Any]) -> Tensor:
    """A tensor, whatever the default device is: arrays and lists stay on the CPU."""
    return values if isinstance(values, Tensor) else torch.from_numpy(np.asarray(values))


def pair_scores(scores: Tensor, *, signs: bool) -> Tensor:
    """What each pair of units scores [units, units], where its sign may be chosen or not."""
    total = scores[0].abs() if signs else scores[0]
    return total + scores[1] if len(scores) == 2 else total


def _shuffled(width: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A random permutation that moves something, where there is something to move."""
    order = rng.permutation(width)
    while width > 1 and np.array_equal(order, np.arange(width)):
        order = rng.permutation(width)
    return order
