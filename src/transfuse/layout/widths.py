"""Between recipes and shapes: the widths that explain a state, and the positions that follow from widths.

In: a layout, shapes or widths. Out: widths with the mismatches that no width explains, blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import LayoutError
from .records import Axis, Block, Fixed, HasShape, Run, Space, Tensors


def _segments(axis: Axis, widths: Mapping[str, int]) -> Iterator[tuple[Run, int, int]]:
    """Each run of an axis with its start and its number of units."""
    start = 0
    for segment in axis.segments:
        if isinstance(segment, Fixed):
            start += segment.count
            continue
        count = widths[segment.cell[0].space] if segment.units is None else len(segment.units)
        yield segment, start, count
        start += count * len(segment.cell)


def axis_blocks(tensor: str, number: int, axis: Axis, widths: Mapping[str, int]) -> Iterator[Block]:
    """One block for each space on an axis: its slots in the order in which they appear."""
    found: dict[str, list[tuple[NDArray[np.int64], NDArray[np.int64], bool]]] = {name: [] for name in axis.spaces}
    for run, start, count in _segments(axis, widths):
        size = len(run.cell)
        units = np.arange(count) if run.units is None else np.array(run.units, dtype=np.int64)
        places = start + np.arange(count * size).reshape(count, size)
        for offset, slot in enumerate(run.cell):
            found[slot.space].append((units, places[:, offset], not slot.even))
    for name in axis.spaces:
        width = widths[name]
        units = np.concatenate([each for each, _, _ in found[name]])
        places = np.concatenate([each for _, each, _ in found[name]])
        odd = np.concatenate([np.full(len(each), parity) for each, _, parity in found[name]])
        order = np.lexsort((places, units))
        regular = len(units) % width == 0 and np.array_equal(
            units[order], np.repeat(np.arange(width), len(units) // width)
        )
        parity = odd[order].reshape(width, -1) if regular else None
        if parity is None or (parity != parity[0]).any():
            raise LayoutError(
                f"{tensor} axis {number} does not give each of the {width} units of space {name} the same slots; "
                "list each unit equally often and in the same parity"
            )
        yield Block(tensor, number, name, places[order].reshape(width, -1), axis.side, parity[0])


def solve(spaces: Sequence[Space], tensors: Tensors, state: Mapping[str, HasShape]) -> tuple[dict[str, int], list[str]]:
    """Widths that explain a state's shapes, and what no width explains.

    Each axis is one equation; axes with a single unknown are solved first, again and again. What stays open
    (two spaces that only ever stand side by side) keeps its traced width.
    """
    traced = {space.name: space.units for space in spaces}
    problems = [f"tensor {name} is missing" for name in tensors if name not in state]
    problems += [f"tensor {name} is not in the layout" for name in state if name not in tensors]
    open_axes: list[tuple[str, int, Axis, int]] = []
    for tensor, axes in tensors.items():
        if tensor not in state:
            continue
        shape = tuple(state[tensor].shape)
        if len(shape) != len(axes):
            problems.append(f"tensor {tensor} has shape {list(shape)}, the layout expects {len(axes)} axes")
            continue
        open_axes += [(tensor, number, axis, shape[number]) for number, axis in enumerate(axes)]
    listed = {slot.space for _, _, axis, _ in open_axes for run in axis.segments
              if isinstance(run, Run) and run.units is not None for slot in run.cell}  # fmt: skip
    widths = {space.name: space.units for space in spaces if space.name in listed}
    unknown = open_axes
    while unknown := [entry for entry in unknown if not set(entry[2].spaces) <= widths.keys()]:
        single = next((entry for entry in unknown if len(_unknowns(entry[2], widths)) == 1), None)
        if single:
            _, _, axis, length = single
            (group,) = _unknowns(axis, widths)
            known = [widths[name] for name in group if name in widths]
            width = known[0] if known else _width_on(axis, group, widths, length)
            widths.update((name, width) for name in group if name not in widths)
        else:
            name = next(name for name in unknown[0][2].spaces if name not in widths)
            widths[name] = traced[name]
    for tensor, number, axis, length in open_axes:
        if (expected := axis_length(axis, widths)) != length or any(widths[name] < 1 for name in axis.spaces):
            parts = ", ".join(f"{name} = {widths[name]}" for name in axis.spaces) or "no moving units"
            problems.append(f"tensor {tensor} axis {number} has length {length}, expected {expected} ({parts})")
    return {space.name: widths.get(space.name, space.units) for space in spaces}, problems


def _unknowns(axis: Axis, widths: Mapping[str, int]) -> list[frozenset[str]]:
    """Groups of spaces on an axis whose width is not known yet; woven spaces share one."""
    groups: list[frozenset[str]] = []
    for run in axis.segments:
        if isinstance(run, Run) and run.units is None:
            new = frozenset(slot.space for slot in run.cell)
            for old in [group for group in groups if group & new]:
                groups.remove(old)
                new |= old
            groups.append(new)
    return [group for group in groups if not group <= widths.keys()]


def _width_on(axis: Axis, group: frozenset[str], widths: Mapping[str, int], length: int) -> int:
    """The width of the one unknown group of an axis; rounded, since the caller checks the length."""
    rest, per_unit = 0, 0
    for segment in axis.segments:
        if isinstance(segment, Fixed):
            rest += segment.count
        elif segment.units is not None:
            rest += len(segment.units) * len(segment.cell)
        elif segment.cell[0].space in group:
            per_unit += len(segment.cell)
        else:
            rest += widths[segment.cell[0].space] * len(segment.cell)
    return (length - rest) // per_unit


def axis_length(axis: Axis, widths: Mapping[str, int]) -> int:
    """Length of an axis for given widths."""
    fixed = sum(segment.count for segment in axis.segments if isinstance(segment, Fixed))
    return fixed + sum(count * len(run.cell) for run, _, count in _segments(axis, widths))
