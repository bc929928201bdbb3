"""How alike two layers are, from 0 to 1: by what they compute, by their weights, or by both.

By activations: linear centred kernel alignment (Kornblith et al. 2019, arXiv:1905.00414) on the same inputs, of what
comes out of both layers and, to the same part, of what goes in, without which a layer that does nothing could not be
told from the one before it.

By weights: units of two networks stand in different orders, so that only what does not depend on the order can be
compared. Of a weight these are its singular values, as a matrix from inputs to outputs; of a bias or a gain its values,
sorted. Both are read as a curve from the largest to the smallest, which takes other widths, and compared by the cosine.

In: layers. Out: numbers. Not here: which layers stand beside each other (`alignment`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from .layers import Layer

POINTS = 64  # of a curve: spectra of narrower layers are drawn out, those of wider ones thinned

Likeness = Callable[[Layer, Layer], float]


def by_activations(one: Layer, other: Layer) -> float:
    """How alike two layers are by what goes in and what comes out on the same inputs."""
    entering, leaving = (linear_alignment(own, its) for own, its in zip(one.grams, other.grams, strict=True))
    return (entering + leaving) / 2


def by_weights(one: Layer, other: Layer) -> float:
    """How alike two layers of one kind are by their weights, whatever the order of units: the mean over their tensors.

    Layers without tensors that could differ are alike.
    """
    pairs = [(own, other.weights[name]) for name, own in one.weights.items() if name in other.weights]
    found = [_cosine(curve(own), curve(its)) for own, its in pairs]
    return sum(found) / len(found) if found else 1.0


def by_both(one: Layer, other: Layer) -> float:
    """How alike two layers are by what they compute and by their weights, in equal parts."""
    return (by_activations(one, other) + by_weights(one, other)) / 2


LIKENESSES: dict[str, Likeness] = {"activations": by_activations, "weights": by_weights, "both": by_both}


def linear_alignment(one: Tensor, other: Tensor) -> float:
    """Linear centred kernel alignment of two layers, by their centred products [samples, samples]: from 0 to 1.

    Example:
        >>> gram = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
        >>> linear_alignment(gram, 3 * gram)
        1.0
    """
    size = float(one.norm() * other.norm())
    return float((one * other).sum()) / size if size else 0.0


def curve(tensor: Tensor) -> Tensor:
    """What of a tensor does not depend on the order of units, from the largest value to the smallest: [points].

    Of more than one axis these are singular values, else the values themselves.

    Example:
        >>> values = curve(torch.diag(torch.tensor([1.0, 3.0, 2.0])))
        >>> [round(float(each), 4) for each in values[[0, -1]]]
        [3.0, 1.0]
    """
    values = _singular_values(tensor.flatten(1)) if tensor.dim() > 1 else tensor.double()
    ordered = values.sort(descending=True).values
    return F.interpolate(ordered[None, None], POINTS, mode="linear", align_corners=True).flatten()


def _singular_values(matrix: Tensor) -> Tensor:
    """Singular values by the products of the shorter side, which a vocabulary's embedding has few of."""
    matrix = matrix.double()
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    squares: Tensor = torch.linalg.eigvalsh(gram)
    return squares.clamp_min(0).sqrt()


def _cosine(one: Tensor, other: Tensor) -> float:
    """The cosine of two curves, 0 for those that point away from each other; two that are wholly 0 are alike."""
    sizes = one.norm(), other.norm()
    if not any(map(float, sizes)):
        return 1.0
    return max(0.0, float(one @ other / (sizes[0] * sizes[1]).clamp_min(1e-300)))
