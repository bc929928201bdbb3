"""The tables of the page, as texts: the first column names things, the others hold what is told of them.

In: records. Out: `Table`s, which the templates turn into HTML.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..landscape.pictures import short_number
from ..layout import Space
from .contents import Making, Results, Subject


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Args:
        head: A title for each column.
        rows: For each row its name and its cells.
        emphasised: Names of the rows that stand out.
        best: Cells that hold the best value of their column, by the name of the row and the title of the column.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    emphasised: Collection[str] = ()
    best: Collection[tuple[str, str]] = ()


def result_table(results: Results) -> Table:
    """The values of each network, with the fused one standing out."""
    metrics = list(results.rows[0].values)
    return Table(
        head=["network", *map(with_unit, metrics), "parameters"],
        rows=[
            [row.name, *(exact(row.values[metric]) for metric in metrics), f"{row.parameters:,}"]
            for row in results.rows
        ],
        emphasised=[row.name for row in results.rows if row.role == "fused"],
    )


def barrier_table(results: Results) -> Table:
    """For each segment and metric the value half-way and the height of the barrier."""
    metrics = next(iter(results.barriers.values())).metrics
    return Table(
        head=["", *(f"{metric}, {what}" for metric in metrics for what in ("midpoint", "barrier"))],
        rows=[
            [name, *(short_number(value) for each in metrics for value in (found.midpoint(each), found.height(each)))]
            for name, found in results.barriers.items()
        ],
    )


def mark_table(results: Results) -> Table:
    """Where each network stands on the plane, how far off it is, and its values."""
    plane = results.plane
    assert plane is not None
    rows = [
        [
            mark.name,
            *(short_number(round(place, 4) + 0.0) for place in (mark.x, mark.y, mark.distance)),  # + 0.0: no "-0"
            *(exact(mark.values[metric]) for metric in plane.metrics),
        ]
        for mark in plane.marks
    ]
    return Table(head=["network", "x", "y", "distance from the plane", *plane.metrics], rows=rows)


def space_table(subject: Subject) -> Table:
    """The spaces of the layout: their units, also in the models if these differ, and their symmetry."""
    varied = any(len(set(units)) > 1 for units in subject.widths.values())
    rows = []
    for space in subject.layout.spaces:
        result, *models = map(str, subject.widths[space.name])
        rows.append([space.name, result, *([", ".join(models)] if varied else []), symmetry_told(space)])
    return Table(head=["space", "units", *(["units of the models"] if varied else []), "beyond permutation"], rows=rows)


def time_table(making: Making) -> Table:
    """How many seconds each step took."""
    return Table(head=["step", "seconds"], rows=[[name, f"{each:.1f}"] for name, each in making.seconds.items()])


def symmetry_told(space: Space) -> str:
    """What can be done to the units of a space beside permuting them."""
    return ", ".join(space.symmetry.words) or "nothing"


def exact(value: float) -> str:
    """A measured value for a table, with four digits.

    Example:
        >>> exact(0.123456), exact(float("inf"))
        ('0.1235', 'inf')
    """
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def with_unit(metric: str) -> str:
    """The name of a metric with its unit, which only the error of `transfuse.evaluator` has.

    Example:
        >>> with_unit("error"), with_unit("loss")
        ('error, %', 'loss')
    """
    return f"{metric}, %" if metric == "error" else metric
