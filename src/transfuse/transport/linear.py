"""Linear transport: the best coupling of two uniform measures for a matrix of scores.

In: scores [m, n] (larger is better; a cost with its sign changed). Out: a coupling whose rows sum to 1. Only
differences within rows and columns matter: constants added to a row or a column change no optimum, which is why no
norms of units enter the scores anywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import lap
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class EntropicPlan:
    """A coupling [m, n] with rows that sum to 1, and how far its columns are from summing to m / n."""

    coupling: Tensor
    column_error: float
    iterations: int
    converged: bool


def assignment(scores: Tensor) -> Tensor:
    """The permutation `order` [n] with the largest sum of `scores[i, order[i]]`, for square scores.

    Example:
        >>> assignment(torch.tensor([[0.0, 2.0], [1.0, 0.0]]))
        tensor([1, 0])
    """
    _, columns = lap.lapjvs(_costs(scores), return_cost=False, prefer_float32=False)
    return torch.from_numpy(np.asarray(columns)).to(scores.device)


def _costs(scores: Tensor) -> NDArray[np.float64]:
    """Costs with 0 for the best of each row, for solvers on the CPU; one matrix, however large.

    Constants of rows change no optimum, but Jonker and Volgenant's algorithm begins with the columns: without them it
    finds most of the assignment there, and takes a fifth of the time on trained networks.
    """
    costs = scores.detach().to("cpu", torch.float64, copy=True, memory_format=torch.contiguous_format)
    found: NDArray[np.float64] = costs.neg_().sub_(costs.amin(1, keepdim=True)).numpy()
    return found


def exact(scores: Tensor) -> Tensor:
    """The exact coupling [m, n] of uniform measures with the largest mean score; rows sum to 1.

    If one width is a multiple of the other, the smaller side is repeated and the problem is an assignment; otherwise it
    is a linear program, solved by the network simplex of POT.
    """
    m, n = scores.shape
    if max(m, n) % min(m, n):
        return _simplex(scores)
    rows = torch.arange(m, device=scores.device).repeat_interleave(max(m, n) // m)
    columns = torch.arange(n, device=scores.device).repeat_interleave(max(m, n) // n)
    order = assignment(scores[rows][:, columns])
    share = scores.new_full((len(rows),), m / max(m, n))
    return torch.zeros_like(scores).index_put_((rows, columns[order]), share, accumulate=True)


def _simplex(scores: Tensor) -> Tensor:
    import ot

    m, n = scores.shape
    plan = ot.emd(np.full(m, 1 / m), np.full(n, 1 / n), _costs(scores), numItermax=10_000_000)
    return torch.from_numpy(plan * m).to(scores)


def entropic(scores: Tensor, epsilon: float, *, iterations: int = 1000, tolerance: float = 1e-6) -> EntropicPlan:
    """The entropic coupling, by Sinkhorn's algorithm, stabilised in the log domain, float64 (Cuturi 2013).

    Args:
        scores: Scores [m, n].
        epsilon: Regularisation, relative to the spread (standard deviation) of the scores.
        iterations: Most iterations.
        tolerance: Stop when the columns' masses are this close to uniform.

    Returns:
        A plan whose rows sum to 1 exactly: the last step normalises them.
    """
    m, n = scores.shape
    scaled = scores.double()
    scaled = (scaled - scaled.max()) / (epsilon * max(float(scaled.std(unbiased=False)), 1e-300))
    columns = torch.zeros(n, dtype=torch.float64, device=scores.device)
    error, steps = float("inf"), 0
    while steps < iterations and error > tolerance:
        steps += 1
        rows = -torch.logsumexp(scaled + columns, dim=1)
        masses = torch.logsumexp(scaled + rows[:, None] + columns, dim=0)
        error = float((masses.exp() * n / m - 1).abs().max())
        if error > tolerance:
            columns = columns - (masses - math.log(m / n))
            further, taken = _kernel_steps(scaled, columns, min(iterations - steps, 100), tolerance)
            columns, steps = columns + further, steps + taken
    coupling = torch.softmax(scaled + columns, dim=1)
    return EntropicPlan(coupling.to(scores.dtype), error, steps, error <= tolerance)


def _kernel_steps(scaled: Tensor, columns: Tensor, steps: int, tolerance: float) -> tuple[Tensor, int]:
    """Further iterations from potentials of the columns: what to add to these, and how many were made.

    The kernel is put into the potentials first, so an iteration is two products of a matrix with a vector; it ends
    before numbers leave the range in which they are exact.
    """
    m, n = scaled.shape
    kernel = torch.softmax(scaled + columns, dim=1)
    factors = torch.ones(n, dtype=scaled.dtype, device=scaled.device)
    for step in range(steps):
        masses = (1.0 / (kernel @ factors)) @ kernel
        proposed = (m / n) / masses
        if not bool((proposed.log().abs() < 60).all()):  # also where a mass is zero
            return factors.log(), step
        settled = bool(((proposed / factors - 1).abs() < tolerance / 2).all())
        factors = proposed
        if settled:
            return factors.log(), step + 1
    return factors.log(), steps
