"""Pages of the demo: one about each fusion, and one that shows all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from ..files import write_whole
from ..fusing import Fusion
from ..landscape import evaluator
from ..report import Report, Request, gather, page, svg
from ..report.surface import plane_map
from .data import digits
from .networks import TITLES

POINTS, GRID = 21, 15


def write_pages(
    folder: Path, fusions: Mapping[str, Fusion], rows: Sequence[Sequence[str]], *, show: bool
) -> tuple[str, ...]:
    """Measure each fusion and write its page, then the overview; the paths, the overview first."""
    reports = {kind: _measured(kind, fusion, folder, show=show) for kind, fusion in fusions.items()}
    for kind, report in reports.items():
        write_whole(folder / f"{kind}.html", page(report).encode())
    write_whole(folder / "report.html", overview(reports, rows).encode())
    return (str(folder / "report.html"), *(str(folder / f"{kind}.html") for kind in reports))


def _measured(kind: str, fusion: Fusion, folder: Path, *, show: bool) -> Report:
    images, labels = digits("test")
    request = Request(
        evaluator([(images, labels)]), POINTS, GRID, cache=folder / "cache" / f"{kind}.jsonl", progress=show
    )
    return gather(fusion, request, f"{TITLES[kind]} on handwritten digits: two networks, fused")


def overview(reports: Mapping[str, Report], rows: Sequence[Sequence[str]]) -> str:
    """All results and pictures on one page that needs nothing else."""
    shared = files("transfuse.report")
    style, script = (shared.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    sections = "".join(_section(kind, report) for kind, report in reports.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>transfuse: the demo</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>Two networks become one</h1>
<p class="verdict">Three kinds of networks, two of each, trained independently on 1,198 handwritten digits of 8 × 8
pixels, fused by their weights, and tested on 599 others. Averaging weights as they are fails, for unit 7 of one network
has nothing to do with unit 7 of the other. Matched first, the average works.</p>
<section>
<h2>Results</h2>
{_table(rows)}
<p class="note">Every row but the first and the last is one network of the size of its parents. Nothing was trained
again. Between networks of equal widths OT fusion and WB find the same, and GWB differs where there are recurrent
weights only. Run all parents and average their outputs: that is the ensemble, at twice the cost.</p>
<h2>How to read the pictures</h2>
<p>The curves: the test error of every network on the straight line between the two. As trained, the line crosses a
wall, whose height is the barrier. With the units of model 2 brought to the order of model 1 (<em>aligned</em>; it
computes what it did before), the wall is gone or low.</p>
<p>The map: the test error on the plane through model 1, model 2 and aligned model 2, dark where it is low. Both axes
are distances in the space of parameters. Point at it, or touch it, for values. A fused network whose weights were
corrected after averaging does not lie on the plane: it is drawn at its foot, with its distance.</p>
</section>
{sections}<p class="note">Digits: E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, CC BY 4.0.</p>
</main>
<script>
{script}</script>
</body>
</html>
"""


def _table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the head, the first column names."""
    head, *body = rows
    top = f'<th scope="col">{escape(head[0])}</th>'
    top += "".join(f'<th scope="col" class="n">{escape(cell)}</th>' for cell in head[1:])
    lines = []
    for name, *cells in body:
        kind = ' class="result"' if name.startswith("auto") else ""
        numbers = "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells)
        lines.append(f'<tr{kind}><th scope="row">{escape(name)}</th>{numbers}</tr>')
    listed = "\n".join(lines)
    return f'<div class="wide"><table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{listed}\n</tbody></table></div>'


def _section(kind: str, report: Report) -> str:
    """The way between the two networks, and the plane through them and the aligned second one."""
    series = {
        f"{name} (barrier {svg.number(each.height('error'))})": (each.positions.tolist(), each.of("error").tolist())
        for name, each in report.barriers.items()
    }
    ticks = {0.0: "model 1", 0.5: "midpoint", 1.0: "model 2"}
    surface = "" if report.plane is None else (
        f"<figure><h3>test error on the plane, %</h3>{plane_map(report.plane, 'error')}"
        '<output aria-live="polite"></output></figure>'
    )  # fmt: skip
    return (
        f"<section>\n<h2>{escape(TITLES[kind])}</h2>\n"
        f'<div class="pair"><figure><h3>test error between the two, %</h3>'
        f"{svg.curves(series, ticks=ticks, label='error')}</figure>{surface}</div>\n"
        f'<p><a href="{kind}.html">Everything about this fusion</a>: couplings, layout, how to do it again.</p>\n'
        "</section>\n"
    )
