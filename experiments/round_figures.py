"""Lines of federations become figures: accuracy against rounds, a panel for each cell of a family.

In: lines with curves. Out: figures by name.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from transfuse import plots

from .catalogue import EXPERIMENTS
from .rows import ROWS

Line = Mapping[str, Any]
COLUMNS = 2  # clients that begin together, and each with a start of its own


def round_figures(found: Sequence[Line]) -> Iterator[tuple[str, str, Any]]:
    """Family, profile and figure of every family that has curves."""
    own = [line for line in found if line.get("curve")]
    families = {(line["family"], line["profile"]) for line in own}
    for family, profile in sorted(families):
        cells = [cell.title for cell in EXPERIMENTS["federated"].cells if cell.family == family]
        lines = [line for line in own if (line["family"], line["profile"]) == (family, profile)]
        shown = [cell for cell in cells if any(line["cell"] == cell for line in lines)]
        if shown:
            yield family, profile, _figure(family, shown, lines)


def _figure(family: str, cells: Sequence[str], lines: Sequence[Line]) -> Any:
    from matplotlib import style
    from matplotlib.figure import Figure

    columns = min(COLUMNS, len(cells)) if len(cells) % COLUMNS == 0 else 1
    rows = len(cells) // columns
    with style.context(["default", plots.STYLE]):
        size = (columns * plots.HALF_COLUMN * 0.85, 1.7 * rows + 0.9)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        names = [row for row in ROWS if any(line["row"] == row for line in lines)]
        for axes, cell in zip(panels.flat, cells, strict=True):
            for number, row in enumerate(names):
                _curve(axes, number, row, [line for line in lines if (line["cell"], line["row"]) == (cell, row)])
            axes.set_title(cell.removeprefix(f"{family}, "))
            axes.set_ylim(0, 100)
            axes.set_xticks(range(0, max(len(line["curve"]) for line in lines), 2))
        for axes in panels[-1]:
            axes.set_xlabel("round")
        for axes in panels[:, 0]:
            axes.set_ylabel("test accuracy, %")
        figure.suptitle(family, fontsize=8)
        handles = panels.flat[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=1, fontsize=6)
    return figure


def _curve(axes: Any, number: int, row: str, lines: Sequence[Line]) -> None:
    """The mean over seeds after every round, in a band from the least to the most."""
    if not lines:
        return
    columns = list(zip(*(line["curve"] for line in lines), strict=True))
    colour, marker = plots.COLOURS[number], plots.MARKERS[number]
    means = [statistics.mean(column) for column in columns]
    style = "-" if number % 2 == 0 else "--"  # one above another are both seen
    axes.plot(range(len(means)), means, label=ROWS[row].title, color=colour, marker=marker, linestyle=style)
    axes.fill_between(
        range(len(means)), [min(column) for column in columns], [max(column) for column in columns], color=colour,
        alpha=0.15, linewidth=0,
    )  # fmt: skip
