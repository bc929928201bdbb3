"""Layouts: which axes of which tensors of an architecture move together.

In: records, from the tracer or from text. Out: widths of the spaces in a state, blocks of positions, mismatches.
Not here: the notation (`notation`), how widths and positions are found (`widths`), moving tensors (`moving`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from ..arguments import TEXT, check_arguments, instance
from ..errors import LayoutError, listing
from .contradictions import all_contradictions
from .notation import read, render
from .records import Block, Fold, Frame, HasShape, Members, Run, Space, Tensors
from .widths import axis_blocks, axis_length, solve

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
Widths = tuple[tuple[str, int], ...]
Solution = tuple[dict[str, int], list[str]]


@dataclass(frozen=True)
class Layout:
    """All axes of all tensors of an architecture.

    Args:
        spaces: The spaces, in canonical order.
        tensors: For each tensor of the state, its axes.
        fixed: For each tensor, why an axis (or part of it) does not move.
        reduced: For each space whose units are `summed` or `averaged` away, that word and by what.
        folds: The norms over units that rotate, with all that reads them, and vectors, with all that they multiply.
        unrotated: For each space with norms over it whose units do not rotate, why.
        frames: Directions inside of units that may be mixed.
        members: Parts of units that may change places inside of these.

    Example:
        >>> layout = parse("{spaces: {up.out: 5}, tensors: {up.weight: [up.out, 3], down.weight: [2, < up.out]}}")
        >>> layout.widths({"up.weight": np.ones((7, 3)), "down.weight": np.ones((2, 7))})
        {'up.out': 7}
    """

    spaces: tuple[Space, ...]
    tensors: Tensors
    fixed: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    reduced: Mapping[str, str] = field(default_factory=dict)
    folds: tuple[Fold, ...] = ()
    unrotated: Mapping[str, str] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()
    members: tuple[Members, ...] = ()
    # What was worked out already: models of one architecture ask for the same widths and blocks again and again.
    _solved: dict[Shapes, Solution] = field(default_factory=dict, init=False, repr=False, compare=False)
    _blocks: dict[Widths, tuple[Block, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Freeze the mappings and refuse a recipe that contradicts itself."""
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))
        reasons = {name: MappingProxyType(dict(axes)) for name, axes in self.fixed.items()}
        object.__setattr__(self, "fixed", MappingProxyType(reasons))
        object.__setattr__(self, "reduced", MappingProxyType(dict(self.reduced)))
        object.__setattr__(self, "unrotated", MappingProxyType(dict(self.unrotated)))
        if problems := list(all_contradictions(self)):
            raise LayoutError(listing("the layout contradicts itself:", problems))

    def __reduce__(self) -> tuple[type[Layout], tuple[object, ...]]:
        """A layout is pickled as its parts, and checked again when it is read."""
        fixed = {name: dict(axes) for name, axes in self.fixed.items()}
        return Layout, (
            self.spaces, dict(self.tensors), fixed, dict(self.reduced), self.folds, dict(self.unrotated),
            self.frames, self.members,
        )  # fmt: skip

    def __getitem__(self, name: str) -> Space:
        """The space of that name."""
        for space in self.spaces:
            if space.name == name:
                return space
        known = ", ".join(space.name for space in self.spaces) or "none"
        raise LayoutError(f"no space is called {name!r}; the spaces of this layout: {known}")

    def __str__(self) -> str:
        """The layout in the notation that `transfuse.parse` reads."""
        return render(
            self.spaces, self.tensors, self.fixed, self.reduced, self.folds, self.unrotated, self.frames, self.members
        )  # fmt: skip

    @property
    def units(self) -> dict[str, int]:
        """Width of each space in the network that was traced."""
        return {space.name: space.units for space in self.spaces}

    @property
    def rotating(self) -> tuple[str, ...]:
        """Names of the spaces whose units rotate."""
        return tuple(space.name for space in self.spaces if space.rotations)

    def folds_of(self, spaces: Collection[str]) -> tuple[Fold, ...]:
        """The norms over some spaces, and the vectors that multiply what is written to them."""
        return tuple(fold for fold in self.folds if self.space_of(fold) in spaces)

    def space_of(self, fold: Fold) -> str:
        """The space on which the gain of a fold stands."""
        return next(axis.alone for axis in self.tensors[fold.gain] if axis.alone)

    def frames_of(self, space: str) -> tuple[Frame, ...]:
        """The directions inside of the units of a space."""
        return tuple(frame for frame in self.frames if frame.space == space)

    def members_of(self, space: str) -> Members | None:
        """The parts of the units of a space that may change places; none where there are none."""
        return next((each for each in self.members if each.space == space), None)

    def without_rotations(self, spaces: Collection[str] | None = None) -> Layout:
        """The layout in which units of some spaces (default: all) are permuted only: no norm folds, no frames."""
        chosen = [space.name for space in self.spaces if spaces is None or space.name in spaces]
        frames = tuple(frame for frame in self.frames if frame.space not in chosen)
        members = tuple(each for each in self.members if each.space not in chosen)
        turned = [name for name in chosen if name in self.rotating]
        if not turned and (frames, members) == (self.frames, self.members):
            return self
        kept = self.folds_of([name for name in self.rotating if name not in chosen])
        return replace(self, folds=kept, frames=frames, members=members, spaces=tuple(
            replace(space, symmetry=space.symmetry.unrotated) if space.name in chosen else space
            for space in self.spaces
        ))  # fmt: skip

    def growth_objection(self, space: str, units: int, wanted: int) -> str:
        """Why a network of some width cannot be widened without computing something else; empty if it can.

        Example:
            >>> layout = parse("{spaces: {norm.out: 5}, tensors: {}, reduced: {norm.out: averaged by a norm}}")
            >>> layout.growth_objection("norm.out", 5, 10)
            ''
            >>> layout.growth_objection("norm.out", 5, 8)
            'space norm.out cannot grow from 5 to 8 units: they are averaged by a norm; use a whole multiple'
        """
        how = self.reduced.get(space, "")
        if wanted <= units or not how or (how.startswith("averaged") and wanted % units == 0):
            return ""
        remedy = "use a whole multiple" if how.startswith("averaged") else f"leave it at {units}"
        return f"space {space} cannot grow from {units} to {wanted} units: they are {how}; {remedy}"

    def widths(self, state: Mapping[str, HasShape]) -> dict[str, int]:
        """Width of each space in a state, read off its shapes, axis by axis.

        Spaces that only ever stand side by side on their axes keep their traced widths.

        Raises:
            LayoutError: with every mismatch between the layout and the state.
        """
        widths, problems = self._solution(state)
        if problems:
            raise LayoutError(listing("the state does not fit the layout:", problems))
        return dict(widths)

    def _solution(self, state: Mapping[str, HasShape]) -> Solution:
        """Widths that explain a state, and what no width explains."""
        shapes = tuple((name, tuple(state[name].shape)) for name in state)
        if shapes not in self._solved:
            self._solved[shapes] = solve(self.spaces, self.tensors, state)
        return self._solved[shapes]

    def check(self, *states: Mapping[str, HasShape]) -> None:
        """Compare states with the layout: every tensor there, of the right rank, of lengths that agree.

        Raises:
            LayoutError: with every mismatch of every state at once.
        """
        problems = []
        for number, state in enumerate(states, start=1):
            prefix = f"state {number}: " if len(states) > 1 else ""
            problems += [prefix + problem for problem in self._solution(state)[1]]
        if problems:
            raise LayoutError(listing("states that do not fit the layout:", problems))

    def blocks(self, widths: Mapping[str, int] | None = None) -> tuple[Block, ...]:
        """The recipe for given widths (default: the traced ones) as blocks of positions."""
        widths = self.units if widths is None else widths
        key = tuple(sorted(widths.items()))
        if key not in self._blocks:
            self._blocks[key] = tuple(
                block
                for tensor, axes in self.tensors.items()
                for number, axis in enumerate(axes)
                for block in axis_blocks(tensor, number, axis, widths)
            )
        return self._blocks[key]

    def shape(self, tensor: str, widths: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of a tensor for given widths."""
        return tuple(axis_length(axis, widths) for axis in self.tensors[tensor])

    def shapes(self, widths: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The shapes of all tensors of a network that has these widths."""
        return {name: self.shape(name, widths) for name in self.tensors}

    def runs(self) -> Iterator[Run]:
        """The runs of units on all axes of all tensors."""
        for axes in self.tensors.values():
            for axis in axes:
                yield from (segment for segment in axis.segments if isinstance(segment, Run))

    def without(self, names: Collection[str]) -> Layout:
        """The layout without some tensors; spaces that stand on none of the others are left out.

        Example:
            >>> layout = parse("{spaces: {a: 2, b: 3}, tensors: {up: [a, 1], down: [b, < a]}}")
            >>> layout.without(["down"]).units
            {'a': 2}
        """
        if not names:
            return self
        tensors = {name: axes for name, axes in self.tensors.items() if name not in names}
        left = {space for axes in tensors.values() for axis in axes for space in axis.spaces}
        return Layout(
            tuple(space for space in self.spaces if space.name in left),
            tensors,
            {name: reasons for name, reasons in self.fixed.items() if name not in names},
            {name: how for name, how in self.reduced.items() if name in left},
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


def parse(text: str) -> Layout:
    """Read a layout from text in the notation that `print(layout)` writes.

    Raises:
        LayoutError: with what cannot be read, where it stands, and what was expected there.
    """
    check_arguments(text=(text, TEXT))
    return Layout(*read(text))


LAYOUT = instance(Layout, "a Layout, which `trace` finds and `parse` reads")  # the kind of an argument
