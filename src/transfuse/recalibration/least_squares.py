"""Least squares from streamed normal equations, with a ridge towards a matrix that is there already.

    minimise  sum |y - V z|^2 + ridge * d * |V - V0|^2,    d = mean square of a feature times the number of samples

Only sums of products are kept, never samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


@dataclass(frozen=True, eq=False)
class Equations:
    """Sums over samples.

    Args:
        gram: Features times features [d, d].
        cross: Features times outputs [d, rows].
        energy: Squared outputs [rows].
    """

    gram: Tensor
    cross: Tensor
    energy: Tensor

    @staticmethod
    def of(features: Tensor, outputs: Tensor, weight: float = 1.0) -> Equations:
        """From features [samples, d] and outputs [samples, rows], each sample counting `weight`."""
        sums = features.T @ features, features.T @ outputs, outputs.square().sum(0)
        return Equations(*(weight * each.double() for each in sums))

    def __add__(self, other: Equations) -> Equations:
        """Of both sets of samples."""
        return Equations(self.gram + other.gram, self.cross + other.cross, self.energy + other.energy)

    def residual(self, matrix: Tensor) -> float:
        """Sum of squared differences between outputs and what a matrix [rows, d] makes of the features."""
        rows = self.energy - 2 * (matrix * self.cross.T).sum(1) + ((matrix @ self.gram) * matrix).sum(1)
        return float(rows.sum())

    def solve(self, start: Tensor, ridge: float, *, constant: bool) -> Tensor:
        """The matrix that fits best, with a ridge towards `start`; a constant is free."""
        penalty = self.gram.diagonal().clone()
        penalty[:] = ridge * penalty[: len(penalty) - constant].mean()
        if constant:
            penalty[-1] = 0.0
        jitter = (1e-10 * self.gram.diagonal().mean()).clamp_min(1e-30)  # features may all be 0
        factor = torch.linalg.cholesky(self.gram + torch.diag(penalty + jitter))
        correction: Tensor = torch.cholesky_solve(self.cross - self.gram @ start.T, factor)
        return start + correction.T
