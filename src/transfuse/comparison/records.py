"""What a comparison gives: one line for each row and group of networks, and how all of them came about.

Plain numbers and records of landscapes: no networks, no functions, so that all of it can be saved and loaded.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import InputError
from ..landscape import Barrier, Plane
from ..plots import barriers as barriers_drawn
from ..plots import inline_picture
from ..plots import planes as planes_drawn
from ..report import Table
from .tabulating import long_table, summary_table
from .typesetting import as_html, as_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Role = Literal["method", "control"]
TRAINED = "models as trained (mean)"  # the row whose barrier is that between the models as they are


@dataclass(frozen=True, eq=False)
class Line:
    """What became of one group of networks in one row: a method, or a control that methods must beat.

    Args:
        key: A hash of all that the line depends on: networks, row, seed, data, points.
        group: The name of the group.
        row: The name of the row.
        role: Whether it is a method or a control.
        values: What `evaluate` gave, by metric.
        parameters: How many numbers the network learns; of an ensemble, all of its networks.
        seconds: How long it took to make the network.
        told: How it ended, and what was corrected.
        barrier: Between the first two networks of the group: as trained, or aligned by the method.
        plane: Through the first network, the second, and the second aligned by the method.
    """

    key: str
    group: str
    row: str
    role: Role
    values: Mapping[str, float]
    parameters: int
    seconds: float
    told: str = ""
    barrier: Barrier | None = None
    plane: Plane | None = None

    def plain(self) -> dict[str, Any]:
        """The line as JSON can hold it; numbers that JSON lacks become text."""
        records = {"barrier": self.barrier, "plane": self.plane}
        values = {name: value if math.isfinite(value) else str(value) for name, value in self.values.items()}
        return {**vars(self), "values": values, **{name: each and each.plain() for name, each in records.items()}}

    @staticmethod
    def restored(found: Mapping[str, Any]) -> Line:
        """The line that `plain` told of."""
        values = {str(name): float(value) for name, value in found["values"].items()}
        barrier = Barrier.restored(found["barrier"]) if found["barrier"] else None
        plane = Plane.restored(found["plane"]) if found["plane"] else None
        return Line(**{**found, "values": values, "barrier": barrier, "plane": plane})


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Methods and their controls on groups of networks: a table, curves and planes, and how they came about.

    Args:
        lines: One for each row and group, group by group, in the order of the rows.
        making: What is needed to make it again: hashes of the networks and data, methods, seed, versions, the call.
        notes: What could not be measured, or not as a reader may expect.
    """

    lines: tuple[Line, ...]
    making: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(dict.fromkeys(line.group for line in self.lines))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that were measured."""
        return tuple(self.lines[0].values)

    @property
    def barriers(self) -> dict[str, list[Barrier]]:
        """Barriers of all groups by row, as trained first; rows that move no unit are left out."""
        found: dict[str, list[Barrier]] = {}
        for line in self.lines:
            if line.barrier is not None:
                found.setdefault("as trained" if line.row == TRAINED else line.row, []).append(line.barrier)
        return found

    @property
    def planes(self) -> dict[str, Plane]:
        """The planes of the first group by method, where they were asked for."""
        return {line.row: line.plane for line in self.lines if line.plane is not None}

    def table(self) -> Table:
        """Means over the groups with their standard deviations, by row; the best methods are marked."""
        return summary_table(self.lines)

    def to_pandas(self) -> Any:
        """All lines as a pandas `DataFrame`: a row for each group and row, a column for each number.

        Raises:
            InputError: pandas is not installed.
        """
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise InputError("a DataFrame needs pandas, which is not installed: pip install pandas") from error
        head, rows = long_table(self.lines)
        return DataFrame(rows, columns=head)

    def plot(self, *, metric: str | None = None) -> Figure:
        """Draw the barriers before and after alignment: means over the groups, in bands from least to most.

        Args:
            metric: What to show; the first metric by default.

        Raises:
            InputError: no barrier was measured, or matplotlib is not installed.
        """
        if not self.barriers:
            raise InputError("no barrier was measured: the networks of each group have different widths")
        return barriers_drawn(self.barriers, metric=metric)

    def plot_planes(self, *, metric: str | None = None) -> Figure:
        """Draw the planes of all methods beside each other, in the same colours for the same values.

        Args:
            metric: What to show; the first metric by default.

        Raises:
            InputError: no plane was measured, or matplotlib is not installed.
        """
        if not self.planes:
            raise InputError("no plane was measured; pass planes=21, points along each side, to `compare`")
        return planes_drawn(self.planes, metric=metric)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write everything to a folder: tables, numbers, how they came about, and figures if matplotlib is installed.

        `table.md`, `table.tex`, `table.csv`, `lines.csv` (every group by itself), `comparison.json`, `barriers.svg` and
        `.pdf`, `planes.svg` and `.pdf`. Each file is written whole or not at all.
        """
        from .keeping import saved  # which imports this file

        return saved(self, Path(folder))

    @staticmethod
    def load(folder: str | os.PathLike[str]) -> Comparison:
        """Read what `save` wrote.

        Raises:
            InputError: the folder holds no comparison.
        """
        from .keeping import loaded  # which imports this file

        return loaded(Path(folder))

    def __str__(self) -> str:
        """The table, and what is to be said about it."""
        count = len(self.groups)
        over = f"mean ± standard deviation over {count} groups" if count > 1 else f"group {self.groups[0]}"
        return "\n".join([as_text(self.table()), f"{over}; * best method", *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The table and a small picture of the barriers: notebooks show it."""
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return as_html(self.table()) + inline_picture(self.plot) + notes
