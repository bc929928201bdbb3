"""Framed elements: units in another order, each with the directions inside of it mixed, and its members moved.

What a head of attention allows: heads change places, and inside of each one a matrix multiplies queries, its inverse
transposed keys; another one values, and its inverse transposed what reads them. See `records.Frame`. Where heads of
queries share keys and values, the unit is the group, and these heads change places inside of it (`records.Members`);
one matrix multiplies all of them, so it does not matter which is done first.

In: an order, matrices for each frame, orders of members. Out: units that are carried. Not here: which frames there are
(the tracer finds them), and which matrices are best (`barycenter`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..transport import procrustes
from .elements import Permutation, Rotation
from .planes import of_planes, on_planes
from .records import Block, Frame, Members

ROUNDING = 1e-4  # by which entries of a matrix may differ from those of one that turns planes, in float32
MOST_STRETCHED = 0.5  # logarithm of what a random matrix multiplies a direction by: seen, and far from singular


@dataclass(frozen=True, eq=False)
class Framed:
    """A permutation of units whose insides are mixed.

    Args:
        permutation: The order of the units, with factors.
        frames: All frames of the space.
        matrices: For each frame, [units, directions, directions]: what the one side of the new units is multiplied by.
        duals: The same for the other side: inverses, transposed. Default: the matrices are rotations, and their own.
        members: The members of the units, if these change places.
        orders: Integers [units, members]: member `i` of the new unit `u` is member `orders[u, i]` of the old unit that
            takes its place. Default: members stay where they are.
    """

    by_index: ClassVar[bool] = False
    reversible: ClassVar[bool] = True
    rescales: ClassVar[bool] = True

    permutation: Permutation
    frames: tuple[Frame, ...]
    matrices: tuple[Tensor, ...]
    duals: tuple[Tensor, ...] = field(default=())
    members: Members | None = None
    orders: Tensor | None = None

    @staticmethod
    def of(permutation: Permutation, frames: Sequence[Frame]) -> Framed:
        """A permutation as such an element: nothing is mixed."""
        like = permutation.factor
        eyes = (torch.eye(frame.size, dtype=like.dtype, device=like.device) for frame in frames)
        whole = tuple(eye.expand(permutation.width, *eye.shape) for eye in eyes)
        return Framed(permutation, tuple(frames), whole)

    @staticmethod
    def random(
        permutation: Permutation, frames: Sequence[Frame], rng: np.random.Generator, members: Members | None = None
    ) -> Framed:
        """Random invertible matrices, none of them near to one that is not, and members in a random order."""
        matrices = tuple(
            torch.stack([_random_matrix(frame, rng) for _ in range(permutation.width)]) for frame in frames
        )
        duals = tuple(torch.linalg.inv(each).mT for each in matrices)
        orders = None if members is None else _random_orders(permutation.width, members.count, rng)
        return Framed(permutation, tuple(frames), matrices, duals, members, orders)

    @property
    def width(self) -> int:
        """How many units there are."""
        return self.permutation.width

    @property
    def keeps_norms(self) -> bool:
        """Whether no sum of squares changes: what is inside of units is rotated."""
        return not self.duals and self.permutation.keeps_norms

    @cached_property
    def is_identity(self) -> bool:
        """Whether nothing has to be moved."""
        turned = (each - torch.eye(each.shape[1], dtype=each.dtype, device=each.device) for each in self.matrices)
        still = self.orders is None or bool((self.orders == torch.arange(self.orders.shape[1]).to(self.orders)).all())
        return still and self.permutation.is_identity and not any(bool(each.any()) for each in turned)

    @property
    def signed(self) -> Tensor:
        """The order as a matrix [new units, old units]."""
        return self.permutation.signed

    def inverse(self) -> Framed:
        """The element that undoes this one."""
        back = self.permutation.order.argsort()
        undone = tuple(torch.linalg.inv(each[back]) for each in self.matrices)
        duals = tuple(each[back].mT for each in self.matrices) if self.duals else ()
        orders = None if self.orders is None else self.orders.argsort(1)[back]
        return Framed(self.permutation.inverse(), self.frames, undone, duals, self.members, orders)

    def relative_to(self, first: Reversible) -> Framed:
        """What this element becomes when the new units are renumbered so that another one becomes the identity."""
        assert not isinstance(first, Rotation), "units that have directions inside do not rotate"
        plain = first.permutation if isinstance(first, Framed) else first
        permutation = self.permutation.relative_to(plain)
        assert isinstance(permutation, Permutation), "permutations give permutations"
        back = plain.order.argsort()
        own = [each[back] for each in self.matrices]
        members, orders = self.members, None if self.orders is None else self.orders[back]
        if isinstance(first, Framed):
            own = [each[back].to(mine).mT @ mine for each, mine in zip(first.matrices, own, strict=True)]
            if first.orders is not None:
                undone = first.orders.argsort(1)[back]
                members, orders = first.members, undone if orders is None else orders.gather(1, undone)
        return Framed(permutation, self.frames, tuple(own), members=members, orders=orders)

    def of_shuffled(self, order: NDArray[np.int64]) -> Framed:
        """The element for a network in which the place of unit `u` is taken by unit `order[u]`."""
        return replace(self, permutation=self.permutation.of_shuffled(order))

    def turned(self, tensor: Tensor, block: Block) -> Tensor:
        """A tensor whose units are in their order, with what is inside of them moved along the axis of a block."""
        front = tensor.movedim(block.axis, 0).clone()
        held = self.members.slots_on(block.tensor, block.axis) if self.members else []
        if held and self.orders is not None:
            places = torch.from_numpy(block.positions[:, np.array(held)])  # [units, members, slots]
            front[places] = front[places.gather(1, self.orders.cpu()[:, :, None].expand_as(places))]
        for number, frame in enumerate(self.frames):
            for slots, first in frame.slots_on(block.tensor, block.axis):
                matrix = self.matrices[number] if first or not self.duals else self.duals[number]
                places = torch.from_numpy(block.positions[:, list(slots)]).to(tensor.device)
                front[places] = torch.einsum("uij,uj...->ui...", matrix.to(front), front[places])
        return front.movedim(0, block.axis)

    def objection(self, frames: Sequence[Frame], members: Members | None = None) -> str:
        """Why it does not belong to the frames and members of a space, in words that end a sentence; empty if so."""
        if self.frames != tuple(frames):
            return "its frames are not those of the layout"
        if self.orders is not None and self.members != members:
            return "its members are not those of the layout"
        if self.orders is not None and self.members is not None:
            places = torch.arange(self.members.count).expand(self.width, -1)
            if self.orders.shape != places.shape or not torch.equal(self.orders.cpu().sort(1).values, places):
                return f"orders must have a permutation of {self.members.count} members for each of {self.width} units"
        shapes = [tuple(each.shape) for each in self.matrices]
        wanted = [(self.width, frame.size, frame.size) for frame in frames]
        if shapes != wanted or not all(bool(each.isfinite().all()) for each in self.matrices):
            return f"matrices have the shapes {shapes}; expected finite numbers {wanted}"
        if not all(map(_turns_planes, self.matrices, frames)):
            return "a matrix does more than to turn and scale planes, and positions turn these"
        return ""


def _turns_planes(matrices: Tensor, frame: Frame) -> bool:
    """Whether matrices do nothing but turn and scale the planes of a frame, if it has some."""
    return not frame.planes or bool(
        torch.isclose(of_planes(on_planes(matrices, frame.planes), frame.planes), matrices, atol=ROUNDING).all()
    )


Reversible: TypeAlias = Permutation | Rotation | Framed  # all that can be done to units and undone


def _random_orders(width: int, count: int, rng: np.random.Generator) -> Tensor:
    """Random permutations [width, count], the first of which moves something."""
    orders = np.stack([rng.permutation(count) for _ in range(width)])
    if np.array_equal(orders[0], np.arange(count)):
        orders[0] = np.roll(orders[0], 1)
    return torch.from_numpy(orders)


def _random_matrix(frame: Frame, rng: np.random.Generator) -> Tensor:
    size = frame.size
    if frame.planes:
        lengths, angles = rng.uniform(-MOST_STRETCHED, MOST_STRETCHED, size // 2), rng.uniform(-np.pi, np.pi, size // 2)
        return of_planes(torch.from_numpy(np.exp(lengths + 1j * angles)), frame.planes)
    one, other = (procrustes(torch.from_numpy(rng.standard_normal((size, size)))) for _ in range(2))
    return one * torch.from_numpy(np.exp(rng.uniform(-MOST_STRETCHED, MOST_STRETCHED, size))) @ other
