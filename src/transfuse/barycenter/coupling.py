"""Couplings: how the units of one model are carried to the units of the target, for one space.

A coupling is a matrix [target units, model units] whose rows, without signs, sum to 1: where units are produced, a unit
of the target is a mean of units of the model. Where they are consumed, each unit of the model hands out its weights in
proportion to its share in the units of the target: merged units are added, split units share. A hard coupling of
equal widths is a permutation with signs; it is applied as an index, never as a matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..layout import Side
from ..transport import assignment, exact

SAME = 1e-4  # soft couplings whose entries differ by less do the same


@dataclass(frozen=True, eq=False)
class Coupling:
    """Either hard (target unit `u` is model unit `order[u]`, times `sign[u]`) or soft.

    A soft one holds two matrices [2, target units, model units]: what odd slots are carried by, and what even ones are.
    `column_error` is how far, relatively, its columns are from equal sums: more than 0 where Sinkhorn's algorithm ended
    too early.
    """

    order: Tensor | None = None
    sign: Tensor | None = None
    soft: Tensor | None = None
    column_error: float = 0.0

    @staticmethod
    def start(target: int, model: int, like: Tensor) -> Coupling:
        """Every unit stays where it is; in a wider target units are repeated, in a narrower one neighbours merge."""
        if target == model:
            return Coupling(torch.arange(target, device=like.device), like.new_ones(target))
        places = np.arange(max(target, model))
        matrix = np.zeros((target, model))
        matrix[places * target // len(places), places * model // len(places)] = 1.0
        dense = torch.from_numpy(matrix / matrix.sum(1, keepdims=True)).to(like)
        return Coupling(soft=torch.stack([dense, dense]))

    @staticmethod
    def best(scores: Tensor, *, signs: bool) -> Coupling:
        """The coupling with the largest total score, for scores as `Problem.scores` gives them.

        A unit may be negated if `signs`: then a pair scores `even + |odd|`, and its sign is that of `odd`.
        """
        odd = scores[0]
        total = odd.abs() if signs else odd
        if len(scores) == 2:
            total = total + scores[1]
        if total.shape[0] != total.shape[1]:
            matrix = exact(total)
            return Coupling(soft=torch.stack([matrix * torch.where(odd < 0, -1.0, 1.0) if signs else matrix, matrix]))
        order = assignment(total)
        own = odd[torch.arange(len(order), device=odd.device), order]
        sign = torch.where(own < 0, -1.0, 1.0).to(odd.dtype) if signs else torch.ones_like(own)
        return Coupling(order, sign)

    @property
    def hard(self) -> bool:
        """Whether it is a permutation with signs."""
        return self.order is not None

    @cached_property
    def negates(self) -> bool:
        """Whether it is hard and negates a unit."""
        return self.sign is not None and bool((self.sign < 0).any())

    @cached_property
    def still(self) -> bool:
        """Whether every unit stays where it is, as it is: nothing has to be carried."""
        if self.order is None or self.negates:
            return False
        return torch.equal(self.order, torch.arange(len(self.order), device=self.order.device))

    @property
    def width(self) -> int:
        """How many units the model has."""
        return len(self.order) if self.order is not None else self.matrices.shape[2]

    def carriers(self, count: int) -> Tensor:
        """What slots are carried by where they are produced, [count, target units, model units].

        Two are those of odd and of even slots; one is that of all slots.
        """
        return self.signed[None] if count == 1 else self.matrices

    @property
    def matrices(self) -> Tensor:
        """What odd and what even slots are carried by where they are produced, [2, target units, model units]."""
        if self.order is None or self.sign is None:
            assert self.soft is not None, "a coupling is hard or soft"
            return self.soft
        units = torch.arange(len(self.order), device=self.sign.device)
        dense = self.sign.new_zeros(2, len(units), len(units))
        dense[0, units, self.order] = self.sign
        dense[1, units, self.order] = 1.0
        return dense

    @property
    def signed(self) -> Tensor:
        """The matrix [target units, model units] of odd slots: units that are negated have a sign."""
        if self.order is None or self.sign is None:
            return self.matrices[0]
        dense = self.sign.new_zeros(len(self.order), len(self.order))
        dense[torch.arange(len(self.order), device=dense.device), self.order] = self.sign
        return dense

    def agreement(self, scores: Tensor) -> float:
        """The total score of a hard coupling, for scores as `Problem.scores` gives them."""
        assert self.order is not None, "a hard coupling"
        assert self.sign is not None, "a hard coupling has signs"
        odd, *even = (each.gather(1, self.order[:, None])[:, 0].double() for each in scores)
        return float((odd * self.sign).sum()) + sum(float(each.sum()) for each in even)

    def carry(self, units: Tensor, *, odd: bool, side: Side) -> Tensor:
        """Values [model units, ...] of the model, carried to the target [target units, ...].

        Where units are consumed, the true sums of the columns divide: every unit hands out all its weights, also by a
        coupling whose columns do not sum to what they should.
        """
        if self.order is None or self.sign is None:
            matrices = self.matrices
            carrier = matrices[0 if odd else 1]
            if side == "consumes":
                carrier = carrier / matrices[1].sum(0).clamp_min(torch.finfo(carrier.dtype).tiny)
            mixed: Tensor = torch.tensordot(carrier, units, dims=1)
            return mixed
        moved: Tensor = units.index_select(0, self.order)
        return moved * self.sign.view(-1, *[1] * (units.dim() - 1)) if odd else moved

    def of_shuffled(self, order: NDArray[np.int64]) -> Coupling:
        """The coupling by which the place of unit `u` of the model is taken by its unit `order[u]`."""
        places = torch.from_numpy(order)
        if self.order is None:
            return Coupling(soft=self.matrices[:, :, places.argsort()])
        return Coupling(places.to(self.order.device)[self.order], self.sign)

    def after(self, first: Coupling) -> Coupling:
        """This coupling with the target's units renumbered (and negated) so that a hard one becomes the identity."""
        assert first.order is not None, "only a hard coupling has an inverse"
        assert first.sign is not None, "a hard coupling has signs"
        back = first.order.argsort()
        sign = first.sign[back]
        if self.order is None or self.sign is None:
            odd, even = self.matrices[:, back]
            return Coupling(soft=torch.stack([odd * sign[:, None], even]), column_error=self.column_error)
        return Coupling(self.order[back], self.sign[back] * sign)

    def same_as(self, other: Coupling) -> bool:
        """Whether two couplings do the same."""
        if self.order is not None and other.order is not None and self.sign is not None and other.sign is not None:
            return torch.equal(self.order, other.order) and torch.equal(self.sign, other.sign)
        return torch.allclose(self.matrices, other.matrices, rtol=0.0, atol=SAME)


def packed(couplings: Mapping[str, Coupling]) -> dict[str, Coupling]:
    """The same couplings, with permutations side by side in memory.

    Small tensors that live long, scattered among large ones that do not, keep what is freed from being used again.
    """
    found = dict(couplings)
    hard = {name: (each.order, each.sign) for name, each in couplings.items() if each.hard}
    if hard:
        orders, signs = (
            torch.cat(parts).split([len(part) for part in parts]) for parts in zip(*hard.values(), strict=True)
        )
        found |= {name: Coupling(order, sign) for name, order, sign in zip(hard, orders, signs, strict=True)}
    return found


@dataclass(frozen=True, eq=False)
class Matrices(Mapping[str, Tensor]):
    """The couplings of a model as matrices [target units, model units] by space, with signs where units were negated.

    A matrix is made when it is asked for: a permutation is kept as an index, whatever its width.
    """

    couplings: Mapping[str, Coupling]

    def __getitem__(self, space: str) -> Tensor:
        """The matrix of a space."""
        return self.couplings[space].signed

    def __iter__(self) -> Iterator[str]:
        """The spaces."""
        return iter(self.couplings)

    def __len__(self) -> int:
        """How many spaces there are."""
        return len(self.couplings)
