"""Pages of the demo: one about each fusion, and one that shows all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..files import write_whole
from ..fusing import Fusion
from ..landscape import evaluator
from ..landscape.pictures import column_texts
from ..report import (
    Opening,
    Report,
    Request,
    Table,
    card_address,
    gather,
    journeys,
    motion,
    render,
    write_card,
    write_page,
)
from .data import digits
from .networks import TITLES

POINTS = 21  # networks on each segment: curves are smooth, and the three fusions measured in a few seconds
GRID = 17  # networks along each side of a plane, for the same reasons


TITLE = "transfuse: the demo"
SHOWN = "cnn"  # whose plane is on the card of the overview: its walls are the highest


def write_pages(folder: Path, fusions: Mapping[str, Fusion], results: Table, *, show: bool) -> tuple[str, ...]:
    """Measure each fusion and write its page, then the overview; the paths, the overview first."""
    reports = {kind: _measured(kind, fusion, folder, show=show) for kind, fusion in fusions.items()}
    for kind, report in reports.items():
        write_page(folder / f"{kind}.html", report)
    write_overview(folder / "report.html", reports, results)
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


def write_overview(path: Path, reports: Mapping[str, Report], results: Table) -> None:
    """Write all results and pictures on one page that needs nothing else, and its preview card."""
    first = Opening(
        "Networks trained apart become one. Averaged as they are, they fail; matched first, the average works."
    )
    results_of = {kind: report.results for kind, report in reports.items()}
    tiles = {
        kind: column_texts([row.values["error"] for row in each.rows if row.role in ("fused", "average")])
        for kind, each in results_of.items()
    }
    shown = journeys(results_of, "error")
    write_card(path, TITLE, first, shown.get(SHOWN))
    text = render(
        "overview.html", package="transfuse.demo", title=TITLE, opening=first, reports=reports, results=results,
        titles=TITLES, journeys=shown, motion=motion(shown.values()), card=card_address(path, None),
        tiles=tiles,
    )  # fmt: skip
    write_whole(path, text.encode())
