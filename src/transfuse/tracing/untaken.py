"""Branches that were not taken: tensors that the example inputs do not reach, and the spaces that these could meet.

Another expert, an optional argument, an auxiliary head: what they compute is not in the recording, so nobody knows
which units they read. A space that one of their axes could hold, by its length, is fixed; or, if the user says so, it
is moved and these axes with it: as in a twin that was reached (another expert), or where only one arrangement of units
has their length.

In: what reading found, and the layout. Out: a layout, and what to warn of. Not here: the proof, which cannot see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..errors import listing
from ..layout import PERMUTATIONS, Axis, Fixed, Layout, Run, Slot
from .reading import Reading
from .resolving import NO_EFFECT, Place, classes

Unused = Literal["fix", "move"]
SHOWN = 3  # spaces that a message names as those that an axis may hold


@dataclass(frozen=True)
class Lengths:
    """How long axes of activations are that hold the units of a space, and whether parts of more may be flattened."""

    lengths: frozenset[int] = frozenset()
    multiples: frozenset[int] = frozenset()

    def fits(self, length: int, reads: bool, others: Iterable[int]) -> bool:
        """Whether an axis of a tensor may hold the units.

        Args:
            length: Of the axis.
            reads: The axis may be one that a matrix reads, where values stand side by side or are flattened.
            others: How long axes of any activations are.
        """
        if length in self.lengths:
            return True
        flattened = any(length % each == 0 for each in self.multiples)
        return reads and (flattened or any(length - other in self.lengths for other in others))


def without_untaken(
    reading: Reading, layout: Layout, shapes: Mapping[str, Sequence[int]], unused: Unused
) -> tuple[Layout, str]:
    """A layout that is right for branches that were not taken too, and a warning; as it is, with none, if all were.

    Args:
        reading: What reading found.
        layout: What was found of the branches that were taken.
        shapes: Shapes of the tensors that were not reached.
        unused: Whether spaces that they could meet are fixed or moved.
    """
    seen = _seen(reading, layout) if shapes else {}
    risks = {
        (name, axis): found
        for name, shape in shapes.items()
        for axis, length in enumerate(shape)
        if length > 1 and (found := _could_hold(seen, length, axis > 0, reading.registry.lengths))
    }
    if not risks:
        return layout, ""
    carried = _carried(layout, risks, shapes) if unused == "move" else {}
    still = _with_woven(layout, {space: at for at, found in risks.items() if at not in carried for space in found})
    moved = {space for place in carried for space in risks[place]} - still.keys()
    unclear = _unclear(layout, still, shapes) if unused == "move" else {}
    text = _warning(still, moved, risks, unclear)
    return _fixed(_with_axes(layout, carried, moved), still), text


def _seen(reading: Reading, layout: Layout) -> dict[str, Lengths]:
    """For each space, where its units are seen in activations."""
    _, units = classes(reading.registry)
    owner = np.full(reading.registry.size, -1)
    names = [space.name for space in layout.spaces]
    for block in layout.blocks():
        ids = reading.ids.get(block.tensor, {}).get(block.axis)
        if ids is not None:
            owner[units[ids.numpy()[block.positions.reshape(-1)]]] = names.index(block.space)
    found = dict.fromkeys(names, Lengths())
    for showing in reading.registry.shown:
        for index in np.unique(owner[units[showing.ids]]).tolist():
            if index >= 0:
                old = found[names[index]]
                multiples = old.multiples | ({min(showing.lengths)} if showing.apart else set())
                found[names[index]] = Lengths(old.lengths | showing.lengths, multiples)
    return found


def _could_hold(seen: Mapping[str, Lengths], length: int, reads: bool, others: Iterable[int]) -> list[str]:
    return [name for name, each in seen.items() if each.fits(length, reads, others)]


def _with_woven(layout: Layout, still: Mapping[str, Place]) -> dict[str, Place]:
    """Spaces to fix, and those that are woven with them, again and again."""
    runs = [run for axes in layout.tensors.values() for axis in axes for run in axis.segments if isinstance(run, Run)]
    woven = [{slot.space for slot in run.cell} for run in runs if len(set(run.cell)) > 1]
    found = dict(still)
    for _ in layout.spaces:
        for together in woven:
            for known in together & found.keys():
                found.update((name, found[known]) for name in together - found.keys())
    return found


def _carried(
    layout: Layout, risks: Mapping[Place, list[str]], shapes: Mapping[str, Sequence[int]]
) -> dict[Place, Axis]:
    """The axes at risk that can be carried along, each as it is then."""
    found = _by_length(layout, risks, shapes)
    for name, number in risks:
        twin = _twin(layout, name, shapes)
        if twin:
            found[name, number] = _as_in(layout, twin, name, number)
    return found


def _twin(layout: Layout, name: str, shapes: Mapping[str, Sequence[int]]) -> str:
    """A tensor that was reached and differs in one part of its name only: `experts.0.weight` of `experts.1.weight`."""
    parts = name.split(".")
    for other, axes in layout.tensors.items():
        same = other not in shapes and [_length(axis, layout) for axis in axes] == list(shapes[name])
        theirs = other.split(".")
        if same and len(theirs) == len(parts) and sum(a != b for a, b in zip(parts, theirs, strict=True)) == 1:
            return other
    return ""


def _as_in(layout: Layout, twin: str, name: str, number: int) -> Axis:
    """An axis like that of a twin, where its units are seen outside of the twin's module; else its own: fixed."""
    pairs = list(zip(twin.split("."), name.split("."), strict=True))
    depth = next(index for index, (a, b) in enumerate(pairs) if a != b)
    module = ".".join(twin.split(".")[: depth + 1])
    axis = layout.tensors[twin][number]
    outside = {
        space
        for other, axes in layout.tensors.items()
        if other != module and not other.startswith(f"{module}.")
        for each in axes
        for space in each.spaces
    }
    if axis.spaces and set(axis.spaces) <= outside:
        return Axis(_without_parity(axis), axis.side)
    return Axis((Fixed(_length(axis, layout)),))


