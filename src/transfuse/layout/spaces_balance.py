"""The balance of whole spaces among each other: one factor for each, found at once by Newton's method.

In: how large the weights are that scale with certain spaces. Out: the logarithm of a factor for each space. There are
few spaces, so this takes no time; what it ends is that imbalance creeps from layer to layer. Not here: units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..types import Array

STEPS = 50  # of Newton's method, which needs about ten
STEP = 2.0  # the longest step of a logarithm: factors are far apart where layers were scaled by thousands
PRECISION = 1e-12  # of logarithms: a shorter step is the last one


# A sum of squares of weights and how it scales: a factor f of a space multiplies it by f to twice the exponent.
Term = tuple[float, Mapping[str, int]]


def balancing_shifts(terms: Sequence[Term], names: Sequence[str]) -> dict[str, float]:
    """The logarithms x of the factors of spaces that minimise the sum of all squares `sum_t m_t exp(2 e_t x)`.

    It is convex; where it does not depend on a direction, the shortest solution is taken.

    Example:
        >>> shifts = balancing_shifts([(1.0, {"a": 1}), (16.0, {"a": -1})], ["a"])
        >>> round(float(np.exp(shifts["a"])), 6)
        2.0
    """
    exponents = np.array([[own.get(name, 0) for name in names] for _, own in terms], dtype=float)
    masses = np.array([mass for mass, _ in terms])
    found = np.zeros(len(names))
    if not terms:
        return dict.fromkeys(names, 0.0)
    for _ in range(STEPS):
        now = masses * np.exp(2 * exponents @ found)
        step = _step(now, exponents)
        found = found + step
        if np.abs(step).max(initial=0.0) < PRECISION:
            break
    return {name: float(value) for name, value in zip(names, found, strict=True)}


def _step(masses: Array, exponents: Array) -> Array:
    """Newton's step at a point, cut where it is too long to be trusted.

    Spaces differ in size by many orders of magnitude, so each is measured by its own curvature.
    """
    slope = exponents.T @ masses
    curvature = 2 * (exponents.T * masses) @ exponents
    size = np.sqrt(np.maximum(np.diag(curvature), np.finfo(float).tiny))
    solved: Array = np.linalg.lstsq(curvature / np.outer(size, size), -slope / size, rcond=1e-12)[0] / size
    return solved * min(1.0, STEP / max(float(np.abs(solved).max(initial=0.0)), STEP))
