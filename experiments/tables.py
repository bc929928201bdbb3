"""Lines of results become a page: every table beside the paper's numbers, with spread, number and all deviations.

In: lines, and nothing else that was measured. Out: Markdown. The order of tables, rows and cells is the catalogue's.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transfuse.comparison import as_markdown
from transfuse.files import whole_lines
from transfuse.report import Table

from .catalogue import EXPERIMENTS
from .paper import PAPER, Number, best
from .records import Experiment
from .rows import ROWS

Line = Mapping[str, Any]
ORDER = ("paper", "hours", "cpu", "smoke")
MANY_CELLS = 9  # more are written one below the other
GAIN = {"auto": "of the paper's gap closed by auto", "auto-500": "the same with 500 unlabeled inputs"}
HEAD = """# Results

Made by `python -m experiments tables` from the lines in `experiments/results`, and from nothing else;
[docs/experiments.md](docs/experiments.md) says how to run them. Numbers are test accuracies in percent (of language
models, the loss in *nats* a character): mean ± standard deviation (number of groups of base networks), and below it the
paper's. Hyper-parameters were chosen on validation examples, never on test examples. Figures from the same lines are in
`experiments/figures`. What the numbers say, where goals were missed and what was tried is in
[docs/experiments.md](docs/experiments.md).
"""
LIKENESS = """\
How like the parents' the answers are: squared distance of outputs to the mean of the parents', relative to the square
of that mean; then in percent the distance of class probabilities to the ensemble's (total variation); the agreement
with the ensemble; with each parent (of more than two, the least and the most).
"""
SELF_EVIDENT = ("base", "ensemble")  # rows whose likeness says nothing
NOTHING = "\nThere are no results yet: `python -m experiments run all --profile cpu` makes some.\n"
PROFILES = {
    "paper": "settings of the paper's Appendix F",
    "hours": "networks that one core trains in minutes to half an hour each, to an accuracy that is of use; "
    "deviations from the paper are listed below each table",
    "cpu": "what two cores do in hours; deviations from the paper are listed below each table",
    "smoke": "a test of the program on tiny networks and 8 x 8 digits: **the numbers mean nothing**",
}


def all_lines(folder: Path) -> list[Line]:
    """The lines of a folder; of several for one place the last counts."""
    found: dict[tuple[Any, ...], Line] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in whole_lines(path):
            place = tuple(line[name] for name in ("profile", "experiment", "cell", "row", "group"))
            if "error" not in line or place not in found:
                found[place] = line
    return list(found.values())


def page(found: Sequence[Line]) -> str:
    """The whole page."""
    parts = [HEAD]
    for profile in ORDER:
        own = [line for line in found if line["profile"] == profile]
        if own:
            parts.append(f"\nProfile `{profile}`: {PROFILES[profile]}.\n")
        for name, experiment in EXPERIMENTS.items():
            chosen = [line for line in own if line["experiment"] == name]
            parts += [section(name, experiment, profile, chosen)] if chosen else []
    strange = sum(not _is_known(line) for line in found)
    if strange:
        parts.append(f"\n{strange} lines belong to no experiment, cell or row of the catalogue and are left out.\n")
    return "".join(parts if found else [HEAD, NOTHING])


def _is_known(line: Line) -> bool:
    experiment = EXPERIMENTS.get(line["experiment"])
    return experiment is not None and any(
        line["cell"] == cell.title and line["row"] in cell.rows for cell in experiment.cells
    )


def section(name: str, experiment: Experiment, profile: str, own: Sequence[Line]) -> str:
    """One experiment: its tables, and what is to be said about them."""
    own = [line for line in own if _is_known(line)]
    cells = [cell.title for cell in experiment.cells if any(line["cell"] == cell.title for line in own)]
    numbers = PAPER.get(name, {}) if profile != "smoke" else {}
    tables = [_table(own, cells, numbers), _likeness(own, cells)]
    if experiment.apart:
        tables = []
        for family in dict.fromkeys(cell.family for cell in experiment.cells if cell.title in cells):
            mine = [cell.title for cell in experiment.cells if cell.title in cells and cell.family == family]
            tables += [f"### {family[0].upper()}{family[1:]}\n\n", _table(own, mine, numbers), _likeness(own, mine)]
    about = [*_about(own, cells), *_chosen(own), *_failures(own)]
    return f"\n## {experiment.title} (`{profile}`)\n\n{''.join(tables)}" + "".join(f"- {text}\n" for text in about)


def _table(own: Sequence[Line], cells: Sequence[str], numbers: Mapping[str, Mapping[str, Number]]) -> str:
    """Accuracies by row and cell, beside the paper's."""
    rows = _rows(own, cells)
    table = [
        [ROWS[row].title, *(entry(_at(own, cell, row), numbers.get(cell, {}).get(row)) for cell in cells)]
        for row in rows
    ]
    table += [
        [f"*share {title}*", *(gain(own, cell, row, numbers.get(cell)) for cell in cells)]
        for row, title in GAIN.items()
        if numbers and row in rows
    ]
    return markdown(_turned([["", *cells], *table])) + "\n"


