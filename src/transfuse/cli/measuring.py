"""The verbs that measure: `barrier`, `plane`, `report`."""

from __future__ import annotations

from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from .. import landscape
from ..errors import InputError
from ..files import check_new, whole_file
from ..fusing import fuse
from .architectures import example_inputs
from .data import inputs_and_labels
from .evaluating import check_measures, evaluation
from .jobs import chosen_method, opened_modules, prepared
from .records import Outcome

PICTURES = (".svg", ".pdf", ".png")


def barrier(options: Namespace) -> Outcome:
    """Loss and error between two checkpoints."""
    _check_outputs(options)
    chosen = chosen_method(options)
    (one, other), plan = opened_modules(options, options.models)
    evaluate = evaluation(options, one)
    if options.align:
        inputs = example_inputs(options, plan)
        how: dict[str, Any] = {"method": options.method, "seed": options.seed, "correct": "none", **chosen.options}
        one, other = fuse([one, other], inputs, **how).aligned  # in a common order and scale
    with _workers(options) as workers:
        found = landscape.barrier(
            one, other, evaluate, points=options.points, data=_norm_data(options), cache=_path(options.cache),
            workers=workers, progress=not options.quiet,
        )  # fmt: skip
    heights = {metric: found.height(metric) for metric in found.metrics}
    _draw(options, "barriers", {"barrier": found})
    _save(options, found)
    first = found.metrics[0]
    failed = options.at_most is not None and heights[first] > options.at_most
    data = {"barrier": heights, "midpoint": {metric: found.midpoint(metric) for metric in found.metrics},
            "positions": found.positions.tolist(),
            "values": {metric: found.of(metric).tolist() for metric in found.metrics}, "failed": failed}  # fmt: skip
    told = (
        f"{found}\n{first}: the barrier is {heights[first]:.4g}, higher than --at-most {options.at_most:.4g}"
        if failed
        else str(found)
    )
    return Outcome(data, told, asked=True, failed=failed)


def plane(options: Namespace) -> Outcome:
    """Loss and error on the plane through three checkpoints."""
    _check_outputs(options)
    (origin, x, y), _ = opened_modules(options, options.models)
    evaluate = evaluation(options, origin)
    marks = dict(zip(_names(options.models), (origin, x, y), strict=True))
    with _workers(options) as workers:
        found = landscape.plane(
            origin, x, y, evaluate, grid=options.grid, margin=options.margin, marks=marks,
            data=_norm_data(options), cache=options.cache, workers=workers, progress=not options.quiet,
        )  # fmt: skip
    _draw(options, "plane", found)
    _save(options, found)
    shown = {mark.name: dict(mark.values) for mark in found.marks}
    data = {"marks": shown, "x": found.x.tolist(), "y": found.y.tolist(),
            "values": {metric: found.of(metric).tolist() for metric in found.metrics}}  # fmt: skip
    return Outcome(data, str(found), asked=True)


def report(options: Namespace) -> Outcome:
    """Fuse, measure, and write one page about it."""
    check_new(options.out, force=options.force)
    chosen = chosen_method(options)
    check_measures(options)
    job = prepared(options, chosen, options.models)
    modules = job.modules()
    evaluate = evaluation(options, modules[0])
    fusion: Any = fuse(
        modules, job.inputs, layout=job.layout, method=options.method, weights=options.weights,
        seed=options.seed, progress=not options.quiet, **chosen.options,
    )  # fmt: skip
    with _workers(options) as workers:
        fusion.report(options.out, evaluate=evaluate, data=_norm_data(options), workers=workers)
    return Outcome({"out": options.out}, f"wrote {options.out}")


def _workers(options: Namespace) -> AbstractContextManager[landscape.Workers]:
    """Who measures: processes of this machine, or a Dask cluster."""
    if not options.scheduler:
        return nullcontext(options.workers)
    if options.workers:
        raise InputError("--workers are processes of this machine, --scheduler names a cluster; give one of them")
    return landscape.dask_executor(options.scheduler)


def _norm_data(options: Namespace) -> Any:
    """Batches for statistics of batch norm, if they are to be computed anew."""
    if not options.reset_batchnorm:
        return None
    if not options.data:
        raise InputError("--reset-batchnorm computes statistics from inputs: pass --data")
    return list(inputs_and_labels(options)[0].split(options.batch_size))


def _check_outputs(options: Namespace) -> None:
    """Refuse what cannot be measured, written or drawn, before any work is done."""
    check_measures(options)
    for path in filter(None, (options.out, options.plot)):
        check_new(path, force=options.force)
    if options.out and Path(options.out).suffix not in (".json", ".npz"):
        raise InputError(f"--out {options.out}: expected .json or .npz (pictures are drawn by --plot)")
    if options.plot and Path(options.plot).suffix not in PICTURES:
        raise InputError(f"--plot {options.plot}: expected {', '.join(PICTURES)}")
    if options.plot:
        from .. import plots  # noqa: F401  (before the work, not after it)


def _draw(options: Namespace, kind: str, record: Any) -> None:
    """Draw a record into the file that --plot names, if it names one."""
    if options.plot:
        from .. import plots

        with whole_file(options.plot) as temporary:
            getattr(plots, kind)(record).savefig(temporary, format=Path(options.plot).suffix[1:])


def _save(options: Namespace, record: landscape.Record) -> None:
    """Write the numbers of a record to the file that --out names, if it names one."""
    if options.out:
        record.save(options.out)


def _names(paths: list[str]) -> list[str]:
    """File names as marks on a plane; with their folders where two are alike."""
    short = [Path(path).stem for path in paths]
    return short if len(set(short)) == len(short) else list(paths)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
