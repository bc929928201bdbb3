"""Sums of squares and products over large tensors: in one pass, and exact enough for an objective."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


def _rows(tensor: Tensor) -> Tensor:
    return tensor.flatten(1) if tensor.dim() > 1 else tensor.reshape(1, -1)


def squared(tensor: Tensor) -> float:
    """|X|^2: row by row, and rows summed in float64; exact enough, and one pass."""
    return float(torch.linalg.vector_norm(_rows(tensor), dim=1).double().square().sum())


def spread_of(weights: Sequence[float], parts: Iterable[Tensor], into: Tensor | None = None) -> float:
    """The weighted squared distances of tensors to their mean, which grows with each of them (West 1979).

    The mean is written `into` a tensor if one is given. That of equal tensors is exactly what they are.
    """
    others = iter(parts)
    seen, mean, total = weights[0], next(others), 0.0
    for left, weight, part in zip(range(len(weights) - 2, -1, -1), weights[1:], others, strict=True):
        seen += weight
        room = None if left else into
        apart = torch.sub(part, mean, out=room)
        total += weight * (seen - weight) / seen * squared(apart)
        if left or into is not None:
            mean = torch.add(mean, apart, alpha=weight / seen, out=room)
    if into is not None and len(weights) == 1:
        into.copy_(mean)
    return total


def inner(one: Tensor, other: Tensor) -> float:
    """The inner product of two tensors of one shape, rows summed in float64."""
    return float(torch.linalg.vecdot(_rows(one), _rows(other)).sum(dtype=torch.float64))
