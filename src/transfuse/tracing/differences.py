"""Differences of outputs, each measured against how far the output reacts to the weights.

In: outputs before and after, and with disturbed weights. Out: by how much they changed. Neither an offset nor a large
neighbour counts: an output is judged by those at its own place along its axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_ROUNDED = 1e-6  # absolute: outputs that are disturbed by less are zero but for rounding
_USUAL = 1e-2  # an output that is disturbed by less than this part of what is usual beside it is so by chance
_ROUNDINGS = 1000  # of what samples share: where it is left out, these must be allowed, and samples differ by more


@dataclass(frozen=True, order=True)
class Change:
    """By how many times outputs change more than they may, and by how much in relation to their reach."""

    excess: float = 0.0
    relative: float = 0.0


def difference(before: Tensor, after: Tensor, limits: Limits) -> Change:
    """The largest difference of two outputs, beside what it may be."""
    if before.shape != after.shape:
        return Change(float("inf"), float("inf"))
    if before.numel() == 0:
        return Change()
    gap = gap_of(before, after)
    if not is_number(before):
        return Change(float("inf"), 1.0) if bool(gap.any()) else Change()
    return Change(float((gap / limits.allowed).max()), float((gap / limits.reach).max()))


@dataclass(frozen=True, eq=False)
class Limits:
    """For each element of an output, how far it reacts to weights, and by how much moving units may change it."""

    reach: Tensor
    allowed: Tensor
    noise: float  # what a small change of the weights does, relative to the reach, at its largest

    @staticmethod
    def of(own: Tensor, disturbed: Tensor, nudged: Tensor, scale: Scale) -> Limits:
        """Limits of an output, from what it is with disturbed weights and with those changed by a little more.

        What changes all samples (along the first axis) alike, such as a large bias, is left out where samples differ.
        Where the weights do nothing to an output, its own rounding counts: the reach is never zero.
        """
        if not is_number(own):
            reach = torch.ones(own.shape, dtype=torch.float64, device=own.device)
            noise = float(gap_of(disturbed, nudged).sum() > 0)
            return Limits(reach, scale.allowed(0 * reach, reach), noise)
        size = by_place(own.abs().nan_to_num(nan=0.0, posinf=0.0))
        if own.shape != disturbed.shape or own.shape != nudged.shape:
            reach = size.clamp(min=_ROUNDED)
            return Limits(reach, scale.allowed(0 * reach, reach), 0.0)
        eps = torch.finfo(own.dtype).eps
        (far, own_far), (near, own_near) = _reactions(own, disturbed), _reactions(disturbed, nudged)
        apart = own_far > _ROUNDINGS * eps * far
        reach = torch.where(apart, own_far, far) / scale.disturbance
        reach = torch.maximum(reach, eps**0.5 * size).clamp(min=max(_ROUNDED, _USUAL * float(reach.median())))
        # What samples share is left out, but it is rounded all the same: the share of the nudge that rounding is.
        rounding = torch.where(apart, min(_ROUNDINGS * eps / scale.nudge, scale.amplified) * near, 0)
        near = torch.where(apart, own_near, near)
        allowed = torch.maximum(scale.allowed(near, reach), rounding)
        return Limits(reach, allowed, float(near.max() / reach.max()))


@dataclass(frozen=True)
class Scale:
    """Relative changes of weights, a large and a small one, and how many times the small one's effect is allowed."""

    disturbance: float
    nudge: float
    amplified: float

    def allowed(self, noise: Tensor, reach: Tensor) -> Tensor:
        """By how much outputs may change."""
        return self.amplified * torch.maximum(noise, self.nudge * reach)


def _reactions(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """By how much each element (and its neighbours) changes, and by how much in another way than other samples."""
    gap = gap_of(before, after).nan_to_num(posinf=0.0)
    if before.dim() < 2 or len(before) < 2:
        return by_place(gap), by_place(gap)
    change = torch.where(gap > 0, after - before, 0)
    return by_place(gap), by_place((change - change.mean(0, keepdim=True)).abs())


def by_place(values: Tensor) -> Tensor:
    """The largest of all elements at the same place along an axis, for the axis along which that is least."""
    if values.dim() < 2 or not values.numel():
        return values
    axes = range(values.dim())
    least = values.amax(tuple(axes[1:]), keepdim=True).expand(values.shape)
    for axis in axes[1:]:
        least = torch.minimum(least, values.amax([other for other in axes if other != axis], keepdim=True))
    return least


def gap_of(before: Tensor, after: Tensor) -> Tensor:
    """The difference of each element; none where both are infinite or not a number, infinite where one is."""
    if before.shape != after.shape:
        return torch.full((1,), float("inf"), device=before.device)
    a, b = before.detach(), after.detach()
    if not is_number(a):
        return (a != b).to(torch.float64)
    same = (a == b) | (a.isnan() & b.isnan())
    return torch.where(same, 0, (a - b).abs()).nan_to_num(nan=float("inf"))


def is_number(tensor: Tensor) -> bool:
    """Whether a tensor holds floating-point or complex numbers, at least one; sparse ones are left as they are."""
    return tensor.layout is torch.strided and tensor.numel() > 0 and (tensor.is_floating_point() or tensor.is_complex())
