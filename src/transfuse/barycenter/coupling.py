"""Couplings: how the units of one model are carried to the units of the target, for one space.

A coupling is a matrix [target units, model units] whose rows, without signs, sum to 1: where units are produced, a unit
of the target is a mean of units of the model. Where they are consumed, each unit of the model hands out its weights in
proportion to its share in the units of the target: merged units are added, split units share. A hard coupling of
equal widths is a permutation with signs; it is applied as an index, never as a matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..layout import Side
from ..transport import assignment, exact


@dataclass(frozen=True, eq=False)
class Coupling:
    """Either hard (target unit `u` is model unit `order[u]`, times `sign[u]`) or soft.

    A soft one holds two matrices [2, target units, model units]: what odd slots are carried by, and what even ones are.
    """

    order: Tensor | None = None
    sign: Tensor | None = None
    soft: Tensor | None = None

    @staticmethod
    def start(target: int, model: int, like: Tensor) -> Coupling:
        """Every unit stays where it is; in a wider target units are repeated, in a narrower one neighbours merge."""
        if target == model:
            return Coupling(torch.arange(target, device=like.device), torch.ones(target).to(like))
        rows, columns = torch.arange(max(target, model)), torch.arange(max(target, model))
        matrix = torch.zeros(target, model)
        matrix[rows * target // max(target, model), columns * model // max(target, model)] = 1.0
        matrix = (matrix / matrix.sum(1, keepdim=True)).to(like)
        return Coupling(soft=torch.stack([matrix, matrix]))

    @staticmethod
    def best(odd: Tensor, even: Tensor, *, signs: bool) -> Coupling:
        """The coupling with the largest total score, for scores [target units, model units] of odd and even slots.

        A unit may be negated if `signs`: then a pair scores `even + |odd|`, and its sign is that of `odd`.
        """
        total = even + odd.abs() if signs else even + odd
        if total.shape[0] != total.shape[1]:
            matrix = exact(total)
            return Coupling(soft=torch.stack([matrix * torch.where(odd < 0, -1.0, 1.0) if signs else matrix, matrix]))
        order = assignment(total)
        own = odd[torch.arange(len(order), device=odd.device), order]
        sign = torch.where(own < 0, -1.0, 1.0).to(odd.dtype) if signs else torch.ones_like(own)
        return Coupling(order, sign)

    @property
    def matrices(self) -> Tensor:
        """What odd and what even slots are carried by where they are produced, [2, target units, model units]."""
        if self.order is None or self.sign is None:
            assert self.soft is not None, "a coupling is hard or soft"
            return self.soft
        units = torch.arange(len(self.order), device=self.sign.device)
        dense = torch.zeros(2, len(units), len(units), dtype=self.sign.dtype, device=self.sign.device)
        dense[0, units, self.order] = self.sign
        dense[1, units, self.order] = 1.0
        return dense

    def carry(self, units: Tensor, *, odd: bool, side: Side) -> Tensor:
        """Values [model units, ...] of the model, carried to the target [target units, ...]."""
        if self.order is None or self.sign is None:
            matrices = self.matrices
            carrier = matrices[0 if odd else 1]
            if side == "consumes":
                carrier = carrier / matrices[1].sum(0).clamp_min(torch.finfo(carrier.dtype).tiny)
            mixed: Tensor = torch.tensordot(carrier, units, dims=1)
            return mixed
        moved: Tensor = units.index_select(0, self.order)
        return moved * self.sign.view(-1, *[1] * (units.dim() - 1)) if odd else moved

    def same_as(self, other: Coupling) -> bool:
        """Whether two couplings do the same."""
        return torch.equal(self.matrices, other.matrices)
