"""A comparison in a folder: finished lines while it is made, and tables, numbers and figures at its end.

In: a folder. Out: `lines.jsonl` (one line for each finished row and group, so that a killed run goes on),
`points.jsonl` (values on barriers and planes), and what `Comparison.save` tells of.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..files import append_line, read_text, whole_file, whole_lines, write_whole
from .records import Comparison, Line
from .tabulating import long_table
from .typesetting import as_csv, as_latex, as_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES, POINTS, WHOLE = "lines.jsonl", "points.jsonl", "comparison.json"
FIGURES = (".svg", ".pdf")


def known_lines(folder: Path | None) -> dict[str, Line]:
    """Finished lines in a folder by their keys; none without a folder."""
    if folder is None:
        return {}
    try:
        return {found["key"]: Line.restored(found) for found in whole_lines(folder / LINES)}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{folder / LINES} cannot be read as lines of a comparison ({error}); give another folder, or "
            "delete the file"
        ) from error


def keep(folder: Path | None, line: Line) -> None:
    """Add a finished line to those in a folder, if there is one."""
    if folder is not None:
        append_line(folder / LINES, line.plain())


def saved(comparison: Comparison, folder: Path) -> Path:
    """Write tables, numbers and, if matplotlib is installed, figures."""
    folder.mkdir(parents=True, exist_ok=True)
    table = comparison.table()
    whole = {
        "transfuse": "comparison", **comparison.making, "notes": list(comparison.notes),
        "lines": [line.plain() for line in comparison.lines],
    }  # fmt: skip
    texts = {
        "table.md": as_markdown(table), "table.tex": as_latex(table), "table.csv": as_csv(table),
        "lines.csv": _lines_as_csv(comparison.lines), WHOLE: json.dumps(whole, indent=1, allow_nan=False) + "\n",
    }  # fmt: skip
    for name, text in texts.items():
        write_whole(folder / name, text.encode())
    if find_spec("matplotlib") is not None:
        for name, figure in _figures(comparison).items():
            for ending in FIGURES:
                with whole_file(folder / f"{name}{ending}") as temporary:
                    figure.savefig(temporary, format=ending[1:])
    return folder


def loaded(folder: Path) -> Comparison:
    """Read what `saved` wrote."""
    try:
        found = json.loads(read_text(folder / WHOLE))
        lines = tuple(map(Line.restored, found.pop("lines")))
        notes, kind = tuple(found.pop("notes")), found.pop("transfuse")
        if kind != "comparison" or not lines:
            raise ValueError(f"it is a {kind} of {len(lines)} lines")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{folder / WHOLE} does not hold a whole comparison that transfuse saved ({error}); give a folder that "
            "`save` wrote"
        ) from error
    return Comparison(lines, found, notes)


def _lines_as_csv(lines: Sequence[Line]) -> str:
    written = io.StringIO()
    head, rows = long_table(lines)
    csv.writer(written).writerows([head, *rows])
    return written.getvalue()


def _figures(comparison: Comparison) -> dict[str, Figure]:
    """The figures of a comparison by the name of their file, for every metric."""
    found: dict[str, Figure] = {}
    for metric in comparison.metrics:
        if comparison.barriers:
            found[f"barriers-{_file_name(metric)}"] = comparison.plot(metric=metric)
        if comparison.planes:
            found[f"planes-{_file_name(metric)}"] = comparison.plot_planes(metric=metric)
    return found


def _file_name(text: str) -> str:
    """A name without what a file's name cannot hold.

    Example:
        >>> _file_name("top-5 accuracy/all")
        'top-5-accuracy-all'
    """
    return "".join(each if each.isalnum() or each in "-_" else "-" for each in text)
