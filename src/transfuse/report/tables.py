"""The tables of the page, as texts: the first column names things, the others hold what is told of them.

In: records. Out: `Table`s, which the templates turn into HTML.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..landscape.pictures import best_value, column_texts
from ..layout import Space
from .contents import Making, Results, Subject


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Args:
        head: A title for each column.
        rows: For each row its name and its cells.
        shaded: Names of the rows that a reader looks for.
        best: Row and column of each cell that holds the best value of its column; the name is in column 0.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    shaded: Collection[str] = ()
    best: Collection[tuple[int, int]] = ()


def result_table(results: Results) -> Table:
    """The values of each network, with the fused one shaded and the best of each metric marked."""
    metrics = list(results.rows[0].values)
    columns = [column_texts([row.values[metric] for row in results.rows]) for metric in metrics]
    return Table(
        head=["network", *map(with_unit, metrics), "parameters"],
        rows=[[row.name, *texts, f"{row.parameters:,}"] for row, *texts in zip(results.rows, *columns, strict=True)],
        shaded=[row.name for row in results.rows if row.role == "fused"],
        best=best_cells(metrics, columns),
    )


def best_cells(metrics: Sequence[str], columns: Sequence[Sequence[str]]) -> frozenset[tuple[int, int]]:
    """Row and column of every cell that is best in its column as it is shown, so that what looks equal is treated so.

    Args:
        metrics: The name of the metric in each column, which says whether more or less is better.
        columns: The texts of each column, from the first after the names.

    Example:
        >>> sorted(best_cells(["loss", "size"], [["0.20", "0.10", "0.10"], ["1", "2", "3"]]))
        [(1, 1), (2, 1)]
    """
    found = set()
    for column, (metric, texts) in enumerate(zip(metrics, columns, strict=True), start=1):
        values = [float(text) for text in texts]
        best = best_value(metric, values)
        found |= {(row, column) for row, value in enumerate(values) if value == best}
    return frozenset(found)


def barrier_table(results: Results) -> Table:
    """For each segment and metric the value half-way and the height of the barrier, with the best marked."""
    metrics = next(iter(results.barriers.values())).metrics
    columns = [
        column_texts(
            [each.midpoint(metric) if what == "midpoint" else each.height(metric) for each in results.barriers.values()]
        )
        for metric in metrics
        for what in ("midpoint", "barrier")
    ]
    names = [name for metric in metrics for name in (metric, "barrier")]
    return Table(
        head=["segment", *(f"{with_unit(metric)}: {what}" for metric in metrics for what in ("midpoint", "barrier"))],
        rows=[[name, *texts] for name, *texts in zip(results.barriers, *columns, strict=True)],
        best=best_cells(names, columns),
    )


def mark_table(results: Results) -> Table:
    """Where each network stands on the plane, how far off it is, and its values, with the best marked."""
    plane = results.plane
    assert plane is not None
    columns = [column_texts([mark.values[metric] for mark in plane.marks]) for metric in plane.metrics]
    places = [
        [f"{round(place, 2) + 0.0:.2f}" for place in (mark.x, mark.y, mark.distance)]  # + 0.0: no "-0.00"
        for mark in plane.marks
    ]
    return Table(
        head=["network", *map(with_unit, plane.metrics), "x", "y", "off the plane"],
        rows=[[mark.name, *texts, *place] for mark, place, *texts in zip(plane.marks, places, *columns, strict=True)],
        best=best_cells(plane.metrics, columns),
    )


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


def with_unit(title: str, metric: str | None = None) -> str:
    """A title with the unit of its metric, which only the error of `transfuse.evaluator` has.

    Example:
        >>> with_unit("error"), with_unit("loss"), with_unit("error half-way", "error")
        ('error, %', 'loss', 'error half-way, %')
    """
    return f"{title}, %" if (metric or title) == "error" else title
