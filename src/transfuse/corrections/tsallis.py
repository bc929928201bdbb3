"""Entmax: from scores to shares of classes, between a softmax and a projection.

The shares q of scores z are those that maximise z'q plus an entropy of some order (Tsallis's; Peters, Niculae and
Martins, 2019, "Sparse sequence-to-sequence models"). Of order 1 that is a softmax, of order 2 the
point of the simplex that is nearest to the scores. With the order the shares become a straighter function of the
scores: of order 2 they *are* the scores, wherever these are shares already.

In: scores. Out: shares, differentiable in the scores, and the entropy by which they were found.
"""

from __future__ import annotations

import torch
from torch import Tensor

HALVINGS = 26  # of the interval in which the threshold lies, which is 1 wide: finer than single precision


def entmax(scores: Tensor, order: float) -> Tensor:
    """Shares of classes, [..., classes], none below zero and summing to 1.

    Args:
        scores: Of each sample a score for each class, [..., classes].
        order: From 1, a softmax, to 2, the projection on the simplex.

    Example:
        >>> entmax(torch.tensor([0.5, 0.3, 0.2]), 2.0), entmax(torch.tensor([9.0, 0.3, 0.2]), 2.0)
        (tensor([0.5000, 0.3000, 0.2000]), tensor([1., 0., 0.]))
    """
    if order == 1.0:
        return scores.softmax(-1)
    stretched, power = (order - 1) * scores, 1 / (order - 1)
    with torch.no_grad():
        threshold = stretched.amax(-1, keepdim=True) - 1  # where the largest share alone is 1
        for halving in range(1, HALVINGS + 1):
            higher = threshold + 0.5**halving
            enough = (stretched - higher).clamp_min(0).pow(power).sum(-1, keepdim=True) >= 1
            threshold = torch.where(enough, higher, threshold)
        shares = (stretched - threshold).clamp_min(0).pow(power)
        slopes = torch.where(shares > 0, shares.pow(2 - order), 0.0)
    # One step of Newton's method for a sum of 1: the threshold gets its own slopes by it.
    excess = (stretched - threshold).clamp_min(0).pow(power).sum(-1, keepdim=True) - 1
    threshold = threshold + excess / (power * slopes.sum(-1, keepdim=True))
    return (stretched - threshold).clamp_min(0).pow(power)


def negentropy(shares: Tensor, order: float) -> Tensor:
    """What shares have less than the entropy of one class alone, for each sample; the latter is zero.

    Example:
        >>> negentropy(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), 2.0)
        tensor([ 0.0000, -0.2500])
    """
    if order == 1.0:
        return torch.xlogy(shares, shares).sum(-1)
    return (shares.pow(order).sum(-1) - 1) / (order * (order - 1))
