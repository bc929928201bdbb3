"""The numbers of a page as tables of comma-separated values, to go on with elsewhere.

In: records. Out: texts, every number with all of its digits. A browser offers them as files without script or network.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from ..landscape import Barrier, Plane
from .contents import Results
from .images import data_address


def result_csv(results: Results) -> str:
    """The table of results: a line for each network."""
    metrics = list(results.rows[0].values)
    rows = ([row.name, row.role, row.parameters, *(row.values[each] for each in metrics)] for row in results.rows)
    return _table(["network", "role", "parameters", *metrics], rows)


def barrier_csv(barriers: Mapping[str, Barrier]) -> str:
    """All curves: a line for each network that was evaluated on a segment."""
    metrics = next(iter(barriers.values())).metrics
    rows = (
        [name, place, *(float(each.of(metric)[index]) for metric in metrics)]
        for name, each in barriers.items()
        for index, place in enumerate(each.positions.tolist())
    )
    return _table(["segment", "position", *metrics], rows)


def plane_csv(plane: Plane) -> str:
    """The plane: a line for each network of the grid, and one for each mark, which has a name."""
    grid = (
        ["", x, y, 0.0, *(float(plane.of(metric)[row, column]) for metric in plane.metrics)]
        for row, y in enumerate(plane.y.tolist())
        for column, x in enumerate(plane.x.tolist())
    )
    marks = (
        [each.name, each.x, each.y, each.distance, *(each.values[name] for name in plane.metrics)]
        for each in plane.marks
    )
    return _table(["mark", "x", "y", "distance", *plane.metrics], [*marks, *grid])


def csv_address(text: str) -> str:
    """A table as an address that a link of a page can offer as a file."""
    return data_address(text.encode(), "text/csv")


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lines of comma-separated values below a head; numbers as Python writes them, which loses nothing."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()
