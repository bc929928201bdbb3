"""Elimination: of many units those are kept from which what reads the others can still be made.

The optimal brain surgeon (Hassibi and Stork, 1993) on Gram matrices. Units have the Gram matrix G, readers the weights
W0 [units, readers]. Of the units that are left, weights W are those that minimise

    |F (W0 - W)|^2 + ridge * sum_j G_jj |W_j - W0_j|^2,    G = F'F,

and the unit whose loss costs least goes next. Its weights are handed out to those that stay. Nothing but G and W0 is
needed, and both are changed by updates of low rank: no problem is solved twice.

A unit may have several features, which go together: a head of attention has one for each of its dimensions. Features of
a unit stand side by side. With P the inverse of G and its ridge, the loss of unit j costs tr(W_j' P_jj^-1 W_j).
"""

from __future__ import annotations

import torch
from torch import Tensor

AT_ONCE = 128  # one unit in so many may go in one step; up to 256 units go one by one
RIDGE = 0.01  # in squares of a unit: chosen by distance to the parents' outputs on held-out inputs


def eliminated(
    gram: Tensor, weights: Tensor, keep: int, *, size: int = 1, ridge: float = RIDGE, at_once: int = AT_ONCE
) -> Tensor:
    """The units that are kept, in ascending order.

    Args:
        gram: Products of features, summed over samples [features, features].
        weights: What is read of each feature [features, readers].
        keep: How many units are kept.
        size: How many features a unit has.
        ridge: How firmly weights of kept units stay as they are.
        at_once: One unit in so many may go in one step.
    """
    inverse = torch.linalg.inv(_ridged(gram, ridge))
    left = squared(weights.double()).clone()
    stays = torch.ones(len(gram) // size, dtype=torch.bool, device=gram.device)
    while (number := int(stays.sum())) > keep:
        costs = _costs(inverse, left, size).masked_fill(~stays, torch.inf)
        lost = costs.argsort(stable=True)[: min(number - keep, max(1, number // at_once))]
        gone = features_of(lost, size)
        handed = torch.linalg.solve(inverse[gone][:, gone], inverse[gone])
        left.addmm_(handed.T, left[gone], alpha=-1)
        inverse.addmm_(handed.T, inverse[gone], alpha=-1)
        # Those that are gone stay where they are, unread and apart: to cut them out takes longer than the rest.
        left[gone], inverse[gone], inverse[:, gone] = 0.0, 0.0, 0.0
        inverse[gone, gone] = 1.0
        stays[lost] = False
    return stays.nonzero()[:, 0]


def features_of(units: Tensor, size: int) -> Tensor:
    """The features of some units, each of which has `size` of them.

    Example:
        >>> features_of(torch.tensor([0, 2]), 3).tolist()
        [0, 1, 2, 6, 7, 8]
    """
    return (size * units[:, None] + torch.arange(size, device=units.device)).flatten()


def _costs(inverse: Tensor, left: Tensor, size: int) -> Tensor:
    """What the loss of each unit costs."""
    if size == 1:
        return left.square().sum(1) / inverse.diagonal()
    each = torch.arange(len(left) // size, device=left.device)
    own, read = inverse.unflatten(1, (-1, size)).unflatten(0, (-1, size))[each, :, each], left.unflatten(0, (-1, size))
    costs: Tensor = (read * torch.linalg.solve(own, read)).sum((1, 2))
    return costs


def handed_out(gram: Tensor, kept: Tensor, *, ridge: float) -> Tensor:
    """What each feature is in terms of those that are kept: [kept, all features]; a kept one is itself."""
    own = _ridged(gram, ridge)[kept][:, kept]
    shares: Tensor = torch.linalg.solve(own, gram.double()[kept])
    shares[:, kept] = torch.eye(len(kept), dtype=shares.dtype, device=shares.device)
    return shares


def _ridged(gram: Tensor, ridge: float) -> Tensor:
    """A Gram matrix that can be inverted: with its ridge, and a little more for units that never vary."""
    gram = gram.double()
    diagonal = gram.diagonal()
    return gram + torch.diag(ridge * diagonal + (1e-6 * diagonal.mean()).clamp_min(1e-30))


def squared(weights: Tensor) -> Tensor:
    """Weights with the same products of rows, and no more columns than rows."""
    if weights.shape[1] <= weights.shape[0]:
        return weights
    triangle: Tensor = torch.linalg.qr(weights.T, mode="r").R
    square: Tensor = triangle.T
    return square
