"""The records that a layout is made of: spaces, and axes as sequences of segments.

A layout is a recipe in the manner of einops. Each axis of each tensor is a sequence of segments: positions that stay
where they are (`Fixed`) and runs of units of a space (`Run`). Nothing in the recipe depends on how wide the spaces
are, so one layout serves networks of every width. For given widths it becomes blocks: integer matrices
`positions[unit, slot]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from ..errors import LayoutError
from ..renamed import telling_new_names
from .symmetry import PERMUTATIONS, Symmetry

Side = Literal["produces", "consumes"]
Reduced = Literal["summed", "averaged"]
SIDES: tuple[Side, ...] = get_args(Side)
REDUCED: tuple[Reduced, ...] = get_args(Reduced)


class HasShape(Protocol):
    """Anything with a shape: a tensor, an array, a lazily read slice of a file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        ...


@telling_new_names
@dataclass(frozen=True)
class Space:
    """The units of one layer that move together.

    Args:
        name: Canonical name, such as `conv1.out`.
        units: How many units the traced network has; other networks of the architecture may have another width.
        symmetry: What may be done to the units without changing what the network computes.
    """

    name: str
    units: int
    symmetry: Symmetry = PERMUTATIONS

    def __post_init__(self) -> None:
        """Refuse a symmetry of another kind, such as a bare True.

        Raises:
            LayoutError: it is none.
        """
        if not isinstance(self.symmetry, Symmetry):
            raise LayoutError(
                f"space {self.name}: symmetry is {self.symmetry!r}; expected Symmetry(signs=, scales=, rotations=)"
            )

    @property
    def signs(self) -> bool:
        """Whether any unit may be negated."""
        return self.symmetry.signs

    @property
    def scales(self) -> bool:
        """Whether any unit may be multiplied by a positive number."""
        return self.symmetry.scales

    @property
    def rotations(self) -> bool:
        """Whether units may be mixed by an orthogonal matrix, once the norms over them are folded."""
        return self.symmetry.rotations


@dataclass(frozen=True)
class Slot:
    """One place of a unit inside a run; `even` places ignore the sign and scale of the unit."""

    space: str
    even: bool = False


@dataclass(frozen=True)
class Run:
    """A cell of slots, repeated once for every unit in order (or for the `units` listed)."""

    cell: tuple[Slot, ...]
    units: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Fixed:
    """Positions that do not move."""

    count: int


@dataclass(frozen=True)
class Axis:
    """One axis of one tensor: its segments in order, and the side on which the tensor meets the units."""

    segments: tuple[Run | Fixed, ...]
    side: Side = "produces"

    @cached_property
    def spaces(self) -> tuple[str, ...]:
        """Names of the spaces on this axis, in order of appearance."""
        slots = (slot for run in self.segments if isinstance(run, Run) for slot in run.cell)
        return tuple(dict.fromkeys(slot.space for slot in slots))

    @cached_property
    def alone(self) -> str:
        """The space whose units, one slot each and in their order, are all that the axis has; empty if none is."""
        first = self.segments[0] if len(self.segments) == 1 else None
        whole = isinstance(first, Run) and len(first.cell) == 1 and first.units is None
        return self.spaces[0] if whole else ""


@dataclass(frozen=True)
class Reader:
    """A weight that reads the units after a norm, and the bias that is added to what it gives.

    Args:
        weight: Name of the tensor, which consumes the units along one axis.
        bias: Name of its bias, along the other axis; empty where it has none, or where the norm's bias does not reach
            it as it is (behind a sum over tokens, a factor, a convolution with padding).
    """

    weight: str
    bias: str = ""


