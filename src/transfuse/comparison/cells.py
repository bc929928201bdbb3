"""The cells of a comparison: each method and each control, made and measured on one group of networks.

In: what was asked for, and a group. Out: lines, one after the other, each when it is finished. No table without its
controls: the models as they are, the better one of them, one with its last layer refitted, and their ensemble.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from ..activations import Batches
from ..corrections import NONE, nearest_control
from ..fusing import Fusion, fuse
from ..landscape import Barrier, Family, Plane, barrier, more_is_better
from ..landscape.cache import Values
from ..landscape.measuring import value_at
from ..layout import Layout
from ..methods import method_named
from ..report import Request
from ..report.results import alike, ensemble_of, parameter_count, plane_of
from ..tracing import trace
from .asking import Asked, Row
from .records import TRAINED, Line, Role

BETTER = "better model"
REFITTED = "one model, last layer refitted"
ENSEMBLE = "ensemble"


@dataclass(frozen=True)
class Made:
    """A network of a row, or its values alone, with what is told of it."""

    values: Values
    parameters: int
    told: str = ""
    seconds: float = 0.0
    barrier: Barrier | None = None
    plane: Plane | None = None


@dataclass(frozen=True)
class Cell:
    """A line that is still to be made: its place, its key, and what makes it."""

    key: str
    group: str
    row: str
    role: Role
    make: Callable[[], Made]

    def line(self) -> Line:
        """Make it."""
        return Line(self.key, self.group, self.row, self.role, **vars(self.make()))


@dataclass(frozen=True, eq=False)
class Bench:
    """One group of networks, on which rows are made and measured.

    Args:
        asked: What is compared and how.
        name: The name of the group.
        first: Whether it is the first group, of which planes are measured.
        cache: A file that remembers values of barriers and planes.
        notes: Gets what could not be measured.
    """

    asked: Asked
    name: str
    first: bool
    cache: Path | None
    notes: list[str]

    @property
    def models(self) -> tuple[nn.Module, ...]:
        """The networks."""
        return self.asked.groups[self.name]

    @cached_property
    def layout(self) -> Layout:
        """The layout of the networks, traced when the first method needs it."""
        return trace(self.models[0], self.asked.example_inputs)

    @cached_property
    def own_values(self) -> list[Values]:
        """What `evaluate` gives for each of the networks."""
        return [self.values_of(model) for model in self.models]

    def values_of(self, model: nn.Module) -> Values:
        """What `evaluate` gives for a network, in evaluation mode."""
        return value_at(Family.of({"network": model}), self.asked.evaluate, None, (1.0,))

    def cells(self) -> list[Cell]:
        """All cells of this group, in the order of the table."""
        controls: dict[str, Callable[[], Made]] = {TRAINED: self._trained, BETTER: self._better}
        ends: dict[str, Callable[[], Made]] = {} if self.asked.data is None else {REFITTED: self._refitted}
        ends[ENSEMBLE] = self._ensemble
        return [
            *(self._control(row, make) for row, make in controls.items()),
            *(self._method(row) for row in self.asked.rows),
            *(self._control(row, make) for row, make in ends.items()),
        ]

    def _control(self, row: str, make: Callable[[], Made]) -> Cell:
        return Cell(self.asked.key(self.name, row, {}, plane=False), self.name, row, "control", make)

    def _method(self, row: Row) -> Cell:
        plane = bool(self.asked.planes) and self.first and _matches(row)
        key = self.asked.key(self.name, row.name, row.arguments, plane=plane)
        return Cell(key, self.name, row.name, "method", lambda: self._fused(row, plane=plane))

    def _trained(self) -> Made:
        """The mean of the networks' values, and the barrier between the first two as they are."""
        values = {
            metric: sum(own[metric] for own in self.own_values) / len(self.models) for metric in self.own_values[0]
        }
        told = f"mean of {len(self.models)} models"
        return Made(values, parameter_count(self.models[0]), told, barrier=self._barrier(self.models))

    def _better(self) -> Made:
        """The network that is best by the first metric: the strictest control, for it sees what methods do not."""
        metric = next(iter(self.own_values[0]))
        sign = -1 if more_is_better(metric) else 1
        number = min(range(len(self.models)), key=lambda each: sign * self.own_values[each][metric])
        return Made(self.own_values[number], parameter_count(self.models[number]), f"model {number + 1}, by {metric}")

    def _refitted(self) -> Made:
        started = time.perf_counter()
        control = nearest_control(self.models, self._shares, Batches.of(self.asked.data))
        seconds = time.perf_counter() - started
        return Made(self.values_of(control.model), parameter_count(control.model), str(control), seconds)

    def _ensemble(self) -> Made:
        ensemble = ensemble_of(self.models, self._shares, self.asked.evaluate)
        return Made(self.values_of(ensemble), parameter_count(ensemble), f"{len(self.models)} models")

    def _fused(self, row: Row, *, plane: bool) -> Made:
        """The networks fused by a method, with the barrier that is left between the aligned ones."""
        given: Mapping[str, Any] = {"data": self.asked.data, "seed": self.asked.seed, **row.arguments}
        layout, started = self.layout, time.perf_counter()
        fusion = fuse(self.models, self.asked.example_inputs, layout=layout, **given)
        seconds = time.perf_counter() - started
        corrected = "" if fusion.correction.method == NONE else f"; corrected by {fusion.correction.method}"
        return Made(
            self.values_of(fusion.model), parameter_count(fusion.model), fusion.status + corrected, seconds,
            self._barrier(fusion.aligned) if _matches(row) else None,
            self._plane(fusion) if plane else None,
        )  # fmt: skip

    def _barrier(self, models: Sequence[nn.Module]) -> Barrier | None:
        """The barrier between the first two networks, if they can be averaged."""
        if not alike(models[:2]):
            return None
        asked = self.asked
        return barrier(
            models[0], models[1], asked.evaluate, points=asked.points, data=asked.data, cache=self.cache,
            workers=asked.workers,
        )  # fmt: skip

    def _plane(self, fusion: Fusion) -> Plane | None:
        asked = self.asked
        request = Request(asked.evaluate, grid=asked.planes, data=asked.data, cache=self.cache, workers=asked.workers)
        return plane_of(fusion, request, self.notes)

    @property
    def _shares(self) -> list[float]:
        return [1 / len(self.models)] * len(self.models)


def _matches(row: Row) -> bool:
    """Whether units are moved at all; where they are not, models are aligned as they were trained."""
    return method_named(row.arguments["method"]).matches
