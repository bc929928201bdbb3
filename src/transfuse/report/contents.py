"""What a report asks for and what it holds: plain records on both sides of `gather`.

A new section of the page starts here: a field for what it shows, which `gathering` (or `results`, if networks must be
evaluated) fills, and `templates/report.html` shows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..landscape import Barrier, Plane, Workers
from ..layout import Layout
from ..progress import Progress
from ..types import Array

Role = Literal["parent", "average", "fused", "batch norm reset", "ensemble"]


@dataclass(frozen=True)
class Request:
    """What to measure for a report, and how.

    Args:
        evaluate: `evaluate(model) -> float | dict`, as for `transfuse.barrier`; without it nothing is measured.
        points: Networks evaluated on each segment of a barrier, ends included.
        grid: Networks evaluated along each side of the plane; 0 for no plane.
        data: Unlabeled batches, from which the statistics of batch norm are computed where networks were averaged.
        cache: A file that remembers values, so that a killed run goes on where it stopped.
        workers: Processes to use, 0 for this one; or an executor, as for `transfuse.barrier`.
        progress: How to show how far it is, as for `transfuse.barrier`.
    """

    evaluate: Any = None
    points: int = 25
    grid: int = 21
    data: Any = None
    cache: str | os.PathLike[str] | None = None
    workers: Workers = 0
    progress: Progress = False


@dataclass(frozen=True)
class ResultRow:
    """One network in the table of results: its name, what it is, how many parameters it has, and its values."""

    name: str
    role: Role
    parameters: int
    values: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class CouplingPicture:
    """The coupling of one model and space as a picture.

    Args:
        model: The number of the model, from 1.
        space: The space whose units are coupled.
        shape: How many units the space has in the result and in the model.
        entries: How many units of the model share one unit of the result, on average.
        negated: How many units of the model are negated.
        image: The coupling [rows, columns], in fewer cells if it is wide.
    """

    model: int
    space: str
    shape: tuple[int, int]
    entries: float
    negated: int
    image: Array


@dataclass(frozen=True, eq=False)
class Subject:
    """What was fused, and how.

    Args:
        facts: Short texts by name, in the order of the page.
        layout: Which axes move together.
        widths: For each space how many units it has in the result, then in each model.
        models: How many models were fused.
    """

    facts: Mapping[str, str]
    layout: Layout
    widths: Mapping[str, tuple[int, ...]]
    models: int


@dataclass(frozen=True, eq=False)
class Results:
    """What was measured by evaluating networks; empty without `evaluate`.

    Args:
        rows: The table: the models, their plain average, the fused network, the ensemble.
        barriers: Segments from the first model to others, by name.
        plane: The plane through the first model, the second one, and the second one aligned.
        ways: For those barriers that run along the plane, where they begin and end on it.
        notes: What could not be measured, or not as a reader may expect.
        seconds: How long each part took.
    """

    rows: tuple[ResultRow, ...] = ()
    barriers: Mapping[str, Barrier] = field(default_factory=dict)
    plane: Plane | None = None
    ways: Mapping[str, tuple[tuple[float, float], tuple[float, float]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class MatchedUnits:
    """How the units of the models were matched.

    Args:
        couplings: Pictures of the couplings that moved something.
        similarity: For each tensor the mean cosine of the other models to the first, as trained and aligned.
        objective: The objective after each sweep.
    """

    couplings: tuple[CouplingPicture, ...]
    similarity: Mapping[str, tuple[float, float]]
    objective: tuple[float, ...]


@dataclass(frozen=True)
class Making:
    """How the report came about: seconds by step, versions by package, the date, and the code that fuses again."""

    seconds: Mapping[str, float]
    versions: Mapping[str, str]
    date: str
    recipe: str


@dataclass(frozen=True, eq=False)
class Report:
    """Everything on the page about one fusion."""

    title: str
    subject: Subject
    results: Results
    matching: MatchedUnits
    making: Making
