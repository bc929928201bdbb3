"""The paper's algorithms as printed, with POT and NumPy alone: a reference for time, not for use.

Akash, Li and Garcia Trillos (2022), Algorithms 1 (WB) and 2 (GWB): layer by layer, couplings by entropic transport in
the log domain, weights by the update formula, in turn until they stay (10 rounds at most, as the paper observes). The
cost `L(W, W_i) x Pi` sums a 4-way tensor: `loop` takes it pair by pair of units, as its definition says; `factorised`
is Proposition 1 of Peyre et al. (2016), which the paper cites for its complexity.

In: layers of each model, arrays [out, in, values], with hidden-to-hidden weights [units, units, values] or None.
Out: the fused layers, and the couplings.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
import ot

from transfuse.types import Array

Layer = tuple[Array, Array | None]
How = Literal["loop", "factorised"]
ALPHA = 5.0  # of hidden-to-hidden weights


def cost(target: Array, model: Array, coupling: Array, how: How) -> Array:
    """`C[j, g] = sum_qs |target[j, q] - model[g, s]|^2 coupling[q, s]`."""
    if how == "factorised":
        left = np.einsum("jqv,jqv,q->j", target, target, coupling.sum(1))
        right = np.einsum("gsv,gsv,s->g", model, model, coupling.sum(0))
        carried = np.einsum("gsv,qs->gqv", model, coupling, optimize=True)
        units = len(target), len(model)
        return left[:, None] + right - 2 * target.reshape(units[0], -1) @ carried.reshape(units[1], -1).T
    found = np.empty((len(target), len(model)))
    for j, ours in enumerate(target):
        for g, theirs in enumerate(model):
            found[j, g] = sum(
                (np.subtract.outer(ours[:, v], theirs[:, v]) ** 2 * coupling).sum() for v in range(ours.shape[1])
            )
    return found


def coupled(costs: Array, epsilon: float) -> Array:
    """The entropic coupling, of total mass 1; epsilon is relative to the largest cost."""
    uniform = np.full(len(costs), 1 / len(costs)), np.full(costs.shape[1], 1 / costs.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged: the paper's settings do that
        plan: Array = ot.bregman.sinkhorn_log(*uniform, costs, epsilon * costs.max(), numItermax=1000)
    return plan


def fuse(
    models: Sequence[Sequence[Layer]], *, how: How, epsilon: float = 0.01, rounds: int = 10
) -> tuple[list[Layer], list[list[Array]]]:
    """Algorithms 1 and 2, started from the first model: its layers, and the couplings of every model in every layer."""
    inputs = models[0][0][0].shape[1]
    before = [np.eye(inputs) / inputs for _ in models]
    fused: list[Layer] = []
    couplings: list[list[Array]] = []
    for number, (weights, hidden) in enumerate(models[0]):
        own = [model[number] for model in models]
        present = [np.eye(len(weights)) / len(weights) for _ in models]
        last = number == len(models[0]) - 1  # outputs stay where they are
        for _ in range(1 if last else rounds):
            found = present if last else [
                _round(weights, hidden, layer, (previous, start), how=how, epsilon=epsilon)
                for layer, previous, start in zip(own, before, present, strict=True)
            ]  # fmt: skip
            weights = _mean([layer[0] for layer in own], found, before)
            if hidden is not None:
                hidden = _mean([layer[1] for layer in own if layer[1] is not None], found, found)
            settled = all(np.allclose(a, b, atol=1e-4 / len(a)) for a, b in zip(found, present, strict=True))
            present = found
            if settled:
                break
        fused.append((weights, hidden))
        couplings.append(present)
        before = present
    return fused, couplings


def _round(
    weights: Array, hidden: Array | None, own: Layer, couplings: tuple[Array, Array], *, how: How, epsilon: float
) -> Array:
    """The coupling of one model in one layer; with hidden-to-hidden weights, again until it stays."""
    previous, present = couplings
    incoming = cost(weights, own[0], previous, how)
    if hidden is None or own[1] is None:
        return coupled(incoming, epsilon)
    for _ in range(10):
        found = coupled(incoming + ALPHA * cost(hidden, own[1], present, how), epsilon)
        if np.allclose(found, present, atol=1e-4 / len(found)):
            break
        present = found
    return found


def _mean(own: Sequence[Array], rows: Sequence[Array], columns: Sequence[Array]) -> Array:
    """The update formula: `k_l k_(l-1) mean_i Pi_l W_i Pi_(l-1)'`."""
    total = sum(
        np.einsum("jg,gsv,qs->jqv", row, weights, column, optimize=True)
        for row, weights, column in zip(rows, own, columns, strict=True)
    )
    result: Array = np.asarray(total) * len(rows[0]) * len(columns[0]) / len(own)
    return result