def _likeness(own: Sequence[Line], cells: Sequence[str]) -> str:
    """How like the ensemble's and the parents' the answers are, where lines say so."""
    own = [line for line in own if "likeness" in line]
    rows = [row for row in _rows(own, cells) if row not in SELF_EVIDENT]
    table = [[ROWS[row].title, *(alike(_at(own, cell, row)) for cell in cells)] for row in rows]
    return f"{LIKENESS}\n{markdown(_turned([['', *cells], *table]))}\n" if table else ""


def alike(measured: Sequence[Line]) -> str:
    """Means over groups of what `likeness` measured.

    Example:
        >>> alike([{"likeness": {"outputs": 0.004, "distance": 3.0, "ensemble": 97.0, "parents": [51.0, 46.0]}}])
        '0.004; 3.0; 97.0; 51.0, 46.0'
    """
    found = [line["likeness"] for line in measured]
    if not found:
        return ""
    outputs, distance, ensemble = (
        statistics.mean(each[name] for each in found) for name in ("outputs", "distance", "ensemble")
    )
    parents = [statistics.mean(column) for column in zip(*(each["parents"] for each in found), strict=True)]
    told = f"{parents[0]:.1f}, {parents[1]:.1f}" if len(parents) == 2 else f"{min(parents):.1f} to {max(parents):.1f}"
    return f"{outputs:.2g}; {distance:.1f}; {ensemble:.1f}; {told}"


def _rows(own: Sequence[Line], cells: Sequence[str]) -> list[str]:
    """The rows that some cell has, in their order."""
    return [row for row in ROWS if any(line["row"] == row and line["cell"] in cells for line in own)]


def _turned(grid: list[list[str]]) -> list[list[str]]:
    """A table with many columns has them one below the other."""
    return [list(column) for column in zip(*grid, strict=True)] if len(grid[0]) > MANY_CELLS + 1 else grid


def _at(own: Iterable[Line], cell: str, row: str) -> list[Line]:
    return [line for line in own if line["cell"] == cell and line["row"] == row and "error" not in line]


def entry(measured: Sequence[Line], published: tuple[float, float] | None) -> str:
    """Mean ± standard deviation (number), and the paper's.

    Example:
        >>> entry([{"metrics": {"accuracy": 97.0}}, {"metrics": {"accuracy": 99.0}}], (96.5, 0.25))
        '98.00 ± 1.41 (2)<br>paper 96.50 ± 0.25'
    """
    texts = []
    for metric in measured[0]["metrics"] if measured else ():
        title = "" if metric == "accuracy" else f"{metric} "
        texts.append(title + spread([line["metrics"][metric] for line in measured]))
    if published is not None:
        texts.append(f"paper {published[0]:.2f} ± {published[1]:.2f}")
    return "<br>".join(texts)


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation (number)."""
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation} ({len(values)})"


def gain(own: Sequence[Line], cell: str, row: str, numbers: Mapping[str, tuple[float, float]] | None) -> str:
    """The share of the paper's gap (base networks minus best method) that is closed: 1 - our gap / its gap."""
    base, fused = (_at(own, cell, each) for each in ("base", row))
    if not numbers or not base or not fused:
        return ""
    ours = _mean(base) - _mean(fused)
    return f"{100 * (1 - ours / (numbers['base'][0] - best(dict(numbers)))):.0f} %"


def _mean(measured: Sequence[Line]) -> float:
    return float(statistics.mean(line["metrics"]["accuracy"] for line in measured))


def markdown(grid: Sequence[Sequence[str]]) -> str:
    """A table; the first row is its head."""
    head, *body = grid
    return as_markdown(Table(head, body))


def _about(own: Sequence[Line], cells: Sequence[str]) -> list[str]:
    """Deviations and notes, said once for all cells that share them."""
    said: dict[str, list[str]] = {}
    for cell in cells:
        mine = [line for line in own if line["cell"] == cell]
        for text in dict.fromkeys(
            text for line in mine for text in [*line["deviations"], *line["notes"], *_files(line)]
        ):
            said.setdefault(text, []).append(cell)
    shared: dict[str, list[str]] = {}
    for text, where in said.items():
        shared.setdefault("all" if len(where) == len(cells) else "; ".join(where), []).append(text)
    return [f"**{where}**: {'; '.join(texts)}" for where, texts in shared.items()]


def _files(line: Line) -> list[str]:
    """What is to be said about networks that were not trained here."""
    if not any("file" in base for base in line["base"]):
        return []
    return ["base networks from files: validation examples may have been among their training examples"]


def _chosen(own: Sequence[Line]) -> list[str]:
    """Hyper-parameters, and how often they were chosen."""
    counts = Counter(
        (ROWS[line["row"]].title, line["cell"], ", ".join(f"{name} {value}" for name, value in line["chosen"].items()))
        for line in own
        if "chosen" in line
    )
    told: dict[tuple[str, str], list[str]] = {}
    for (row, cell, text), count in counts.items():
        told.setdefault((row, cell), []).append(f"{text} ({count} x)")
    return [f"chosen for {row}, {cell}: {'; '.join(texts)}" for (row, cell), texts in told.items()]


def _failures(own: Sequence[Line]) -> list[str]:
    return [
        f"failed: {line['cell']}, {ROWS[line['row']].title}, group {line['group']}: {line['error'].splitlines()[0]}"
        for line in own
        if "error" in line
    ]
