"""Lines of results become figures in SVG: curves over proportions, numbers of models and rounds, barriers, planes.

In: lines. Out: files. The same lines give the same bytes.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from transfuse import InputError, plots

from .catalogue import EXPERIMENTS
from .landscapes import barrier_of, plane_of
from .round_figures import round_figures
from .rows import ROWS

Line = Mapping[str, Any]
AXES = {
    "heterogeneous": "proportion of model A",
    "table3": "number of networks",
    "many": "number of networks",
    "widths": "width of the result, in widths of a parent",
    "images": "number of unlabeled images",
    "synthetic": "number of synthetic images",
    "epochs": "epochs of training",
}
IN_ERRORS = ("table3", "many")  # errors there go from one percent to most: on a logarithmic scale
BY_FACTORS = ("images", "synthetic", "epochs")  # the horizontal axis there is logarithmic
SHOWN = {False: ("error", "test error, %"), True: ("loss", "test loss, nats")}  # of classes, and of texts
ERRORS = (1, 2, 5, 10, 20, 50)
LONGEST = 34  # letters of titles in a legend of two columns


def draw(found: Sequence[Line], folder: Path) -> list[Path]:
    """All figures that the lines give."""
    try:
        import matplotlib
    except ImportError as error:
        raise InputError("figures need matplotlib: pip install 'transfuse[plots]'") from error
    folder.mkdir(parents=True, exist_ok=True)
    good = [line for line in found if "error" not in line]
    paths = []
    with matplotlib.rc_context({"svg.hashsalt": "transfuse"}):
        rounds = ((slug("federated", family, profile), figure) for family, profile, figure in round_figures(good))
        for name, figure in (*_curves(good), *rounds, *_landscapes(good)):
            path = folder / f"{name}.svg"
            figure.savefig(path, metadata={"Date": None})
            paths.append(path)
    return paths


def _panels(found: Sequence[Line]) -> dict[tuple[str, str, str], list[Line]]:
    """Lines with a place on a horizontal axis, by profile, experiment and family."""
    panels: dict[tuple[str, str, str], list[Line]] = {}
    for line in found:
        if line["place"] is not None:
            panels.setdefault((line["profile"], line["experiment"], line["family"]), []).append(line)
    return panels


def _curves(found: Sequence[Line]) -> Iterator[tuple[str, Any]]:
    from matplotlib import style
    from matplotlib.figure import Figure

    for (profile, experiment, family), own in sorted(_panels(found).items()):
        with style.context(["default", plots.STYLE]):
            series, errors = _series(own), experiment in IN_ERRORS
            columns = 2 if max(map(len, series)) <= LONGEST else 1  # long titles beside each other would be cut off
            height = 2.6 if columns == 2 else 2.1 + 0.13 * len(series)
            figure = Figure(figsize=(plots.HALF_COLUMN, height), layout="constrained")
            axes = figure.subplots()
            for number, (title, points) in enumerate(series.items()):
                _curve(axes, number, title, points, errors=errors)
            axes.set_xlabel(AXES[experiment])
            places = sorted({line["place"] for line in own})
            if experiment in BY_FACTORS:
                axes.set_xscale("log")
                axes.set_xticks(places, [f"{place:g}" for place in places])
                axes.minorticks_off()
            if errors:
                axes.set_xticks(places)
                axes.set_yscale("log")
                axes.set_yticks(ERRORS, [f"{error:g}" for error in ERRORS])
                axes.minorticks_off()
            between = any("landscape" in line for line in own)
            axes.set_ylabel("barrier, %" if between else f"test {'error' if errors else 'accuracy'}, %")
            axes.set_title(family)
            figure.legend(loc="outside lower center", ncols=columns, fontsize=6)
        yield slug(experiment, family, profile), figure


def _series(own: Sequence[Line]) -> dict[str, list[tuple[float, float]]]:
    """What is drawn, by title: places and values. Accuracies; or barriers, where lines have them."""
    between = [line for line in own if "landscape" in line]
    found: dict[str, list[tuple[float, float]]] = {}
    for row in (row for row in ROWS if any(line["row"] == row for line in between or own)):
        mine, title = [line for line in between or own if line["row"] == row], ROWS[row].title
        shown = {title: "accuracy"}
        if between:
            shown = {"as trained": "barrier as trained", f"aligned by {title}": "barrier aligned"}
        found |= {name: [(line["place"], line["metrics"][key]) for line in mine] for name, key in shown.items()}
    return found


def _curve(axes: Any, number: int, title: str, points: Sequence[tuple[float, float]], *, errors: bool) -> None:
    """Means of values over groups, with bars of one standard deviation."""
    places = sorted({place for place, _ in points})
    groups = [[value for where, value in points if where == place] for place in places]
    groups = [[100 - value for value in values] for values in groups] if errors else groups
    means = [statistics.mean(values) for values in groups]
    bars = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in groups]
    turn, number = divmod(number, len(plots.COLOURS))  # colours come again with broken lines
    look = {"color": plots.COLOURS[number], "marker": plots.MARKERS[number], "linestyle": ("-", "--")[turn % 2]}
    axes.errorbar(places, means, yerr=bars, label=title, capsize=1.5, elinewidth=0.6, **look)


def _landscapes(found: Sequence[Line]) -> Iterator[tuple[str, Any]]:
    """For each cell the barriers of all rows, and for each row the plane if it has one; of the first group there."""
    for experiment in EXPERIMENTS.values():
        for cell in (cell for cell in experiment.cells if cell.place is None):
            for profile in sorted({line["profile"] for line in found}):
                own = [
                    line
                    for line in found
                    if "landscape" in line and line["cell"] == cell.title and line["profile"] == profile
                ]
                own = [line for line in own if line["group"] == min(each["group"] for each in own)]
                if own and any(line["row"] in cell.rows for line in own):
                    yield from _of_cell(cell.title, profile, own)


def _of_cell(title: str, profile: str, own: Sequence[Line]) -> Iterator[tuple[str, Any]]:
    metric, label = SHOWN["nats midway" in own[0]["metrics"]]
    curves = {"as trained": barrier_of(own[0]["landscape"]["trained"])}
    for line in own:
        curves[f"aligned by {ROWS[line['row']].title}"] = barrier_of(line["landscape"]["aligned"])
    yield slug("barriers", title, profile), plots.barriers(curves, metric=metric, label=label)
    for line in own:
        if "plane" not in line["landscape"]:
            continue
        row = ROWS[line["row"]].title
        figure = plots.plane(plane_of(line["landscape"]["plane"]), metric=metric, title=f"{title}, {row}: {label}")
        yield slug("plane", title, row, profile), figure


def slug(*texts: str) -> str:
    """A name for a file.

    Example:
        >>> slug("plane", "MNIST MLPNet", "cpu")
        'plane-mnist-mlpnet-cpu'
    """
    return re.sub(r"[^a-z0-9]+", "-", " ".join(texts).lower()).strip("-")
