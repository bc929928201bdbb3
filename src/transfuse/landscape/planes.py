"""The plane through three networks (Garipov et al. 2018; arXiv:1802.10026), measured from coarse to fine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..arguments import FUNCTION, NETWORK_OR_STATE, NUMBER, check_arguments, count, mapping, optional
from ..errors import InputError
from ..progress import Progress
from ..types import Array
from ..workers import Workers
from .cache import Values
from .combining import Coefficients, Family, ModuleOrState
from .geometry import Frame
from .measuring import Evaluate, Survey
from .records import Mark, Plane

MARKS = mapping(NETWORK_OR_STATE, "networks by name")
FIRST = 0.1  # of all points: what the first preview may take, so that a look comes soon


def plane(  # noqa: PLR0913
    origin: ModuleOrState, x: ModuleOrState, y: ModuleOrState, evaluate: Evaluate, *, grid: int = 21,
    margin: float = 0.2, marks: Mapping[str, ModuleOrState] | None = None, data: Any = None,
    cache: str | os.PathLike[str] | None = None, workers: Workers = 0, progress: Progress = False,
    preview: Callable[[Plane], None] | None = None,
) -> Plane:  # fmt: skip
    """Values on the plane of all affine combinations of three networks.

    The axes are orthonormal: the origin is at (0, 0), x on the first axis, y above it. The grid covers all marks and a
    margin around them.

    Args:
        origin: A module, or a state.
        x: Another one of the same architecture and width.
        y: A third one, not on the line through the others.
        evaluate: `evaluate(network) -> float | dict`, as for `barrier`.
        grid: How many networks are evaluated along each side.
        margin: Around the marks, as a share of their extent.
        marks: Networks to be shown, by name: each is projected on the plane. Those of the three that are not among
            them are called `origin`, `x` and `y`.
        data: Unlabeled batches, from which statistics of batch norm are computed anew; see `barrier`.
        cache: A file that remembers values; see `barrier`.
        workers: Processes to use, 0 for this one; or any `concurrent.futures.Executor` (of Dask, Ray, MPI, Slurm),
            which is not shut down.
        progress: Show how far it is; see `barrier`.
        preview: Is given the plane on a coarser grid after about a tenth of the points, and then on finer ones.

    Raises:
        InputError: the networks do not fit each other, lie on one line, or evaluate gives no numbers.

    Example:
        >>> import torch
        >>> corners = [{"w": row} for row in torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 1.0]])]
        >>> found = plane(*corners, lambda state: float(state["w"].square().sum()), grid=3, margin=0.0)
        >>> found.x.tolist(), found.of().round(6).tolist()
        ([0.0, 1.0, 2.0], [[0.0, 1.0, 4.0], [0.25, 1.25, 4.25], [1.0, 2.0, 5.0]])
    """
    check_arguments(
        origin=(origin, NETWORK_OR_STATE), x=(x, NETWORK_OR_STATE), y=(y, NETWORK_OR_STATE), grid=(grid, count(2)),
        margin=(margin, NUMBER), marks=(marks, optional(MARKS)), preview=(preview, optional(FUNCTION)),
    )  # fmt: skip
    networks = _named({"origin": origin, "x": x, "y": y}, marks or {})
    family = Family.of(networks)
    frame = Frame.through(*family.states[:3])
    shown = [Mark(name, *frame.project(state), {}) for name, state in zip(networks, family.states, strict=True)]
    sides = _side([each.x for each in shown], grid, margin), _side([each.y for each in shown], grid, margin)
    survey = Survey(evaluate, data, cache, workers, progress)
    canvas = _Canvas(shown, *sides)
    for level in canvas.filled(survey, family, frame):
        if preview is not None and len(level.x) < grid:
            preview(level)
    return canvas.picture(slice(None), slice(None))


def _named(three: Mapping[str, ModuleOrState], marks: Mapping[str, ModuleOrState]) -> dict[str, ModuleOrState]:
    """All networks by name, the three of the plane first, under the names that marks give them."""
    names = {id(network): name for name, network in marks.items()}
    first = {names.get(id(network), name): network for name, network in three.items()}
    if len(first) < 3:
        raise InputError("origin, x and y must be three different networks, but one was given twice")
    rest = {name: network for name, network in marks.items() if name not in first}
    if clash := {name for name, network in marks.items() if first.get(name, network) is not network}:
        raise InputError(
            f"marks called {', '.join(sorted(clash))} have the name of another network of the plane; "
            "give them other names"
        )
    return {**first, **rest}


def _side(places: Sequence[float], grid: int, margin: float) -> Array:
    low, high = min(places), max(places)
    return np.linspace(low - margin * (high - low), high + margin * (high - low), grid)


def levels(grid: int) -> list[list[int]]:
    """Row (and column) numbers of grids from coarse to fine; each contains those before it, all contain both ends.

    Example:
        >>> levels(9)
        [[0, 8], [0, 4, 8], [0, 2, 4, 6, 8], [0, 1, 2, 3, 4, 5, 6, 7, 8]]
    """
    found = [list(range(grid))]
    while len(found[0]) > 2 and (len(found[0]) / grid) ** 2 > FIRST:
        coarser = found[0][::2]
        found.insert(0, coarser if coarser[-1] == grid - 1 else [*coarser, grid - 1])
    return found


class _Canvas:
    """The values of a plane, and of the networks that are shown on it, while they become known."""

    def __init__(self, shown: Sequence[Mark], x: Array, y: Array) -> None:
        self.shown, self.x, self.y = shown, x, y
        self.own: dict[int, Values] = {}
        self.cells: dict[tuple[int, int], Values] = {}

    def filled(self, survey: Survey, family: Family, frame: Frame) -> Iterator[Plane]:
        """Measure all points, and give the plane on the grid of each level when that is full."""
        order = self._order()
        waiting = [(level, {(row, column) for row in level for column in level}) for level in levels(len(self.x))]
        for number, values in survey.measure(family, self._points(order, frame), "plane"):
            if number < len(self.shown):
                self.own[number] = values
            else:
                self.cells[order[number - len(self.shown)]] = values
            while waiting and len(self.own) == len(self.shown) and waiting[0][1] <= self.cells.keys():
                level, _ = waiting.pop(0)
                yield self.picture(level, level)

    def picture(self, rows: slice | list[int], columns: slice | list[int]) -> Plane:
        """The plane on a part of its rows and columns, all of whose values are known."""
        numbers = np.arange(len(self.x))
        chosen = [[self.cells[row, column] for column in numbers[columns]] for row in numbers[rows]]
        marks = [replace(each, values=self.own[number]) for number, each in enumerate(self.shown)]
        values = {name: np.array([[cell[name] for cell in line] for line in chosen]) for name in chosen[0][0]}
        return Plane(values, self.x[columns], self.y[rows], tuple(marks))

    def _order(self) -> list[tuple[int, int]]:
        cells = [(row, column) for level in levels(len(self.x)) for row in level for column in level]
        return list(dict.fromkeys(cells))

    def _points(self, order: Sequence[tuple[int, int]], frame: Frame) -> list[Coefficients]:
        """The coefficients of all points: of the networks themselves first, then of the cells."""
        count = len(self.shown)
        own = [tuple(float(other == number) for other in range(count)) for number in range(count)]
        rest = (0.0,) * (count - 3)
        return own + [(*frame.coefficients(self.x[column], self.y[row]), *rest) for row, column in order]
