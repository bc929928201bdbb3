"""Pages of the demo: one about each fusion, and one that shows all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..files import write_whole
from ..fusing import Fusion
from ..landscape import evaluator
from ..report import Report, Request, Table, gather, page, render
from .data import digits
from .networks import TITLES

POINTS = 21  # networks on each segment: curves are smooth, and the three fusions measured in a few seconds
GRID = 15  # networks along each side of a plane, for the same reasons


def write_pages(folder: Path, fusions: Mapping[str, Fusion], results: Table, *, show: bool) -> tuple[str, ...]:
    """Measure each fusion and write its page, then the overview; the paths, the overview first."""
    reports = {kind: _measured(kind, fusion, folder, show=show) for kind, fusion in fusions.items()}
    for kind, report in reports.items():
        write_whole(folder / f"{kind}.html", page(report).encode())
    write_whole(folder / "report.html", overview(reports, results).encode())
    return (str(folder / "report.html"), *(str(folder / f"{kind}.html") for kind in reports))


def _measured(kind: str, fusion: Fusion, folder: Path, *, show: bool) -> Report:
    """The report on one pair, with its barriers and plane on the test digits."""
    request = Request(
        evaluate=evaluator([digits("test")]),
        points=POINTS,
        grid=GRID,
        cache=folder / "cache" / f"{kind}.jsonl",
        progress=show,
    )
    return gather(fusion, request, f"{TITLES[kind]} on handwritten digits: two networks, fused")


def overview(reports: Mapping[str, Report], results: Table) -> str:
    """All results and pictures on one page that needs nothing else."""
    return render(
        "overview.html", package="transfuse.demo", title="transfuse: the demo", reports=reports, results=results,
        titles=TITLES,
    )  # fmt: skip
