"""Records become HTML: one set of jinja2 templates for the report and the demo, and what they draw with.

In: records. Out: one document that needs no other file; style and script are put into it. All text is escaped by the
templates, only charts (`svg`, `surface`) are markup already. What matters is on the page without script.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..landscape.pictures import short_number
from ..layout import Layout
from . import downloads
from .citing import citation
from .contents import Report
from .first_lines import opening, unit_of
from .svg import Chart, coupling_squares, curves
from .tables import barrier_table, mark_table, result_table, space_table, time_table, with_unit
from .travel import end_name, journeys, motion, step_names, step_values, travel_chart, travel_map

OWN = "transfuse.report"  # whose templates every page shares
LISTED = 12  # names of tensors for one reason that are written out; a network may have thousands, the rest is counted


def page(report: Report, card: str = "") -> str:
    """The whole document about one fusion; `card` is the address of its preview card."""
    results = report.results
    models = report.subject.models
    first = opening(results, models)
    end = end_name(models)
    ways = {metric: journeys({f"j{index}": results}, metric, end) for index, metric in enumerate(_metrics(report))}
    shown = {metric: each for metric, found in ways.items() for each in found.values()}
    return render(
        "report.html", title=report.title, report=report, opening=first, journeys=shown, card=card,
        motion=motion(shown.values()), fixed=fixed_places(report.subject.layout), end=end,
    )  # fmt: skip


def _metrics(report: Report) -> list[str]:
    """The metrics that were measured between networks."""
    return list(next(iter(report.results.barriers.values())).metrics) if report.results.barriers else []


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
    environment.filters.update(short=short_number, with_unit=with_unit, unit=unit_of, share=_share)
    environment.globals.update(
        asset=_asset, policy=policy, citation=citation, result_table=result_table, barrier_table=barrier_table,
        mark_table=mark_table, space_table=space_table, time_table=time_table, objective_curve=objective_curve,
        coupling_squares=coupling_squares, travel_chart=travel_chart, travel_map=travel_map, step_names=step_names,
        step_values=step_values, address=downloads.csv_address, result_csv=downloads.result_csv,
        barrier_csv=downloads.barrier_csv, plane_csv=downloads.plane_csv,
    )  # fmt: skip
    return environment


def _asset(name: str) -> Markup:
    """The style or script of all pages; it is our own file, so it is not escaped."""
    return Markup(files(OWN).joinpath("templates", name).read_text("utf-8"))


def policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """What a browser may do with a page: run and apply what stands in it, by hash, and load nothing else.

    Example:
        >>> policy([], [""]).split("; ")[2]
        "script-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    kinds = {"style-src": styles, "script-src": scripts}
    own = (f"{kind} {' '.join(map(_hashed, texts)) or _NOTHING}" for kind, texts in kinds.items())
    return "; ".join(
        [f"default-src {_NOTHING}", *own, "img-src data: blob:", f"base-uri {_NOTHING}", f"form-action {_NOTHING}"]
    )


_NOTHING = "'none'"


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def objective_curve(values: Sequence[float]) -> Markup:
    """A chart of the objective after each sweep."""
    count = len(values)
    ticks = {1.0: "sweep 1", float(count): f"sweep {count}"}
    series = {"objective": ([float(index) for index in range(1, count + 1)], values)}
    return curves(series, Chart.around(series.values(), zero=False), ticks=ticks, label="objective")


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


def _share(value: float) -> float:
    """A share from 0 to 1 in percent; what lies outside is cut, and what is no number is empty."""
    return 0.0 if math.isnan(value) else round(100 * min(max(value, 0.0), 1.0), 1)
