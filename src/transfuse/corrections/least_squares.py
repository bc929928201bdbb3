"""Least squares from streamed normal equations, with a ridge towards a matrix that is there already.

    minimise  sum |y - V z|^2 + ridge * d * |V - V0|^2,    d = mean square of a feature times the number of samples

Only sums of products are kept, and samples only while there are fewer of them than features. Where every sample counts
differently for every row,

    minimise  sum w_r (y_r - v_r z)^2 + ridge * d * mean(w) * |V - V0|^2,

each row would have normal equations of its own. Conjugate gradients need none: each step goes through the samples once,
and the equations of samples that count alike, whose solution they start from, lead them to the minimum in a few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # that may be tried, in mean squares of a feature
STEPS = 10  # of conjugate gradients, at most: each goes through all samples
ENOUGH = 1e-2  # of the squared gradient may be left when they stop: 1e-4 took twice the steps, and came no nearer
TINY = 1e-300  # keeps divisions by zero away
CONSTANT = 100.0  # squares of all other features together: how large a constant counts that shall be free
LEAST = 1e-9  # of the mean weight: a sample that counts less counts so much
FIELDS = ("features", "outputs", "weights")
HALVED = 256  # columns: from so many on, their products are made half by half


@dataclass(frozen=True, eq=False)
class Equations:
    """Normal equations of a least-squares problem: sums over samples.

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
        """The equations of features [samples, d] and outputs [samples, rows], each sample counting `weight`."""
        sums = products(features), features.T @ outputs, outputs.square().sum(0)
        return Equations(*(weight * each.double() for each in sums))

    def __add__(self, other: LeastSquares) -> Equations:
        """Equations of both sets of samples."""
        if isinstance(other, Few):
            other = other.equations
        return Equations(self.gram + other.gram, self.cross + other.cross, self.energy + other.energy)

    @property
    def numbers(self) -> tuple[Tensor, ...]:
        """What holds NaN or infinity if a sample does."""
        return self.gram, self.cross

    def residual(self, matrix: Tensor) -> float:
        """Sum of squared differences between outputs and what a matrix [rows, d] makes of the features."""
        rows = self.energy - 2 * (matrix * self.cross.T).sum(1) + ((matrix @ self.gram) * matrix).sum(1)
        return float(rows.sum())

    def solve(self, start: Tensor, ridge: float, *, constant: bool) -> Tensor:
        """The matrix that fits best, with a ridge towards `start`; a constant is free."""
        return self.solver(start, constant=constant)(ridge)

    def solver(self, start: Tensor, *, constant: bool) -> Callable[[float], Tensor]:
        """The matrix that fits best, as a function of the ridge towards `start`; a constant is free."""
        missing = self.cross - self.gram @ start.T
        return lambda ridge: start + torch.cholesky_solve(missing, self.factor(ridge, constant=constant)).T

    def solve_weighted(
        self, start: Tensor, found: Tensor, ridge: float, weighted: Callable[[], Iterable[Weighted]], *, mean: float,
        constant: bool,
    ) -> Tensor:  # fmt: skip
        """The matrix that fits best where samples count differently for every row.

        Args:
            start: Where the ridge pulls to.
            found: The solution of these equations, in which they count alike.
            ridge: The ridge by which that solution was found.
            weighted: The samples of these equations, each time from the first.
            mean: The mean weight of these samples.
            constant: Whether the last feature is one, which is free.
        """
        penalty, factor = mean * self.penalty(ridge, constant=constant), self.factor(ridge, constant=constant)
        left = (start - found) * penalty + _sum(each.pull(found) for each in weighted())
        return descended(
            found, left,
            lambda matrix: matrix * penalty + _sum(each.curve(matrix) for each in weighted()),
            lambda matrix: torch.cholesky_solve(matrix.T, factor).T,
        )  # fmt: skip

    def penalty(self, ridge: float, *, constant: bool) -> Tensor:
        """The ridge of each feature, and a little more that keeps the equations solvable if features are all 0."""
        diagonal = self.gram.diagonal()
        penalty = torch.full_like(diagonal, float(ridge * diagonal[: len(diagonal) - constant].mean()))
        if constant:
            penalty[-1] = 0.0
        return penalty + (1e-10 * diagonal.mean()).clamp_min(1e-30)

    def factor(self, ridge: float, *, constant: bool) -> Tensor:
        """The Cholesky factor of the equations with a ridge."""
        factor: Tensor = torch.linalg.cholesky(self.gram + torch.diag(self.penalty(ridge, constant=constant)))
        return factor


