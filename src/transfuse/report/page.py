"""The page: one HTML file that needs nothing else, from a `Report`.

Pure: text out of data. Style and script are the files beside this one. All that matters is there without script.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files

from ..layout import Layout
from .contents import Report
from .surface import plane_map
from .svg import coupling, curves, number

LISTED = 12  # names of tensors for one reason; the rest is counted


def page(report: Report) -> str:
    """The whole document."""
    style, script = (files(__package__).joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    sections = (
        _results(report), _barriers(report), _plane(report), _fused(report), _couplings(report),
        _similarity(report), _objective(report), _made(report),
    )  # fmt: skip
    title = escape(report.title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n{_verdict(report)}\n{''.join(sections)}</main>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(part for part in parts if part) + "\n</section>\n"


def _table(head: Iterable[str], rows: Iterable[tuple[str, ...]], result: str = "") -> str:
    """The first column is a name, the others are numbers or markup; the row called `result` stands out."""
    first, *others = map(escape, head)
    top = f'<th scope="col">{first}</th>' + "".join(f'<th scope="col" class="n">{name}</th>' for name in others)
    lines = []
    for name, *cells in rows:
        kind = ' class="result"' if result and name == result else ""
        columns = "".join(f'<td class="n">{cell}</td>' for cell in cells)
        lines.append(f'<tr{kind}><th scope="row">{escape(name)}</th>{columns}</tr>')
    body = "\n".join(lines)
    return f'<div class="wide"><table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _verdict(report: Report) -> str:
    """What a reader wants to know first, in a sentence."""
    rows = {row.name: row.values for row in report.rows}
    if "fused" not in rows:
        return ""
    metric = "error" if "error" in rows["fused"] else next(iter(rows["fused"]))
    unit = "\u00a0%" if metric == "error" else ""
    bases = [values[metric] for name, values in rows.items() if name.startswith("model ")]
    average = rows.get("vanilla (plain average)")
    plain = f"; averaged as they are: {number(average[metric])}{unit}" if average else ""
    return (
        f'<p class="verdict">{escape(metric.capitalize())} of the fused network: '
        f"<strong>{number(rows['fused'][metric])}{unit}</strong>. "
        f"Its models: {', '.join(number(base) for base in bases)}{unit}{plain}.</p>"
    )


def _results(report: Report) -> str:
    if not report.rows:
        return ""
    metrics = list(report.rows[0].values)
    head = ["network", *(f"{metric}, %" if metric == "error" else metric for metric in metrics), "parameters"]
    rows = [(row.name, *(_exact(row.values[each]) for each in metrics), f"{row.parameters:,}") for row in report.rows]
    return _section("Results", _table(head, rows, result="fused"))


def _exact(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def _barriers(report: Report) -> str:
    if not report.barriers:
        return ""
    metrics = next(iter(report.barriers.values())).metrics
    figures = []
    for metric in metrics:
        series = {
            f"{name} (barrier {number(each.height(metric))})": (each.positions.tolist(), each.of(metric).tolist())
            for name, each in report.barriers.items()
        }
        chart = curves(series, ticks={0.0: "model 1", 0.5: "midpoint", 1.0: "model 2"}, label=metric)
        figures.append(f"<figure><h3>{escape(_unit(metric))}</h3>{chart}</figure>")
    text = (
        "<p>Every network on the straight line from model 1 to model 2, evaluated. The barrier is how far the values "
        "rise above the line between the two ends, at most. <em>Aligned</em>: with the units of model 2 brought to the "
        "order of model 1, which changes nothing of what it computes.</p>"
    )
    heights = [
        (name, *(number(value) for metric in metrics for value in (each.midpoint(metric), each.height(metric))))
        for name, each in report.barriers.items()
    ]
    head = ["", *(f"{metric}, {what}" for metric in metrics for what in ("midpoint", "barrier"))]
    return _section("Barriers", text, f'<div class="pair">{"".join(figures)}</div>', _table(head, heights))


def _unit(metric: str) -> str:
    return f"{metric}, %" if metric == "error" else metric


def _plane(report: Report) -> str:
    plane = report.plane
    if plane is None:
        return ""
    figures = [
        f"<figure><h3>{escape(_unit(metric))}</h3>{plane_map(plane, metric)}"
        f'<output aria-live="polite"></output></figure>'
        for metric in plane.metrics
    ]
    head = ["network", "x", "y", "distance from the plane", *plane.metrics]
    rows = [
        (mark.name, *(number(round(each, 4) + 0.0) for each in (mark.x, mark.y, mark.distance)),
         *(_exact(mark.values[metric]) for metric in plane.metrics))
        for mark in plane.marks
    ]  # fmt: skip
    text = (
        "<p>All affine combinations of model 1, model 2 and aligned model 2. Both axes are distances in the space of "
        f"parameters. {len(plane.y)} × {len(plane.x)} networks were evaluated, colours in between are interpolated; "
        "they grow with the logarithm of the height above the lowest value. Point at the map, or touch it, for the "
        "values of the nearest network.</p>"
    )
    return _section("Plane", text, f'<div class="pair">{"".join(figures)}</div>', _table(head, rows), _notes(report))


def _notes(report: Report) -> str:
    """What could not be shown, or not as one might expect."""
    return "".join(f'<p class="note">{escape(note)}</p>' for note in report.notes)


def _fused(report: Report) -> str:
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in report.facts.items())
    notes = "" if report.plane else _notes(report)  # beside the plane if there is one: most are about it
    varied = any(len(set(units)) > 1 for units in report.widths.values())
    spaces = _table(
        ["space", "units", *(["units of the models"] if varied else []), "beyond permutation"],
        [
            (space.name, str(units[0]), *([", ".join(map(str, units[1:]))] if varied else []),
             _symmetry(space.signs, space.scales))
            for space, units in ((space, report.widths[space.name]) for space in report.layout.spaces)
        ],
    )  # fmt: skip
    layout = f"<details><summary>The whole layout</summary><pre>{escape(str(report.layout))}</pre></details>"
    return _section(
        "What was fused", f"<dl>{facts}</dl>", notes, "<h3>What moves</h3>", spaces, _fixed(report.layout), layout
    )


def _symmetry(signs: bool, scales: bool) -> str:
    return ", ".join(name for name, has in (("signs", signs), ("scales", scales)) if has) or "nothing"


def _fixed(layout: Layout) -> str:
    """Why things stay where they are, by reason."""
    places: dict[str, list[str]] = {}
    for tensor, axes in layout.fixed.items():
        for axis, reason in axes.items():
            places.setdefault(reason, []).append(f"{tensor} axis {axis}")
    if not places:
        return ""
    lines = "".join(f"<li>{escape(_some(names))}: {escape(reason)}</li>" for reason, names in places.items())
    return f"<h3>What stays, and why</h3><ul>{lines}</ul>"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def _couplings(report: Report) -> str:
    if not report.couplings:
        return ""
    return _section(
        "Couplings",
        "<p>Rows: units of the result. Columns: units of the model. One entry per unit is a permutation; negated units "
        "have the other colour. Wide layers are drawn in fewer cells.</p>",
        f'<div class="small">{"".join(_coupling_pictures(report))}</div>',
    )


def _coupling_pictures(report: Report) -> Iterator[str]:
    for each in report.couplings:
        negated = f", {each.negated} negated" if each.negated else ""
        yield (
            f"<div>{coupling(each.image)}<h3>model {each.model}: {escape(each.space)}</h3>"
            f'<p class="soft">{each.shape[0]} × {each.shape[1]}; {_entries(each.entries)} per unit{negated}</p>'
            "</div>"
        )


def _entries(count: float) -> str:
    told = number(count)
    return f"{told} {'entry' if told == '1' else 'entries'}"


def _similarity(report: Report) -> str:
    if not report.similarity:
        return ""
    rows = [
        (name, f"{before:.3f} {_bar(before, 'before')}", f"{after:.3f} {_bar(after, 'after')}")
        for name, (before, after) in report.similarity.items()
    ]
    text = (
        "<p>The cosine between each tensor of model 1 and the others' (mean), before and after they were aligned.</p>"
    )
    return _section("Similarity of layers", text, _table(["tensor", "as trained", "aligned"], rows))


def _bar(share: float, kind: str) -> str:
    width = 0 if math.isnan(share) else round(100 * min(max(share, 0.0), 1.0))
    return f'<span class="bar {kind}"><i style="width:{width}%"></i></span>'


def _objective(report: Report) -> str:
    count = len(report.objective)
    if count < 2:
        return ""
    numbers = [float(index) for index in range(1, count + 1)]
    ticks = {1.0: "sweep 1", float(count): f"sweep {count}"}
    chart = curves({"objective": (numbers, report.objective)}, ticks=ticks, label="objective", zero=False)
    return _section("Objective", f'<div class="pair"><figure>{chart}</figure></div>')


def _made(report: Report) -> str:
    times = _table(["step", "seconds"], [(name, f"{each:.1f}") for name, each in report.seconds.items()])
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items() if name != "date")
    return _section(
        "How it was made",
        times,
        f"<p>{escape(versions)}. {escape(report.versions.get('date', ''))}.</p>",
        f"<pre>{escape(report.recipe)}</pre>",
    )
