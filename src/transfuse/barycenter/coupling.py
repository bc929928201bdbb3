"""Couplings: how the units of one model are carried to the units of the target, for one space.

A coupling is one of four things. For equal widths a `Permutation` (of `layout`), with signs, or where the space allows
it a `Rotation`, or `Framed`, which mixes what is inside of units. Else a `Plan`, a matrix [target units, model units]
whose rows, without signs, sum to 1: where units are produced, a unit of the target is a mean of units of the model.
Where they are consumed, each unit of the model hands out its weights in proportion to its share in the units of the
target: merged units are added, split units share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..layout import Framed, Permutation, Reversible, Rotation, Symmetry, pair_scores
from ..layout.moving import mixed_along
from ..transport import exact

SAME = 1e-4  # plans whose entries differ by less do the same


@dataclass(frozen=True, eq=False)
class Plan:
    """A coupling that mixes units, or carries them to another width.

    Args:
        matrices: [2, target units, model units]: what odd slots are carried by, and what even ones are.
        column_error: How far, relatively, columns are from equal sums: more than 0 where Sinkhorn's algorithm ended too
            early.
    """

    by_index: ClassVar[bool] = False
    keeps_norms: ClassVar[bool] = False
    reversible: ClassVar[bool] = False
    is_identity: ClassVar[bool] = False

    matrices: Tensor
    column_error: float = 0.0

    @staticmethod
    def of(matrix: Tensor, column_error: float = 0.0) -> Plan:
        """The plan by which odd and even slots are carried alike."""
        return Plan(torch.stack([matrix, matrix]), column_error)

    @property
    def width(self) -> int:
        """How many units the model has."""
        return self.matrices.shape[2]

    @property
    def signed(self) -> Tensor:
        """The matrix [target units, model units] of odd slots: units that are negated have a sign."""
        return self.matrices[0]

    def carriers(self, count: int) -> Tensor:
        """Matrices [count, target units, model units]: one of all slots, or two, of odd slots and of even ones."""
        return self.signed[None] if count == 1 else self.matrices

    def carry(self, units: Tensor, *, odd: bool, produced: bool) -> Tensor:
        """Values [model units, ...] of the model, carried to the target [target units, ...].

        Where units are consumed, the true sums of the columns divide: every unit hands out all its weights, also by a
        plan whose columns do not sum to what they should.
        """
        carrier = self.matrices[0 if odd else 1]
        if not produced:
            carrier = carrier / self.matrices[1].sum(0).clamp_min(torch.finfo(carrier.dtype).tiny)
        return mixed_along(carrier, units, 0)

    def relative_to(self, first: Reversible) -> Plan:
        """What this plan becomes when the target's units are renumbered so that a permutation becomes the identity."""
        assert isinstance(first, Permutation), "units that rotate in one model have the same width in all"
        back = first.order.argsort()
        odd, even = self.matrices[:, back]
        return Plan(torch.stack([odd / first.factor[back][:, None], even]), self.column_error)

    def of_shuffled(self, order: NDArray[np.int64]) -> Plan:
        """The plan for a model in which the place of unit `u` is taken by its unit `order[u]`."""
        return Plan(self.matrices[:, :, torch.from_numpy(order).argsort()])


Coupling: TypeAlias = Permutation | Rotation | Framed | Plan
Couplings = Mapping[str, Coupling]  # of one model, by space