def _by_length(
    layout: Layout, risks: Mapping[Place, list[str]], shapes: Mapping[str, Sequence[int]]
) -> dict[Place, Axis]:
    """The axes at risk for which one arrangement of units is the only one of their length in the whole network."""
    known = _arrangements(layout)
    found = {}
    for (name, number), spaces in risks.items():
        arrangements = known.get(shapes[name][number], [])
        if len(arrangements) == 1:
            axis = Axis(arrangements[0], "consumes" if number else "produces")
            if set(spaces) <= set(axis.spaces):
                found[name, number] = axis
    return found


def _arrangements(layout: Layout) -> dict[int, list[tuple[Run | Fixed, ...]]]:
    """The ways in which units stand on axes of the network, by the length of the axes."""
    known: dict[int, dict[tuple[Run | Fixed, ...], None]] = {}
    for axes in layout.tensors.values():
        for axis in axes:
            if axis.spaces:
                known.setdefault(_length(axis, layout), {})[_without_parity(axis)] = None
    return {length: list(found) for length, found in known.items()}


def _unclear(layout: Layout, still: Mapping[str, Place], shapes: Mapping[str, Sequence[int]]) -> dict[Place, str]:
    """Why it is not clear how an axis would move with the units that it may hold."""
    known = _arrangements(layout)
    found = {}
    for name, axis in still.values():
        length = shapes[name][axis]
        units = [" with ".join(Axis(each).spaces) for each in known.get(length, [])]
        more = [f"{len(units) - SHOWN} more"] if len(units) > SHOWN else []
        choice = f"its {length} positions may be units of {' or of '.join([*units[:SHOWN], *more])}"
        found[name, axis] = choice if units else f"no axis with units that is reached has {length} positions"
    return found


def _length(axis: Axis, layout: Layout) -> int:
    return sum(_count(segment, layout) for segment in axis.segments)


def _count(segment: Run | Fixed, layout: Layout) -> int:
    """How many positions a segment has in the network that was traced."""
    if isinstance(segment, Fixed):
        return segment.count
    units = layout.units[segment.cell[0].space] if segment.units is None else len(segment.units)
    return units * len(segment.cell)


