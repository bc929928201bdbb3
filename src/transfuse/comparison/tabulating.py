"""Lines of a comparison as tables: means with their spread for people, every line by itself for machines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..landscape import more_is_better
from ..report import Table
from ..report.tables import with_unit

if TYPE_CHECKING:
    from .records import Line


def summary_table(lines: Sequence[Line]) -> Table:
    """Means over groups with their standard deviations, a row for each method and control; the best methods are marked.

    Beside the metrics: the height of the barrier of the first one, parameters, and seconds to make the network.
    """
    metrics = list(lines[0].values)
    numbers = {name: _numbers(own, metrics) for name, own in _by_row(lines).items()}
    titles = {key: with_unit(key) if key in metrics else key for key in next(iter(numbers.values()))}
    methods = {line.row for line in lines if line.role == "method"}
    best = {
        (list(numbers).index(row), column)
        for column, key in enumerate(titles, start=1)
        if key in metrics or key == _barrier_title(metrics)
        for row in _best({row: numbers[row][key] for row in methods}, more=key in metrics and more_is_better(key))
    }
    return Table(
        head=["", *titles.values()],
        rows=[[row, *(_told(key, found) for key, found in each.items())] for row, each in numbers.items()],
        best=best,
    )


def long_table(lines: Sequence[Line]) -> tuple[list[str], list[list[Any]]]:
    """Titles, and a row of plain values for each line."""
    metrics = list(lines[0].values)
    heights = [f"barrier ({metric})" for metric in metrics]
    head = ["group", "row", "role", *metrics, *heights, "parameters", "seconds", "told"]
    rows = [
        [line.group, line.row, line.role, *line.values.values(),
         *(line.barrier.height(metric) if line.barrier else None for metric in metrics),
         line.parameters, round(line.seconds, 3), line.told]
        for line in lines
    ]  # fmt: skip
    return head, rows


def _by_row(lines: Sequence[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line.row, []).append(line)
    return found


def _barrier_title(metrics: Sequence[str]) -> str:
    return f"barrier ({metrics[0]})"


def _numbers(own: Sequence[Line], metrics: Sequence[str]) -> dict[str, list[float]]:
    """What is told of one row: for each column its values over the groups."""
    return {
        **{metric: [line.values[metric] for line in own] for metric in metrics},
        _barrier_title(metrics): [line.barrier.height(metrics[0]) for line in own if line.barrier],
        "parameters": [float(line.parameters) for line in own],
        "seconds": [line.seconds for line in own],
    }


def _best(found: Mapping[str, Sequence[float]], *, more: bool) -> list[str]:
    """The rows with the best mean, as a reader sees it: means that look alike are all best."""
    means = {row: float(exact(float(np.mean(values)))) for row, values in found.items() if values}
    means = {row: mean for row, mean in means.items() if math.isfinite(mean)}
    if len(means) < 2:
        return []
    top = max(means.values()) if more else min(means.values())
    return [row for row, mean in means.items() if mean == top]


def exact(value: float) -> str:
    """A measured value for a table, with four digits.

    Example:
        >>> exact(0.123456), exact(float("inf"))
        ('0.1235', 'inf')
    """
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def _told(key: str, values: Sequence[float]) -> str:
    """Values over groups as a cell: their mean, and their standard deviation if there are several."""
    if not values:
        return "-"
    mean = float(np.mean(values))
    if key == "parameters":
        return f"{mean:,.0f}"
    if key == "seconds":
        return f"{mean:.1f}"
    spread = float(np.std(values, ddof=1)) if len(values) > 1 and math.isfinite(mean) else None
    return exact(mean) if spread is None else f"{exact(mean)} ± {spread:.2g}"