@dataclass(frozen=True)
class Fold:
    """A norm whose gain and bias can go into all weights that read it, or a vector that can go into all that writes.

    Args:
        gain: Name of the tensor that units are multiplied by, one number for each: after a norm, or before what layers
            write is added to a stream (LayerScale).
        bias: Name of the tensor that is added to normed units then; empty if there is none.
        readers: All that reads the result of a norm, and reads nothing else.
        writers: Names of all tensors whose sum is multiplied, and that are used for nothing else; then there are
            neither bias nor readers.
    """

    gain: str
    bias: str = ""
    readers: tuple[Reader, ...] = ()
    writers: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of all tensors that folding changes."""
        readers = [name for each in self.readers for name in (each.weight, each.bias)]
        return tuple(filter(None, (self.gain, self.bias, *readers, *self.writers)))

    @property
    def keeps_bias(self) -> bool:
        """Whether the norm keeps its bias, divided by the gain, since a reader has no bias to take it."""
        return bool(self.bias) and not all(reader.bias for reader in self.readers)


@dataclass(frozen=True)
class Part:
    """Slots of every unit of a space on one axis of a tensor, one for each direction of a frame, in their order."""

    tensor: str
    axis: int
    slots: tuple[int, ...]


@dataclass(frozen=True)
class Frame:
    """Directions inside of each unit of a space: queries and keys of a head, or its values and what reads these.

    The two sides only meet in sums of products, so that any invertible matrix may multiply the one if its inverse,
    transposed, multiplies the other; a rotation multiplies both. Where positions turn planes (rotary embeddings), it
    must be a matrix that turns and scales each of these planes.

    Args:
        space: Name of the space.
        one: Where the directions of one side stand.
        other: Where those of the other side do.
        planes: How far apart, in the order of the directions, the two of a plane are: with 4 directions, 2 says that
            the first and the third are a plane, 1 that the first and the second are. 0: there are no planes.
    """

    space: str
    one: tuple[Part, ...]
    other: tuple[Part, ...]
    planes: int = 0

    @property
    def size(self) -> int:
        """How many directions there are."""
        return len(self.one[0].slots)

    def slots_on(self, tensor: str, axis: int) -> list[tuple[tuple[int, ...], bool]]:
        """The slots of the frame on an axis of a tensor, each time with whether they are of the one side."""
        sides = ((self.one, True), (self.other, False))
        return [
            (each.slots, first)
            for parts, first in sides
            for each in parts
            if (each.tensor, each.axis) == (tensor, axis)
        ]


@dataclass(frozen=True)
class Members:
    """Parts of each unit of a space that may change places with one another, inside of each unit as it likes.

    Queries that share keys and values: the unit is the group, and its members are the heads of the queries, each with
    the slots that read what it looks up.

    Args:
        space: Name of the space.
        parts: For each member, where its slots stand: on the same axes of the same tensors, as many on each.
    """

    space: str
    parts: tuple[tuple[Part, ...], ...]

    @property
    def count(self) -> int:
        """How many members a unit has."""
        return len(self.parts)

    def slots_on(self, tensor: str, axis: int) -> list[tuple[int, ...]]:
        """The slots of each member on an axis of a tensor; an empty list where members have none."""
        found = [
            tuple(slot for part in own if (part.tensor, part.axis) == (tensor, axis) for slot in part.slots)
            for own in self.parts
        ]
        return found if any(found) else []


@dataclass(frozen=True, eq=False)
class Block:
    """Where a space stands on one axis of one tensor.

    Args:
        tensor: Name of the tensor.
        axis: Index of the axis.
        space: Name of the space.
        positions: Integers [unit, slot]: where on the axis the unit's slots are.
        side: `produces` (the tensor holds values at the unit) or `consumes` (it is summed over the units).
        odd: Booleans [slot]: parity; an odd slot is multiplied by the sign or scale of the unit, an even one not.
    """

    tensor: str
    axis: int
    space: str
    positions: NDArray[np.int64]
    side: Side
    odd: NDArray[np.bool_]

    @cached_property
    def _in_order(self) -> bool:
        return bool((self.positions.ravel() == np.arange(self.positions.size)).all())

    def whole(self, length: int) -> bool:
        """Whether it takes all positions of an axis of some length, unit by unit, in their order."""
        return self.positions.size == length and self._in_order


Tensors = Mapping[str, tuple[Axis, ...]]