def _without_parity(axis: Axis) -> tuple[Run | Fixed, ...]:
    return tuple(
        segment if isinstance(segment, Fixed) else Run(tuple(Slot(slot.space) for slot in segment.cell), segment.units)
        for segment in axis.segments
    )


def _with_axes(layout: Layout, carried: Mapping[Place, Axis], moved: set[str]) -> Layout:
    """The layout with further axes; spaces on them are only permuted: nobody knows what else the branch allows."""
    tensors, fixed = dict(layout.tensors), {name: dict(axes) for name, axes in layout.fixed.items()}
    for (name, number), axis in carried.items():
        tensors[name] = tuple(axis if index == number else old for index, old in enumerate(tensors[name]))
        fixed.get(name, {}).pop(number, None)
    spaces = tuple(replace(space, symmetry=PERMUTATIONS) if space.name in moved else space for space in layout.spaces)
    kept = layout.without_rotations(moved)
    unrotated = {name: why for name, why in layout.unrotated.items() if name not in moved}
    fixed = {name: axes for name, axes in fixed.items() if axes}
    return Layout(spaces, tensors, fixed, layout.reduced, kept.folds, unrotated, kept.frames, kept.members)


def _fixed(layout: Layout, still: Mapping[str, Place]) -> Layout:
    """The layout with some spaces fixed, each because of a place that could hold its units."""
    fixed = {name: dict(axes) for name, axes in layout.fixed.items()}
    tensors = {}
    for name, axes in layout.tensors.items():
        tensors[name] = tuple(_fixed_axis(axis, layout, still) for axis in axes)
        for number, axis in enumerate(axes):
            for space in [space for space in axis.spaces if space in still]:
                other, _ = still[space]
                own = other == name
                reason = NO_EFFECT if own else f"may meet {other}, which the example inputs do not reach"
                fixed.setdefault(name, {}).setdefault(number, reason)
    reduced = {space: how for space, how in layout.reduced.items() if space not in still}
    spaces = tuple(space for space in layout.spaces if space.name not in still)
    unrotated = {space: why for space, why in layout.unrotated.items() if space not in still}
    kept = layout.without_rotations(still)
    return Layout(spaces, tensors, fixed, reduced, kept.folds, unrotated, kept.frames, kept.members)


def _fixed_axis(axis: Axis, layout: Layout, still: Mapping[str, Place]) -> Axis:
    """An axis with runs of some spaces fixed; a run woven of several is fixed as a whole only if all of them are."""
    segments: list[Run | Fixed] = []
    for segment in axis.segments:
        kept = isinstance(segment, Run) and not any(slot.space in still for slot in segment.cell)
        part = segment if kept else Fixed(_count(segment, layout))
        if isinstance(part, Fixed) and segments and isinstance(segments[-1], Fixed):
            part = Fixed(part.count + segments.pop().count)  # type: ignore[union-attr]
        segments.append(part)
    new = Axis(tuple(segments), axis.side)
    return new if new.spaces else replace(new, side="produces")


def _warning(
    still: Mapping[str, Place], moved: set[str], risks: Mapping[Place, list[str]], unclear: Mapping[Place, str]
) -> str:
    """What is told of tensors that were not reached, and what can be done; why what was asked for was not, if so."""
    names = sorted({name for name, _ in risks})
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    why = {place: f", for it is not clear how {place[0]} would move: {text}" for place, text in unclear.items()}
    problems = [f"space {space} may meet {at[0]}: it is fixed{why.get(at, '')}" for space, at in sorted(still.items())]
    problems += [f"space {space}: it is moved, and what has its length there with it" for space in sorted(moved)]
    if unclear:
        remedy = "write into the layout by hand how they move"
    else:
        other = "unused='fix'" if moved else "unused='move'"
        remedy = f"pass layout=transfuse.trace(model, inputs, {other})"
    return (
        listing(f"the example inputs do not reach {shown} (a branch that is not taken, an unused layer):", problems)
        + f"\nPass example inputs that take these branches, delete what is never used, or {remedy}"
    )
