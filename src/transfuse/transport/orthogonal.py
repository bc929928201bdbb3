"""Orthogonal transport: the rotation that agrees best with a matrix of scores (Procrustes).

In: scores [n, n], larger is better. Out: an orthogonal matrix. A rotation may have to keep a direction in its place, as
that of the mean, which a layer norm takes away: then it is sought among the rotations of what is orthogonal to it.
"""

from __future__ import annotations

import torch
from torch import Tensor


def procrustes(scores: Tensor, *, fixing: Tensor | None = None) -> Tensor:
    """The orthogonal matrix Q [n, n] with the largest sum of `Q * scores`: their polar factor (Schoenemann 1966).

    Args:
        scores: Scores [n, n], [new units, old units].
        fixing: A vector v [n] other than zero that stays where it is, `Q v = v`; default: none has to.

    Example:
        >>> turned = procrustes(torch.tensor([[0.0, 3.0], [-1.0, 0.0]]))
        >>> torch.allclose(turned, torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
        True
    """
    exact = scores.double()
    if fixing is None:
        return _polar(exact).to(scores)
    normal = _to_first_axis(fixing.to(exact))
    turned = _reflected(exact, normal)
    result = torch.zeros_like(turned)
    result[0, 0] = 1.0
    result[1:, 1:] = _polar(turned[1:, 1:])
    return _reflected(result, normal).to(scores)


def _polar(matrix: Tensor) -> Tensor:
    """The orthogonal matrix that is nearest to a square one."""
    if not len(matrix):
        return matrix
    left, _, right = torch.linalg.svd(matrix)
    nearest: Tensor = left @ right
    return nearest


def _to_first_axis(direction: Tensor) -> Tensor:
    """The normal of the reflection that takes a direction to the first axis (Householder 1958), or to its negative."""
    normal = direction / direction.norm()
    normal[0] += 1.0 if normal[0] >= 0 else -1.0  # the sign by which nothing cancels
    unit: Tensor = normal / normal.norm()
    return unit


def _reflected(matrix: Tensor, normal: Tensor) -> Tensor:
    """A matrix between two reflections: all directions but the first one are orthogonal to what was reflected to it."""
    rows: Tensor = matrix - 2 * torch.outer(normal, normal @ matrix)
    return rows - 2 * torch.outer(rows @ normal, normal)
