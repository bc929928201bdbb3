"""Records become HTML: one set of jinja2 templates for the report and the demo, and what they draw with.

In: records. Out: one document that needs no other file; style and script are put into it. All text is escaped by the
templates, only charts (`svg`, `surface`) are markup already. What matters is on the page without script.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..landscape import Barrier
from ..landscape.pictures import PLACES, barrier_label, short_number
from ..layout import Layout
from .contents import Report, Results
from .surface import plane_map
from .svg import coupling_squares, curves
from .tables import barrier_table, mark_table, result_table, space_table, time_table, with_unit

OWN = "transfuse.report"  # whose templates every page shares
LISTED = 12  # names of tensors for one reason that are written out; a network may have thousands, the rest is counted


def page(report: Report) -> str:
    """The whole document about one fusion."""
    return render(
        "report.html", title=report.title, report=report, fixed=fixed_places(report.subject.layout),
        verdict=_verdict(report.results),
    )  # fmt: skip


def render(template: str, *, package: str = OWN, **values: Any) -> str:
    """A document from a template of a package, which may extend and import those of the report."""
    return _environment(package).get_template(template).render(**values)


@cache
def _environment(package: str) -> Environment:
    """Templates of a package, then those of the report; a name that a template lacks is an error, not an empty text."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys([package, OWN])]), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters.update(short=short_number, with_unit=with_unit, bar_width=_bar_width)
    environment.globals.update(
        asset=_asset, result_table=result_table, barrier_table=barrier_table, mark_table=mark_table,
        space_table=space_table, time_table=time_table, barrier_curves=barrier_curves,
        objective_curve=objective_curve, plane_map=plane_map, coupling_squares=coupling_squares,
    )  # fmt: skip
    return environment


def _asset(name: str) -> Markup:
    """The style or script of all pages; it is our own file, so it is not escaped."""
    return Markup(files(OWN).joinpath("templates", name).read_text("utf-8"))


def barrier_curves(barriers: Mapping[str, Barrier], metric: str, end: str = PLACES[1.0]) -> Markup:
    """A chart of a metric along segments, with the heights of the barriers in the legend; `end` is where they lead."""
    series = {
        barrier_label(name, each, metric): (each.positions.tolist(), each.of(metric).tolist())
        for name, each in barriers.items()
    }
    return curves(series, ticks={**PLACES, 1.0: end}, label=metric)


def objective_curve(values: Sequence[float]) -> Markup:
    """A chart of the objective after each sweep."""
    count = len(values)
    ticks = {1.0: "sweep 1", float(count): f"sweep {count}"}
    numbers = [float(index) for index in range(1, count + 1)]
    return curves({"objective": (numbers, values)}, ticks=ticks, label="objective", zero=False)


def _verdict(results: Results) -> dict[str, Any] | None:
    """What a reader wants to know first: one metric of the fused network, of its models, and of their plain average."""
    rows = {row.role: row.values for row in results.rows}
    if "fused" not in rows:
        return None
    metric = "error" if "error" in rows["fused"] else next(iter(rows["fused"]))
    return {
        "metric": metric,
        "unit": "\u00a0%" if metric == "error" else "",
        "fused": rows["fused"][metric],
        "models": [row.values[metric] for row in results.rows if row.role == "parent"],
        "average": rows["average"][metric] if "average" in rows else None,
    }


def fixed_places(layout: Layout) -> dict[str, str]:
    """For each reason why something stays where it is, the axes of tensors for which it holds."""
    places: dict[str, list[str]] = {}
    for tensor, axes in layout.fixed.items():
        for axis, reason in axes.items():
            places.setdefault(reason, []).append(f"{tensor} axis {axis}")
    return {reason: _some(names) for reason, names in places.items()}


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def _bar_width(share: float) -> int:
    """A share from 0 to 1 in percent; what lies outside is cut, and what is no number is empty."""
    return 0 if math.isnan(share) else round(100 * min(max(share, 0.0), 1.0))
