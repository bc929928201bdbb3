"""What is inside of units: heads matched to heads, and the directions inside of each rotated to those of its match.

In: a problem, a target, present couplings. Out: scores of heads and of directions, and the best element for them. A
pair of heads scores the sum of the singular values of the products of their directions, which is what the best rotation
reaches; so heads are assigned first, and rotated then. Where positions turn planes, only these planes are turned.

Where units have members (heads of queries that share keys), those of a pair are assigned to one another before the pair
is scored: for given rotations that is an assignment, for a given one the rotations are known, so both are found in
turns, from two starts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..layout import Frame, Framed, Members, Permutation
from ..layout.moving import Pair, units_of
from ..layout.planes import of_planes, on_planes
from ..layout.slicing import whole
from ..transport import assignment
from .coupling import Couplings
from .problem import Problem
from .scores import Target

ROUNDS = 10  # of orders of members and rotations; two or three are needed
Slots = tuple[int, ...]


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

    def __add__(self, other: InsideScores) -> InsideScores:
        """The scores of more slots."""
        inside = tuple(one + more for one, more in zip(self.inside, other.inside, strict=True))
        return InsideScores(self.frames, self.plain + other.plain, inside)

    def reached(self) -> Tensor:
        """What each pair of units scores with the best rotations, [target units, model units]."""
        inside = zip(self.inside, self.frames, strict=True)
        return self.plain + sum(_reached(each, frame).to(self.plain) for each, frame in inside)

    def best(self) -> Framed:
        """The element with the largest total score."""
        order = assignment(self.reached())
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


@dataclass(frozen=True, eq=False)
class MemberScores:
    """How well units agree whose members may change places.

    Args:
        members: The members of the space.
        shared: The scores of slots that belong to no member.
        each: Those of pairs of members, `[units, units]` having become `[units, units, members, members]`.
    """

    members: Members
    shared: InsideScores
    each: InsideScores

    def best(self) -> Framed:
        """The element with a large total score: members of each pair of units are assigned first, then units."""
        orders = self._orders()
        found = self._ordered(orders).best()
        order = found.permutation.order
        rows = torch.arange(len(order), device=order.device)
        return replace(found, members=self.members, orders=orders[rows, order])

    def agreement(self, element: Permutation | Framed) -> float:
        """The total score of an element."""
        width, count = len(self.shared.plain), self.members.count
        orders = torch.arange(count, device=self.shared.plain.device).repeat(width, width, 1)
        if isinstance(element, Framed) and element.orders is not None:
            order = element.permutation.order
            orders[torch.arange(width, device=order.device), order] = element.orders
        return self._ordered(orders).agreement(element)

    def _ordered(self, orders: Tensor) -> InsideScores:
        """The scores of units, for a given order [target units, model units, members] of the members of each pair."""

        def taken(scores: Tensor) -> Tensor:
            index = orders.view(*orders.shape, *[1] * (scores.dim() - 3))
            return scores.take_along_dim(index, 3).squeeze(3).sum(2)

        inside = tuple(taken(scores) for scores in self.each.inside)
        return self.shared + InsideScores(self.shared.frames, taken(self.each.plain), inside)

    def _orders(self) -> Tensor:
        """The better of two orders for each pair of units: from rotations by what is shared, and from none at all.

        For the latter a pair of members scores the root of its squares, which no rotation changes, and which is found
        at once; what the best rotation would reach takes a decomposition of each pair.
        """
        alone = self.each.plain + sum(scores.square().sum((-2, -1)).sqrt() for scores in self.each.inside)
        one, other = (self._settled(start) for start in (self._turned(self.shared), alone))
        better = self._ordered(one).reached() >= self._ordered(other).reached()
        return torch.where(better[:, :, None], one, other)

    def _turned(self, scores: InsideScores) -> Tensor:
        """What each pair of members scores if the directions of its units are rotated as some scores ask for."""
        total = self.each.plain.clone()
        for inside, each, frame in zip(scores.inside, self.each.inside, scores.frames, strict=True):
            total += torch.einsum("tmij,tmabij->tmab", _rotations(inside.flatten(0, 1), frame).view_as(inside), each)
        return total

    def _settled(self, start: Tensor) -> Tensor:
        """Orders from scores of members, rotations from these, and again until no order changes."""
        orders = _assigned(start)
        for _ in range(ROUNDS):
            before, orders = orders, _assigned(self._turned(self._ordered(orders)))
            if torch.equal(before, orders):
                break
        return orders


def _assigned(scores: Tensor) -> Tensor:
    """The best order [..., n] for each of some matrices of scores [..., n, n]."""
    found = [assignment(each) for each in scores.flatten(0, -3)]
    return torch.stack(found).view(scores.shape[:-1])


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
) -> InsideScores | MemberScores:
    """Scores of the units of a space and of the directions inside of them, by some tensors of the target."""
    frames, members = problem.layout.frames_of(space), problem.layout.members_of(space)
    like = problem.states[model][problem.terms_of(space)[0]]
    width = problem.widths[space]
    shared = _empty(frames, like, width, width)
    each = _empty(frames, like, width, width, members.count, members.count) if members else shared
    for pair in (pair for pair in problem.blocks_of[space] if pair.target.tensor in tensors):
        where = pair.target.tensor, pair.target.axis
        weight = problem.importance.get(pair.target.tensor, 1.0)
        ours, theirs = _directions(problem, pair, model, target, couplings)
        held = members.slots_on(*where) if members else []
        left = set(range(ours.shape[1]))
        for number, frame in enumerate(frames):
            parts = [slots for slots, _ in frame.slots_on(*where)]
            left -= {slot for slots in parts for slot in slots}
            alone, inside = _apart(parts, held)
            for own in map(torch.tensor, alone):
                shared.inside[number].add_(torch.einsum("tiv,mjv->tmij", ours[:, own], theirs[:, own]), alpha=weight)
            for own in map(torch.tensor, inside):
                products = torch.einsum("taiv,mbjv->tmabij", ours[:, own], theirs[:, own])
                each.inside[number].add_(products, alpha=weight)
        alone, inside = _apart([(slot,) for slot in sorted(left)], held)
        if alone:
            own = torch.tensor(alone)[:, 0]
            shared.plain.addmm_(ours[:, own].flatten(1), theirs[:, own].flatten(1).T, alpha=weight)
        for own in map(torch.tensor, inside):
            each.plain.add_(torch.einsum("taiv,mbiv->tmab", ours[:, own], theirs[:, own]), alpha=weight)
    return MemberScores(members, shared, each) if members else shared


def _empty(frames: tuple[Frame, ...], like: Tensor, *pairs: int) -> InsideScores:
    """Scores of nothing yet, for pairs of units, or of members of units."""
    inside = tuple(like.new_zeros(*pairs, frame.size, frame.size) for frame in frames)
    return InsideScores(frames, like.new_zeros(pairs), inside)


def _apart(parts: Sequence[Slots], held: Sequence[Slots]) -> tuple[list[Slots], list[tuple[Slots, ...]]]:
    """Parts that belong to no member, by the slots that each member holds; and those that do, one of each member."""
    inside = list(zip(*([slots for slots in parts if slots[0] in own] for own in held), strict=True))
    taken = {slots for row in inside for slots in row}
    return [slots for slots in parts if slots not in taken], inside


def _directions(
    problem: Problem, pair: Pair, model: int, target: Target, couplings: Couplings
) -> tuple[Tensor, Tensor]:
    """A tensor of the target and of a model, [units, slots, values], its other axes in the common order."""
    goal = whole(target[pair.target.tensor])
    own = problem.carried(model, pair.target.tensor, couplings, but=pair)
    shape = *pair.target.positions.shape, -1
    return units_of(goal, pair.target).reshape(shape), units_of(own, pair.models[model]).reshape(shape)