@dataclass(frozen=True, eq=False)
class Few:
    """A least-squares problem of fewer samples than features, which is solved in the space of the samples.

    With E what is missing of the outputs, `V = V0 + E' (Z Z' + ridge * d)^-1 Z`: a matrix of the size of the samples is
    inverted, where normal equations have one of the size of the features. It is the same solution.

    Args:
        features: [samples, d], each sample multiplied by the root of what it counts.
        outputs: [samples, rows], multiplied likewise.
    """

    features: Tensor
    outputs: Tensor

    def __add__(self, other: LeastSquares) -> LeastSquares:
        """Both sets of samples; as normal equations once there are as many samples as features."""
        if isinstance(other, Equations):
            return self.equations + other
        both = Few(torch.cat([self.features, other.features]), torch.cat([self.outputs, other.outputs]))
        return both if len(both.features) < both.features.shape[1] else both.equations

    @property
    def equations(self) -> Equations:
        """The normal equations."""
        return Equations.of(self.features, self.outputs)

    @property
    def gram(self) -> Tensor:
        """Features times features [d, d]."""
        return products(self.features).double()

    @property
    def energy(self) -> Tensor:
        """Squared outputs [rows]."""
        return self.outputs.square().sum(0).double()

    @property
    def numbers(self) -> tuple[Tensor, ...]:
        """What holds NaN or infinity if a sample does."""
        return self.features, self.outputs

    def residual(self, matrix: Tensor) -> float:
        """Sum of squared differences between outputs and what a matrix [rows, d] makes of the features."""
        return float(self._missing(matrix).square().sum())

    def solver(self, start: Tensor, *, constant: bool) -> Callable[[float], Tensor]:
        """The matrix that fits best, as a function of the ridge towards `start`; a constant is free."""
        free, missing = self.features.double(), self._missing(start)
        size = free[:, : free.shape[1] - constant].square().sum(0).mean()
        one = free[:, -1:]
        if constant:  # what a constant makes good is no longer missing
            free, missing = (each - one @ (one.T @ each) / one.square().sum() for each in (free, missing))
        kernel, own = free @ free.T, torch.eye(len(free), dtype=torch.float64, device=free.device)
        rows = free.to(self.features)  # no sum over these cancels: single precision does, in half the time

        def solved(ridge: float) -> Tensor:
            """The matrix that fits best with one ridge."""
            factor = torch.linalg.cholesky(kernel + (ridge * size + (1e-10 * size).clamp_min(1e-30)) * own)
            change = (torch.cholesky_solve(missing, factor).T.to(rows) @ rows).double()
            if constant:
                left = self._missing(start + change)
                change[:, -1] += (one.T @ left / one.square().sum())[0]
            return start + change

        return solved

    def solve_weighted(
        self, start: Tensor, found: Tensor, ridge: float, weighted: Callable[[], Iterable[Weighted]], *, mean: float,
        constant: bool,
    ) -> Tensor:  # fmt: skip
        """The matrix that fits best where samples count differently for every row; see `Equations`.

        In the space of the samples it is `V = V0 + A Z` with `A (Z Z') + ridge * d * mean(w) * A / w = E`, which
        conjugate gradients solve for all rows at once. There the feature of a constant counts as one that is large, so
        that it is nearly free.
        """
        if not mean:
            return found
        samples = list(weighted())
        features, outputs, weights = (torch.cat([getattr(each, key) for each in samples]) for key in FIELDS)
        missing = (outputs - features @ start.T.to(features)).double().T
        free = features[:, : features.shape[1] - constant]
        size = self.features[:, : free.shape[1]].double().square().sum(0).mean()
        penalty = ridge * size + (1e-10 * size).clamp_min(1e-30)
        own = penalty * mean / weights.double().T.clamp_min(LEAST * mean)
        kernel = free.double() @ free.double().T
        large = CONSTANT * kernel.diagonal().mean() if constant else 0.0
        kernel += large
        factor = torch.linalg.cholesky(kernel + torch.diag(penalty.expand(len(kernel))))

        def inverse(matrix: Tensor) -> Tensor:
            """What would be found if all samples counted alike."""
            return torch.cholesky_solve(matrix.T, factor).T

        begin = inverse(missing)
        shares = descended(
            begin, missing - begin @ kernel - begin * own, lambda matrix: matrix @ kernel + matrix * own, inverse
        )
        change = (shares.to(free) @ free).double()
        if constant:  # given all else, the best one is known
            left = missing - shares @ (kernel - large)
            counts = weights.double().T
            change = torch.cat([change, ((counts * left).sum(1) / counts.sum(1).clamp_min(TINY))[:, None]], 1)
        return start + change

    def _missing(self, matrix: Tensor) -> Tensor:
        """What a matrix does not make of the features."""
        return (self.outputs - self.features @ matrix.T.to(self.features)).double()


