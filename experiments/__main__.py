"""`python -m experiments`: arguments in, lines, tables and figures out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from transfuse import FusionError

HERE = Path(__file__).parent


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser("python -m experiments", description="The paper's tables and figures, run again.")
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="all experiments: their cells, base networks and rows")
    run = commands.add_parser("run", help="train or find base networks, fuse, measure; go on where a run was ended")
    run.add_argument("names", nargs="+", metavar="NAME", help="experiments, or all")
    run.add_argument("--profile", default="smoke", choices=("smoke", "cpu", "hours", "paper"))
    run.add_argument("--seeds", nargs="+", type=int, metavar="N", help="numbers of groups (pairs), from 0")
    run.add_argument(
        "--cells", nargs="+", default=[], metavar="TEXT", help="only cells of these titles, or with these texts"
    )
    run.add_argument("--rows", nargs="+", default=[], metavar="ROW", help="only these rows")
    run.add_argument("--base-models", type=Path, metavar="DIR", help="networks from elsewhere: <setting>_<seed>.pt")
    run.add_argument("--cache", type=Path, default=HERE / ".cache", metavar="DIR", help="trained networks")
    run.add_argument("--device", default="cpu", help="where networks are trained")
    run.add_argument(
        "--mixed", action="store_true",
        help="train with products rounded to bfloat16: in half the time where the processor multiplies it",
    )  # fmt: skip
    run.add_argument("--workers", type=int, default=0, metavar="N", help="processes that measure landscapes")
    run.add_argument(
        "--scheduler", metavar="ADDRESS", help="a Dask scheduler, tcp://HOST:PORT, that measures landscapes"
    )
    run.add_argument("--fresh", action="store_true", help="measure again what is measured")
    get = commands.add_parser("fetch", help="get the official files of data sets")
    get.add_argument("names", nargs="*", metavar="NAME", help="data sets; default: all")
    tables = commands.add_parser("tables", help="write RESULTS.md from the lines")
    tables.add_argument("--out", type=Path, default=HERE.parent / "RESULTS.md", metavar="FILE")
    page = commands.add_parser("page", help="make the tables of docs/when-fusing-pays.md anew from the lines")
    page.add_argument("--out", type=Path, default=HERE.parent / "docs" / "when-fusing-pays.md", metavar="FILE")
    figures = commands.add_parser("figures", help="draw SVG from the lines")
    figures.add_argument("--out", type=Path, default=HERE / "figures", metavar="DIR")
    for command in (run, tables, page, figures):
        command.add_argument("--results", type=Path, default=HERE / "results", metavar="DIR", help="lines of JSON")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if all went well, 1 if some jobs failed, 2 if it cannot be done so."""
    options = parser().parse_args(arguments)
    try:
        return COMMANDS[options.command](options)
    except FusionError as error:
        print(f"experiments: {error}", file=sys.stderr)
        return 2


def _list(options: argparse.Namespace) -> int:
    from .catalogue import EXPERIMENTS

    for name, experiment in EXPERIMENTS.items():
        print(f"{name}: {experiment.title}")
        for cell in experiment.cells:
            into = f" -> {cell.target}" if cell.target else ""
            print(f"    {cell.title}: {cell.models} x {', '.join(cell.settings)}{into}; {' '.join(cell.rows)}")
    return 0


def _run(options: argparse.Namespace) -> int:
    from transfuse.landscape import dask_executor

    from .catalogue import EXPERIMENTS
    from .jobs import jobs
    from .running import run
    from .training import Place

    names = list(EXPERIMENTS) if options.names == ["all"] else options.names
    asked = (options.profile, options.seeds, options.cells, options.rows)
    chosen = [job for name in names for job in jobs(name, *asked, mixed=options.mixed)]
    with dask_executor(options.scheduler) if options.scheduler else nullcontext(options.workers) as workers:
        place = Place(options.cache, options.base_models, options.device, workers)
        failed = run(chosen, options.results, place, fresh=options.fresh)
    if failed:
        print(f"{len(failed)} failed:\n" + "\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


def _fetch(options: argparse.Namespace) -> int:
    from .fetching import KNOWN, fetch
    from .sources import data_folder

    for name in options.names or [name for name in KNOWN if name != "cifar10-python"]:
        for path in fetch(name, data_folder()):
            print(path, flush=True)
    return 0


def _tables(options: argparse.Namespace) -> int:
    from .keeping import write_text
    from .tables import all_lines, page

    write_text(options.out, page(all_lines(options.results)))
    print(options.out)
    return 0


def _page(options: argparse.Namespace) -> int:
    from .keeping import write_text
    from .paying import filled
    from .tables import all_lines

    write_text(options.out, filled(options.out.read_text(encoding="utf-8"), all_lines(options.results)))
    print(options.out)
    return 0


def _figures(options: argparse.Namespace) -> int:
    from .figures import draw
    from .tables import all_lines

    for path in draw(all_lines(options.results), options.out):
        print(path)
    return 0


COMMANDS = {"list": _list, "run": _run, "fetch": _fetch, "tables": _tables, "page": _page, "figures": _figures}

if __name__ == "__main__":
    sys.exit(main())
