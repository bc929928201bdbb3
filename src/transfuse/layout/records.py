"""Layouts: which axes of which tensors of an architecture move together.

A layout is a recipe in the manner of einops. Each axis of each tensor is a sequence of segments: positions that
stay where they are (`Fixed`) and runs of units of a space (`Run`). Nothing in the recipe depends on how wide the
spaces are, so one layout serves networks of every width: `Layout.widths` reads the widths off a state's shapes,
and `Layout.blocks` turns the recipe into integer matrices `positions[unit, slot]` for them.

In: records, from the tracer or from text. Out: widths, blocks, mismatches.
Not here: text (`notation`), reading widths off shapes (`widths`), moving tensors (`actions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import LayoutError, listing

Side = Literal["produces", "consumes"]


class HasShape(Protocol):
    """Anything with a shape: a tensor, an array, a lazily read slice of a file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        ...


@dataclass(frozen=True)
class Space:
    """The units of one layer that move together.

    Args:
        name: Canonical name, such as `conv1.out`.
        units: How many units the traced network has; other networks of the architecture may have another width.
        signs: Any unit may be negated (every operation on the space is odd, such as tanh).
        scales: Any unit may be multiplied by a positive number (every operation is positively homogeneous,
            such as ReLU).
    """

    name: str
    units: int
    signs: bool = False
    scales: bool = False


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


@dataclass(frozen=True)
class Layout:
    """All axes of all tensors of an architecture.

    Args:
        spaces: The spaces, in canonical order.
        tensors: For each tensor of the state, its axes.
        fixed: For each tensor, why an axis (or part of it) does not move.

    Example:
        >>> hidden = Axis((Run((Slot("up.out"),)),))
        >>> read = Axis((Run((Slot("up.out"),)),), side="consumes")
        >>> layout = Layout(
        ...     (Space("up.out", 5),),
        ...     {"up.weight": (hidden, Axis((Fixed(3),))), "down.weight": (Axis((Fixed(2),)), read)},
        ... )
        >>> layout.widths({"up.weight": np.ones((7, 3)), "down.weight": np.ones((2, 7))})
        {'up.out': 7}
    """

    spaces: tuple[Space, ...]
    tensors: Mapping[str, tuple[Axis, ...]]
    fixed: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freeze the mappings and refuse a recipe that contradicts itself."""
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))
        reasons = {name: MappingProxyType(dict(axes)) for name, axes in self.fixed.items()}
        object.__setattr__(self, "fixed", MappingProxyType(reasons))
        if problems := list(_contradictions(self)):
            raise LayoutError(listing("the layout contradicts itself:", problems))

    def __getitem__(self, name: str) -> Space:
        """The space of that name."""
        for space in self.spaces:
            if space.name == name:
                return space
        known = ", ".join(space.name for space in self.spaces) or "none"
        raise LayoutError(f"no space is called {name!r}; the spaces of this layout: {known}")

    def __str__(self) -> str:
        """The layout in the notation that `transfuse.parse` reads."""
        from .notation import render

        return render(self)

    @property
    def units(self) -> dict[str, int]:
        """Width of each space in the network that was traced."""
        return {space.name: space.units for space in self.spaces}

    def widths(self, state: Mapping[str, HasShape]) -> dict[str, int]:
        """Width of each space in a state, read off its shapes.

        Raises:
            LayoutError: with every mismatch between the layout and the state.
        """
        from .widths import solve

        widths, problems = solve(self, state)
        if problems:
            raise LayoutError(listing("the state does not fit the layout:", problems))
        return widths

    def check(self, *states: Mapping[str, HasShape]) -> None:
        """Compare states with the layout: every tensor there, of the right rank, of lengths that agree.

        Raises:
            LayoutError: with every mismatch of every state at once.
        """
        from .widths import solve

        problems = []
        for number, state in enumerate(states, start=1):
            prefix = f"state {number}: " if len(states) > 1 else ""
            problems += [prefix + problem for problem in solve(self, state)[1]]
        if problems:
            raise LayoutError(listing("states that do not fit the layout:", problems))

    def blocks(self, widths: Mapping[str, int] | None = None) -> tuple[Block, ...]:
        """The recipe for given widths (default: the traced ones) as blocks of positions."""
        from .widths import axis_blocks

        widths = self.units if widths is None else widths
        return tuple(
            block
            for tensor, axes in self.tensors.items()
            for number, axis in enumerate(axes)
            for block in axis_blocks(tensor, number, axis, widths)
        )

    def movable(self, state: Mapping[str, HasShape]) -> float:
        """Share of the numbers in a state that lie on at least one unit of some space."""
        touched: dict[str, list[tuple[int, int]]] = {}
        for block in self.blocks(self.widths(state)):
            touched.setdefault(block.tensor, []).append((block.axis, block.positions.size))
        moved = total = 0
        for name, tensor in state.items():
            size = int(np.prod(tensor.shape))
            still = dict.fromkeys(range(len(tensor.shape)), 0)
            for axis, count in touched.get(name, ()):
                still[axis] += count
            left = np.prod([n - still[axis] for axis, n in enumerate(tensor.shape)])
            total += size
            moved += size - int(left)
        return moved / total if total else 0.0


def _contradictions(layout: Layout) -> Iterator[str]:
    """Everything in a layout that cannot be, whatever the widths."""
    names = [space.name for space in layout.spaces]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"space {name} is listed twice; merge the entries"
    for space in layout.spaces:
        if space.units < 1:
            yield f"space {space.name} has {space.units} units; it needs one or more"
    for tensor, axes in layout.tensors.items():
        for number, axis in enumerate(axes):
            for name in axis.spaces:
                if name not in names:
                    yield f"{tensor} axis {number} names space {name}, which is not listed; add it to the spaces"
            for segment in axis.segments:
                if isinstance(segment, Fixed) and segment.count < 0:
                    yield f"{tensor} axis {number} has {segment.count} fixed positions; give zero or more"
                if isinstance(segment, Run) and not segment.cell:
                    yield f"{tensor} axis {number} has a run without slots; name at least one space"