LeastSquares = Equations | Few


def products(columns: Tensor) -> Tensor:
    """Products of all columns of a matrix [samples, d] with each other, [d, d].

    They are symmetric, so that those of one half with the other are made once: that takes three quarters of the time.
    """
    if columns.shape[1] < HALVED:
        return columns.T @ columns
    one, other = columns.tensor_split(2, 1)
    mixed = one.T @ other
    return torch.cat([torch.cat([products(one), mixed], 1), torch.cat([mixed.T, products(other)], 1)])


def problem_of(features: Tensor, outputs: Tensor, weight: float = 1.0) -> LeastSquares:
    """The least-squares problem of features [samples, d] and outputs [samples, rows], each sample counting `weight`."""
    if len(features) >= features.shape[1]:
        return Equations.of(features, outputs, weight)
    return Few(weight**0.5 * features, weight**0.5 * outputs)


@dataclass(frozen=True, eq=False)
class Weighted:
    """Samples that count differently for every row.

    Args:
        features: [samples, d].
        outputs: [samples, rows].
        weights: [samples, rows].
    """

    features: Tensor
    outputs: Tensor
    weights: Tensor

    def residual(self, matrix: Tensor) -> float:
        """Weighted sum of squared differences between outputs and what a matrix [rows, d] makes of the features."""
        return float((self.weights * (self.outputs - self._made(matrix)).square()).sum())

    def pull(self, matrix: Tensor) -> Tensor:
        """Half of how steeply the residual falls with each number of the matrix."""
        return self._gathered(self.outputs - self._made(matrix))

    def curve(self, matrix: Tensor) -> Tensor:
        """The weighted normal equations, applied to a matrix."""
        return self._gathered(self._made(matrix))

    def _made(self, matrix: Tensor) -> Tensor:
        return self.features @ matrix.T.to(self.features)

    def _gathered(self, rows: Tensor) -> Tensor:
        return ((self.weights * rows).T @ self.features).double()


def descended(
    found: Tensor, left: Tensor, curve: Callable[[Tensor], Tensor], inverse: Callable[[Tensor], Tensor], *,
    least: float = 0.0,
) -> Tensor:  # fmt: skip
    """The solution of linear equations for each row of a matrix, by conjugate gradients.

    Args:
        found: Where they start.
        left: What is left of the right-hand sides there.
        curve: Applies the equations to all rows.
        inverse: Applies the inverse of equations that are much like these, and the same for all rows.
        least: A step that gains no more than that, of what all have gained, is the last.
    """
    step = inverse(left)
    direction, size = step, (left * step).sum(1)
    goal, gained = ENOUGH * float(size.sum()), 0.0
    for _ in range(STEPS):
        bent = curve(direction)
        length = (size / (direction * bent).sum(1).clamp_min(TINY))[:, None]
        found, left = found + length * direction, left - length * bent
        gain = float((length[:, 0] * size).sum())  # twice what the quadratic function loses
        gained += gain
        if gain <= least * gained:
            break
        step = inverse(left)
        size, before = (left * step).sum(1), size
        if float(size.sum()) <= goal:
            break
        direction = step + (size / before.clamp_min(TINY))[:, None] * direction
    return found


def _sum(tensors: Iterable[Tensor]) -> Tensor:
    first, *others = tensors
    return sum(others, first)
