"""What a report reads and what it holds: plain data on both sides of `gather`.

A fusion is anything with its fields: this room is below the one that makes them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ..corrections import Corrected
from ..landscape import Barrier, Plane
from ..layout import Layout
from ..plots import HasObjective
from ..progress import Progress


class States(Protocol):
    """What the report reads from `FusedStates`."""

    @property
    def couplings(self) -> Sequence[Mapping[str, Tensor]]: ...  # noqa: D102
    @property
    def history(self) -> Sequence[HasObjective]: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def method(self) -> str: ...  # noqa: D102
    @property
    def weights(self) -> tuple[float, ...]: ...  # noqa: D102
    @property
    def layout(self) -> Layout: ...  # noqa: D102
    @property
    def seed(self) -> int: ...  # noqa: D102
    @property
    def options(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def seconds(self) -> float: ...  # noqa: D102


class Fused(Protocol):
    """What the report reads from a `Fusion`."""

    @property
    def model(self) -> nn.Module: ...  # noqa: D102
    @property
    def aligned(self) -> tuple[nn.Module, ...]: ...  # noqa: D102
    @property
    def parents(self) -> tuple[nn.Module, ...]: ...  # noqa: D102
    @property
    def states(self) -> States: ...  # noqa: D102
    @property
    def correction(self) -> Corrected: ...  # noqa: D102


@dataclass(frozen=True)
class Request:
    """What to measure for a report.

    Args:
        evaluate: As for `transfuse.barrier`; without it nothing is measured.
        points: Of each barrier.
        grid: Of the plane; 0 for no plane.
        data: As for `transfuse.barrier`.
        cache: As for `transfuse.barrier`.
        workers: As for `transfuse.barrier`.
        progress: As for `transfuse.barrier`.
    """

    evaluate: Any = None
    points: int = 25
    grid: int = 21
    data: Any = None
    cache: str | os.PathLike[str] | None = None
    workers: int = 0
    progress: Progress = False


@dataclass(frozen=True)
class Row:
    """One network of the table of results: its name, its number of parameters, and its values."""

    name: str
    parameters: int
    values: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class CouplingPicture:
    """The coupling of one model and space: its size, entries per row, units that are negated, and a small image."""

    model: int
    space: str
    shape: tuple[int, int]
    entries: float
    negated: int
    image: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Report:
    """Everything on the page; `widths` has for each space its units in the result, then in the models."""

    title: str
    facts: Mapping[str, str]
    layout: Layout
    widths: Mapping[str, tuple[int, ...]]
    rows: tuple[Row, ...]
    barriers: Mapping[str, Barrier]
    plane: Plane | None
    couplings: tuple[CouplingPicture, ...]
    similarity: Mapping[str, tuple[float, float]]
    objective: tuple[float, ...]
    seconds: Mapping[str, float]
    versions: Mapping[str, str]
    recipe: str
    notes: tuple[str, ...]
