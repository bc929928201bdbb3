"""Random layouts that are regular: each axis gives every unit of a space the same slots.

In: hypothesis. Out: `layouts()`, all constructs of a recipe at small widths, `states(layout)` that fit, and `walk`,
the obviously correct but slow reading of an axis, position by position, that every law compares with.
"""

from collections.abc import Iterator, Mapping

import torch
from hypothesis import strategies as st
from torch import Tensor

from transfuse import Axis, Fixed, Layout, Run, Slot, Space, Symmetry


def walk(axis: Axis, widths: Mapping[str, int]) -> Iterator[tuple[str, int, bool] | None]:
    """What stands at each position of an axis: nothing that moves, or a space, its unit, whether the slot is even."""
    for segment in axis.segments:
        if isinstance(segment, Fixed):
            yield from [None] * segment.count
            continue
        width = widths[segment.cell[0].space]
        for unit in range(width) if segment.units is None else segment.units:
            for slot in segment.cell:
                yield slot.space, unit, slot.even


def shapes(layout: Layout, widths: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor at given widths."""
    return {name: tuple(len(list(walk(axis, widths))) for axis in axes) for name, axes in layout.tensors.items()}


def states(layout: Layout, widths: Mapping[str, int], dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """A state that fits, no two of whose numbers are equal (as far as the dtype can tell)."""
    count, state = 1, {}
    for name, shape in shapes(layout, widths).items():
        size = torch.Size(shape).numel()
        state[name] = torch.arange(count, count + size).reshape(shape).to(dtype)
        count += size
    return state


@st.composite
def layouts(draw: st.DrawFn, *, listed: bool = True) -> Layout:
    """A regular layout; without `listed`, no recipe in it ties a width (none woven, no units listed)."""
    spaces = tuple(
        Space(name, draw(st.integers(1, 4)), Symmetry(draw(st.booleans()), draw(st.booleans())))
        for name in "abc"[: draw(st.integers(1, 3))]
    )
    ranks = draw(st.lists(st.integers(0, 3), max_size=3))
    tensors = {
        name: tuple(draw(axes(spaces, listed)) for _ in range(rank)) for name, rank in zip("xyz", ranks, strict=False)
    }
    return Layout(spaces, tensors)


@st.composite
def axes(draw: st.DrawFn, spaces: tuple[Space, ...], listed: bool) -> Axis:
    """One to three times: fixed positions, a cell repeated for every unit, or the units listed, in two parts."""
    segments: list[Run | Fixed] = []
    for kind in draw(st.lists(st.sampled_from(["fixed", "run", "listed"]), min_size=1, max_size=3)):
        first = draw(st.sampled_from(spaces))
        if kind == "fixed":
            segments.append(Fixed(draw(st.integers(1, 3))))
            continue
        equals = [space.name for space in spaces if space.units == first.units] if listed else [first.name]
        cell = tuple(Slot(draw(st.sampled_from(equals)), draw(st.booleans())) for _ in range(draw(st.integers(1, 3))))
        if kind == "run" or not listed:
            segments.append(Run(cell))
        else:
            units = draw(st.permutations(range(first.units)))
            cut = draw(st.integers(0, len(units)))
            segments += [Run(cell, tuple(units[:cut])), Fixed(1), Run(cell, tuple(units[cut:]))]
    return Axis(tuple(segments), draw(st.sampled_from(["produces", "consumes"])))
