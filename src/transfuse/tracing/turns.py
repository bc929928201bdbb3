"""Turns: for every axis of a value, which units stand along it, so that it rotates when their space does.

In: nothing but records. Out: records, and what moving elements does to them. Not here: what operations do (`turning`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from .labels import Labels, compress, support


@dataclass(frozen=True)
class Norm:
    """What normed units are multiplied by and what is added to them then: names of tensors, the latter may be none."""

    gain: str
    bias: str = ""


@dataclass(frozen=True)
class Term:
    """A tensor of the state that units are linear in, along the axis on which it has them.

    Args:
        tensor: Name of the tensor.
        axis: The axis.
        gain: The vector by which it has been multiplied on the way; empty if by none.
    """

    tensor: str
    axis: int
    gain: str = ""


COMPUTED = Term("", 0)  # stands for what is no tensor of the state


@dataclass(frozen=True)
class Turn:
    """The units of a space along an axis of a value.

    Args:
        space: Name of the space.
        norm: The gain (and bias) that they were given, and that what reads them must take over.
        plain: Whether they are as the norm gave them, or a mean of such, so that its bias arrives as it is.
        squared: Whether they are squares, which may only be summed.
        terms: All whose sum they are, so that a gain can go into these if they are tensors.
    """

    space: str
    norm: Norm | None = None
    plain: bool = True
    squared: bool = False
    terms: frozenset[Term] = frozenset([COMPUTED])

    @property
    def scalable(self) -> bool:
        """Whether they are a sum of tensors that a gain can go into."""
        return all(term.tensor and not term.gain for term in self.terms)


def all_terms(turns: Sequence[Turn]) -> frozenset[Term]:
    """All whose sum some units are together."""
    return frozenset().union(*(turn.terms for turn in turns))


@dataclass(frozen=True, eq=False)
class Turned(Labels):
    """A value of the network, as rotations see it.

    Args:
        turns: By axis, the units that stand along it.
        tensor: The tensor of the state that the value is, or is a part of; empty if it is computed.
        read: The weight of which the value is the product with normed units, as it is; empty if it is none.
        even: Axes along which one number was repeated.
    """

    turns: dict[int, Turn] = field(default_factory=dict)
    tensor: str = ""
    read: str = ""
    even: frozenset[int] = frozenset()

    def single(self, axis: int) -> bool:
        """Whether there is one number for all places along an axis."""
        return self.shape[axis] == 1 or axis in self.even


@dataclass(frozen=True)
class Use:
    """What a tensor of the state is used for.

    Args:
        kind: To read units after a norm, to write units, as a bias of what a weight reads, or else.
        of: The gain of that norm, the space of these units, the weight.
    """

    kind: str
    of: str = ""


def is_vector(value: Turned) -> bool:
    """Whether a value is a tensor of the state that has one number for each unit and nothing else."""
    return bool(value.tensor) and len(value.turns) == 1 and len(value.shape) - value.shape.count(1) == 1


def of_rank(value: Turned, rank: int) -> Turned:
    """A value with leading axes of length 1, up to a rank."""
    more = rank - len(value.shape)
    turns = {axis + more: turn for axis, turn in value.turns.items()}
    even = frozenset(axis + more for axis in value.even)
    return replace(value, shape=(1,) * more + value.shape, turns=turns, even=even) if more else value


def repeated(before: Sequence[int], after: Sequence[int]) -> frozenset[int]:
    """The axes of a value that was expanded along which one number is repeated."""
    lengths = [*[1] * (len(after) - len(before)), *before]
    return frozenset(axis for axis, length in enumerate(lengths) if length == 1)


def moving_layers(values: Sequence[Turned]) -> list[list[int | None]]:
    """What moves together: one axis of each value at most, those of one space in several values at once."""
    if len(values) == 1:
        return [[axis] for axis in values[0].turns]
    spaces = dict.fromkeys(turn.space for value in values for turn in value.turns.values())
    return [
        [next((axis for axis, turn in value.turns.items() if turn.space == space), None) for value in values]
        for space in spaces
    ]


def numbered(value: Turned, axis: int | None) -> Tensor:
    """The positions along an axis, from 1, in the shape of a value; zeros if there is no such axis."""
    if axis is None:
        return torch.zeros((), dtype=torch.int64).expand(value.shape)
    view = [-1 if axis == other else 1 for other in range(len(value.shape))]
    return torch.arange(1, value.shape[axis] + 1).view(view).expand(value.shape)


def arrived(moved: Tensor, length: int) -> int | None:
    """The axis along which all positions, numbered from 1, stand in order; -1 if none arrived, None if some did."""
    short = compress(moved)
    axes = support(short)
    if not axes and moved.numel() and int(short.reshape(-1)[0]) == 0:
        return -1
    if len(axes) != 1:
        return None
    flat = short.reshape(-1)
    return next(iter(axes)) if torch.equal(flat, torch.arange(1, length + 1)) else None


def listed(outputs: Any) -> list[Tensor]:
    """The results of an operation as a list, also where it is one tensor."""
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)
