"""Proportions of several networks, as users give them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from ..arguments import WEIGHTS, told
from ..errors import InputError


def shares_of(weights: Sequence[float] | None, count: int) -> list[float]:
    """Weights of networks, divided by their sum; equal ones if none are given.

    Raises:
        InputError: there is not one weight for each network, or they are not non-negative numbers, or all are zero.

    Example:
        >>> shares_of([3, 1], 2), shares_of(None, 2)
        ([0.75, 0.25], [0.5, 0.5])
    """
    if weights is not None and not WEIGHTS.holds(weights):
        raise InputError(f"weights is {told(weights)}; expected {WEIGHTS.expected}")
    given = [1.0] * count if weights is None else [float(weight) for weight in weights]
    if len(given) != count:
        raise InputError(f"{len(given)} weights for {count} models; give one for each")
    if not all(isfinite(weight) and weight >= 0 for weight in given) or (count and sum(given) == 0):
        raise InputError(f"weights are {given}; expected non-negative numbers, not all zero")
    return [weight / sum(given) for weight in given]