def start_coupling(target: int, model: int, like: Tensor) -> Coupling:
    """Every unit stays where it is; in a wider target units are repeated, in a narrower one neighbours merge."""
    if target == model:
        return Permutation(torch.arange(target, device=like.device), like.new_ones(target))
    places = np.arange(max(target, model))
    matrix = np.zeros((target, model))
    matrix[places * target // len(places), places * model // len(places)] = 1.0
    return Plan.of(torch.from_numpy(matrix / matrix.sum(1, keepdims=True)).to(like))


def coupling_of(matrix: Tensor) -> Coupling:
    """The coupling of a matrix [target units, model units]: a permutation where each unit is one unit, maybe negated.

    Example:
        >>> coupling_of(torch.tensor([[0.0, -1.0], [1.0, 0.0]])).order.tolist()
        [1, 0]
    """
    shares = matrix.abs()
    single = (shares == 1).sum(1) == 1
    if matrix.shape[0] == matrix.shape[1] and bool(single.all()) and bool((shares.sum(0) == 1).all()):
        order = shares.argmax(1)
        return Permutation(order, matrix.gather(1, order[:, None])[:, 0])
    return Plan(torch.stack([matrix, shares]))


def best_coupling(scores: Tensor, symmetry: Symmetry, *, signs: bool) -> Permutation | Rotation | Plan:
    """The coupling with the largest total score, for scores [1 or 2, target units, model units].

    For equal widths the best element of the symmetry of the space; else the exact plan. Units are negated where the
    symmetry allows it and `signs` says so.
    """
    if scores.shape[1] == scores.shape[2]:
        return symmetry.best_element(scores, signs=signs)
    signed = symmetry.signs and signs
    matrix = exact(pair_scores(scores, signs=signed))
    if not signed:
        return Plan.of(matrix)
    return Plan(torch.stack([matrix * torch.where(scores[0] < 0, -1.0, 1.0), matrix]))


def same(one: Coupling, other: Coupling) -> bool:
    """Whether two couplings do the same."""
    if isinstance(one, Permutation) and isinstance(other, Permutation):
        return one.same_as(other)
    if isinstance(one, Framed) or isinstance(other, Framed):
        return isinstance(one, Framed) and isinstance(other, Framed) and _same_inside(one, other)
    if isinstance(one, Rotation) or isinstance(other, Rotation):
        return torch.allclose(one.signed.to(other.signed), other.signed, rtol=0.0, atol=SAME)
    return torch.allclose(one.matrices, other.matrices, rtol=0.0, atol=SAME)


def _same_inside(one: Framed, other: Framed) -> bool:
    """Whether two elements move units alike, and mix and move what is inside of them alike."""
    pairs = zip(one.matrices, other.matrices, strict=True)
    orders = [each.orders for each in (one, other) if each.orders is not None]
    alike = not orders or (len(orders) == 2 and torch.equal(*orders))
    return (
        alike
        and one.permutation.same_as(other.permutation)
        and all(torch.allclose(a, b, rtol=0.0, atol=SAME) for a, b in pairs)
    )


def reversible(couplings: Couplings) -> bool:
    """Whether no units of a model are merged or split: what it computes stays as it is."""
    return all(coupling.reversible for coupling in couplings.values())


def packed(couplings: Couplings) -> dict[str, Coupling]:
    """Couplings of a model whose permutations lie side by side in memory.

    Small tensors that live long, scattered among large ones that do not, keep what is freed from being used again.
    """
    found = dict(couplings)
    permuted = {name: each for name, each in couplings.items() if isinstance(each, Permutation)}
    if permuted:
        orders, factors = (
            torch.cat(parts).split([len(part) for part in parts])
            for parts in zip(*((each.order, each.factor) for each in permuted.values()), strict=True)
        )
        found |= {name: Permutation(order, each) for name, order, each in zip(permuted, orders, factors, strict=True)}
    return found


@dataclass(frozen=True, eq=False, repr=False)
class CouplingMatrices(Mapping[str, Tensor]):
    """The couplings of a model as matrices [target units, model units] by space, with signs where units were negated.

    A matrix is made when it is asked for: a permutation is kept as an index, whatever its width.
    """

    couplings: Couplings

    def __repr__(self) -> str:
        """What kind of coupling each space has; their numbers would fill a screen."""
        kinds = ", ".join(f"{name}: {type(each).__name__}" for name, each in self.couplings.items())
        return f"couplings of {len(self)} spaces ({kinds})"

    @property
    def reversible(self) -> bool:
        """Whether no units of the model are merged or split: what it computes stays as it is."""
        return reversible(self.couplings)

    def __getitem__(self, space: str) -> Tensor:
        """The matrix of a space."""
        return self.couplings[space].signed

    def __iter__(self) -> Iterator[str]:
        """The names of the spaces that are coupled."""
        return iter(self.couplings)

    def __len__(self) -> int:
        """How many spaces there are."""
        return len(self.couplings)
