"""Elements: what may be done to the units of one space without changing what the network computes.

A `Permutation` puts units into another order and multiplies each by a factor. A `Rotation` mixes them by an orthogonal
matrix, as a residual stream allows whose norms are folded (`folding`). Both can be undone; so can a third one, which
mixes what is inside of units (`framed`).

In: orders, factors, matrices. Out: units that are carried. Not here: which of them a space allows (`symmetry`), where
its units stand in tensors (`moving`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..types import Array

if TYPE_CHECKING:
    from .framed import Reversible


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
    reversible: ClassVar[bool] = True

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

    def relative_to(self, first: Reversible) -> Reversible:
        """What this element becomes when the new units are renumbered so that another one becomes the identity."""
        if isinstance(first, Rotation):
            return Rotation(self.signed.to(first.matrix)).relative_to(first)
        if not isinstance(first, Permutation):
            return type(first).of(self, first.frames).relative_to(first)
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


@dataclass(frozen=True, eq=False)
class Rotation:
    """Units mixed by an orthogonal matrix; it is applied as a product.

    Slots that ignore the sign of their unit are left as they are: under a rotation these are the gains of norms, which
    are folded, hence one for all units.

    Args:
        matrix: Orthogonal [units, units]: the new unit `u` is the sum of the old units, times row `u`.

    Example:
        >>> quarter = Rotation(torch.tensor([[0.0, -1.0], [1.0, 0.0]]))
        >>> quarter.carry(torch.tensor([3.0, 4.0]), odd=True, produced=True)
        tensor([-4.,  3.])
    """

    by_index: ClassVar[bool] = False
    keeps_norms: ClassVar[bool] = True
    reversible: ClassVar[bool] = True
    rescales: ClassVar[bool] = True

    matrix: Tensor

    @property
    def width(self) -> int:
        """How many units there are."""
        return len(self.matrix)

    @cached_property
    def is_identity(self) -> bool:
        """Whether every unit stays where it is, as it is: nothing has to be moved."""
        return torch.equal(self.matrix, torch.eye(self.width, dtype=self.matrix.dtype, device=self.matrix.device))

    def inverse(self) -> Rotation:
        """The element that undoes this one."""
        return Rotation(self.matrix.T)

    def relative_to(self, first: Reversible) -> Rotation:
        """What this element becomes when the new units are turned so that another one becomes the identity."""
        return Rotation(first.inverse().signed.to(self.matrix) @ self.matrix)

    def of_shuffled(self, order: NDArray[np.int64]) -> Rotation:
        """The element for a network in which the place of unit `u` is taken by unit `order[u]`."""
        return Rotation(self.matrix[:, torch.from_numpy(order).argsort()])

    @property
    def signed(self) -> Tensor:
        """The matrix [new units, old units] by which odd slots are carried."""
        return self.matrix

    @property
    def matrices(self) -> Tensor:
        """What odd and what even slots are carried by, [2, new units, old units]."""
        return torch.stack([self.matrix, torch.eye(self.width, dtype=self.matrix.dtype, device=self.matrix.device)])

    def carriers(self, count: int) -> Tensor:
        """Matrices [count, new units, old units]: one of all slots, or two, of odd slots and of even ones."""
        return self.matrix[None] if count == 1 else self.matrices

    def agreement(self, scores: Tensor) -> float:
        """The total score, for scores [1 or 2, new units, old units] of odd (and of even) slots."""
        odd, *even = scores
        return float((odd * self.matrix).sum(dtype=torch.float64)) + sum(
            float(each.diagonal().sum(dtype=torch.float64)) for each in even
        )

    def carry(self, units: Tensor, *, odd: bool, produced: bool) -> Tensor:
        """Values [old units, ...] of the new units; consumers are carried as producers are, for Q' undoes Q."""
        if not odd:
            return units
        mixed: Tensor = torch.tensordot(self.matrix.to(units), units, dims=1)
        return mixed


def _tensor(values: Tensor | NDArray[Any] | Sequence[Any]) -> Tensor:
    """A tensor, whatever the default device is: arrays and lists stay on the CPU."""
    return values if isinstance(values, Tensor) else torch.from_numpy(np.asarray(values))
