"""Planes: pairs of directions inside of units that positions turn, and the matrices that commute with these turns.

With rotary embeddings the queries and keys of a head are turned, plane by plane, by angles that depend on the place.
What commutes with that are matrices that turn and scale every plane. Such a matrix is one complex number for each,
z = r exp(i angle), here written as its real and imaginary part.

In: matrices, or complex numbers; how far apart the two directions of a plane are (`records.Frame.planes`). Out: the
other.
"""

from __future__ import annotations

import torch
from torch import Tensor


def of_planes(numbers: Tensor, apart: int) -> Tensor:
    """The matrices [..., 2n, 2n] that multiply each plane by a complex number [..., n].

    Example:
        >>> of_planes(torch.tensor([1j]), 1).tolist()
        [[0.0, -1.0], [1.0, 0.0]]
    """
    size = 2 * numbers.shape[-1]
    first, second = _pairs(size, apart)
    matrices = numbers.real.new_zeros(*numbers.shape[:-1], size, size)
    matrices[..., first, first] = matrices[..., second, second] = numbers.real
    matrices[..., second, first] = numbers.imag
    matrices[..., first, second] = -numbers.imag
    return matrices


def on_planes(matrices: Tensor, apart: int) -> Tensor:
    """Complex numbers [..., n], one for each plane: the nearest to matrices [..., 2n, 2n], by the sum of squares.

    Example:
        >>> on_planes(torch.tensor([[0.0, -1.0], [1.0, 0.0]]), 1).tolist()
        [1j]
    """
    first, second = _pairs(matrices.shape[-1], apart)
    real = matrices[..., first, first] + matrices[..., second, second]
    imaginary = matrices[..., second, first] - matrices[..., first, second]
    return torch.complex(real, imaginary) / 2


def _pairs(size: int, apart: int) -> tuple[Tensor, Tensor]:
    """The first and the second direction of each plane."""
    numbers = torch.arange(size).reshape(-1, 2, apart)
    return numbers[:, 0].reshape(-1), numbers[:, 1].reshape(-1)
