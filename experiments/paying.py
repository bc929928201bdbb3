"""When fusing pays: the lines of all experiments that have a control, as the tables of one page of the documentation.

In: lines, and the page. Out: the page, with what stands between its two marks made anew. What is *kept* is the better
parent or the control, whichever is better on the test examples of a pair: more than anybody could choose without
labels, so that a gain is one.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from transfuse import InputError

from .catalogue import EXPERIMENTS
from .profiles import PROFILES as SETTINGS
from .records import Cell
from .rows import CONTROLS
from .tables import markdown

Line = Mapping[str, Any]
Accuracies = Mapping[int, float]  # by group
BEGIN = "<!-- made by `python -m experiments page`: begin -->"
END = "<!-- made by `python -m experiments page`: end -->"
PROFILES = ("hours", "cpu")  # whose lines are shown; what both have stands once, as the first has it
# By the inputs that are given: the row of the control, the rows of fusions (the last one that was measured counts).
GIVEN = {
    "With 500 unlabeled inputs": ("control-500", ("refit-500", "selection-500", "auto-500")),
    "With 100 unlabeled inputs": ("control-100", ("refit-100", "selection-100")),
    "Without data": ("control", ("refit", "selection", "auto")),
}
KINDS = (("Parents that know different things", True), ("Parents of one task", False))
HEAD = ["", "pairs", "better parent", "one parent, last layer refitted", "couplings only", "fused", "ensemble",
        "gain over what is kept"]  # fmt: skip


def filled(page: str, found: Sequence[Line]) -> str:
    """The page with its tables made anew.

    Raises:
        InputError: the page lacks the marks.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise InputError(f"the page has not one line {BEGIN} and one line {END}; tables are put between these")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    return f"{before}{BEGIN}\n{comparison(found)}\n{END}{after}"


def comparison(found: Sequence[Line]) -> str:
    """For each number of inputs a table of each kind of parents: what is kept, what is fused, and the gain."""
    parts = []
    for title, (control, fusions) in GIVEN.items():
        rows: dict[str, tuple[Cell, list[str]]] = {}  # by title
        for profile in PROFILES:
            own: dict[str, tuple[Cell, list[str]]] = {}
            for cell, lines in _cells([line for line in found if line["profile"] == profile and "error" not in line]):
                if (row := _row(cell, lines, control, fusions)) is not None:
                    # What two experiments have in common stands once, by the one that has more pairs.
                    best = own.get(cell.title, (cell, row))
                    own[cell.title] = max(best, (cell, row), key=lambda each: int(each[1][1]))
            rows |= {name: each for name, each in own.items() if name not in rows}
        tables = [(kind, [row for cell, row in rows.values() if _differ(cell) is differ]) for kind, differ in KINDS]
        tables = [(kind, table) for kind, table in tables if table]
        parts += [f"\n### {title}\n"] if tables else []
        parts += [f"\n#### {kind}\n\n{markdown([HEAD, *table])}" for kind, table in tables]
    return "".join(parts)


def _alike(cell: Cell) -> bool:
    """Whether the parents count alike: curves by other proportions are in the results."""
    return cell.weights is None or len(set(cell.weights)) == 1


def _differ(cell: Cell) -> bool:
    """Whether the parents have seen different things."""
    settings = SETTINGS["paper"].settings
    return len({settings[name].data.skill for name in cell.settings}) > 1


def _cells(found: Sequence[Line]) -> Iterator[tuple[Cell, dict[str, Accuracies]]]:
    """The cells of all experiments in their order, and the accuracies of their rows.

    What is kept does not depend on the target: a cell that measures another width has it from the cell before.
    """
    for name, experiment in EXPERIMENTS.items():
        kept: dict[object, dict[str, dict[int, float]]] = {}
        for cell in filter(_alike, experiment.cells):
            rows: dict[str, dict[int, float]] = {}
            for line in found:
                if (line["experiment"], line["cell"]) == (name, cell.title) and "accuracy" in line["metrics"]:
                    rows.setdefault(line["row"], {})[line["group"]] = line["metrics"]["accuracy"]
            parents = kept.setdefault((cell.settings, cell.models, cell.weights, cell.turns), {})
            parents.update((row, rows[row]) for row in CONTROLS if row in rows)
            yield cell, parents | rows


def _row(cell: Cell, rows: Mapping[str, Accuracies], control: str, fusions: Sequence[str]) -> list[str] | None:
    """A line of the table; nothing if something is missing."""
    fused = next((rows[name] for name in reversed(fusions) if name in rows), None)
    if fused is None or control not in rows or "better" not in rows:
        return None
    groups = sorted(fused.keys() & rows[control].keys() & rows["better"].keys())
    gains = [fused[each] - max(rows["better"][each], rows[control][each]) for each in groups]
    if not gains:
        return None
    shown = [rows["better"], rows[control], rows.get("auto-plain", {}), fused, rows.get("ensemble", {})]
    return [cell.title, str(len(groups)), *(_mean(each, groups) for each in shown), _spread(gains)]


def _mean(values: Accuracies, groups: Sequence[int]) -> str:
    known = [values[group] for group in groups if group in values]
    return f"{statistics.mean(known):.2f}" if len(known) == len(groups) else ""


def _spread(gains: Sequence[float]) -> str:
    """The mean gain, and the least and the most.

    Example:
        >>> _spread([1.0, 2.0])
        '**+1.50** (+1.00 to +2.00)'
    """
    return f"**{statistics.mean(gains):+.2f}** ({min(gains):+.2f} to {max(gains):+.2f})"
