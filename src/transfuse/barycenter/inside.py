"""What is inside of units: heads matched to heads, and the directions inside of each rotated to those of its match.

In: a problem, a target, present couplings. Out: scores of heads and of directions, and the best element for them. A
pair of heads scores the sum of the singular values of the products of their directions, which is what the best rotation
reaches; so heads are assigned first, and rotated then. Where positions turn planes, only these planes are turned.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from ..layout import Frame, Framed, Permutation
from ..layout.moving import Pair, units_of
from ..layout.planes import of_planes, on_planes
from ..layout.slicing import whole
from ..transport import assignment
from .coupling import Couplings
from .problem import Problem
from .scores import Target


@dataclass(frozen=True, eq=False)
class InsideScores:
    """How well units of a model agree with those of a target, and directions inside of them.

    Args:
        frames: The frames of the space.
        plain: Of slots in no frame, [target units, model units].
        inside: For each frame, [target units, model units, directions of the target, directions of the model].
    """

    frames: tuple[Frame, ...]
    plain: Tensor
    inside: tuple[Tensor, ...]

    def best(self) -> Framed:
        """The element with the largest total score."""
        inside = zip(self.inside, self.frames, strict=True)
        totals = self.plain + sum(_reached(each, frame).to(self.plain) for each, frame in inside)
        order = assignment(totals)
        rows = torch.arange(len(order), device=order.device)
        inside = zip(self.inside, self.frames, strict=True)
        turned = tuple(_rotations(each[rows, order], frame) for each, frame in inside)
        return Framed(Permutation(order, torch.ones_like(self.plain[0])), self.frames, turned)

    def agreement(self, element: Permutation | Framed) -> float:
        """The total score of an element."""
        framed = element if isinstance(element, Framed) else Framed.of(element, self.frames)
        order = framed.permutation.order
        rows = torch.arange(len(order), device=order.device)
        own = float(self.plain[rows, order].sum(dtype=torch.float64))
        return own + sum(
            float((matrix.to(scores) * scores[rows, order]).sum(dtype=torch.float64))
            for matrix, scores in zip(framed.matrices, self.inside, strict=True)
        )


def _reached(scores: Tensor, frame: Frame) -> Tensor:
    """What the best rotations reach with scores [..., n, n]: the sum of singular values; of planes, of lengths."""
    if frame.planes:
        return 2 * on_planes(scores, frame.planes).abs().sum(-1)
    reached: Tensor = torch.linalg.svdvals(scores).sum(-1)
    return reached


def _rotations(scores: Tensor, frame: Frame) -> Tensor:
    """The rotations [units, n, n] that agree best with scores [units, n, n]; none where there are no scores."""
    if frame.planes:
        numbers = on_planes(scores.double(), frame.planes)
        turned = torch.where(numbers == 0, torch.ones_like(numbers), torch.exp(1j * numbers.angle()))
        return of_planes(turned, frame.planes).to(scores)
    left, _, right = torch.linalg.svd(scores.double())
    eye = torch.eye(scores.shape[-1], dtype=torch.float64, device=scores.device)
    empty = (scores == 0).flatten(1).all(1)
    return torch.where(empty[:, None, None], eye, left @ right).to(scores)


def inside_scores(
    problem: Problem, space: str, model: int, target: Target, couplings: Couplings, tensors: Collection[str]
) -> InsideScores:
    """Scores of the units of a space and of the directions inside of them, by some tensors of the target."""
    frames = problem.layout.frames_of(space)
    pairs = [pair for pair in problem.blocks_of[space] if pair.target.tensor in tensors]
    like = problem.states[model][problem.terms_of(space)[0]]
    width = problem.widths[space]
    plain = like.new_zeros(width, width)
    inside = tuple(like.new_zeros(width, width, frame.size, frame.size) for frame in frames)
    for pair in pairs:
        weight = problem.importance.get(pair.target.tensor, 1.0)
        ours, theirs = _directions(problem, pair, model, target, couplings)
        left = set(range(ours.shape[1]))
        for frame, scores in zip(frames, inside, strict=True):
            for slots, _ in frame.slots_on(pair.target.tensor, pair.target.axis):
                chosen = list(slots)
                scores.add_(torch.einsum("tiv,mjv->tmij", ours[:, chosen], theirs[:, chosen]), alpha=weight)
                left -= set(slots)
        if left:
            others = sorted(left)
            plain.addmm_(ours[:, others].flatten(1), theirs[:, others].flatten(1).T, alpha=weight)
    return InsideScores(frames, plain, inside)


def _directions(
    problem: Problem, pair: Pair, model: int, target: Target, couplings: Couplings
) -> tuple[Tensor, Tensor]:
    """A tensor of the target and of a model, [units, slots, values], its other axes in the common order."""
    goal = whole(target[pair.target.tensor])
    own = problem.carried(model, pair.target.tensor, couplings, but=pair)
    shape = *pair.target.positions.shape, -1
    return units_of(goal, pair.target).reshape(shape), units_of(own, pair.models[model]).reshape(shape)
