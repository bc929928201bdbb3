"""The verbs that measure: `barrier`, `plane`, `report`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from .. import landscape
from ..corrections import norms_of
from ..errors import InputError
from ..files import check_new, whole_file
from ..fusing import fuse
from ..landscape.measuring import INTERPOLATED
from ..methods import Chosen
from .architectures import Blueprint, example_inputs
from .data import inputs_and_labels
from .evaluating import check_measures, evaluation
from .jobs import chosen_method, opened_modules, prepared
from .records import Outcome
from .spreading import workers_of
from .values import short_names

PICTURES = (".svg", ".pdf", ".png")


def barrier(options: Namespace) -> Outcome:
    """Loss and error between two checkpoints, as they are and, if that is wanted, aligned."""
    _check_outputs(options)
    chosen = chosen_method(options)
    (one, other), plan = opened_modules(options, options.models)
    evaluate = evaluation(options, one)
    curves = {"as trained": _between(options, one, other, evaluate)}
    if options.align:
        twins = _aligned(options, chosen, plan, [one, other])
        curves["aligned"] = _between(options, twins[0], twins[1], evaluate)
    *_, found = curves.values()
    first = found.metrics[0]
    names = short_names(options.models)
    _draw(options, lambda plots: plots.barriers(curves, ends=[names[path] for path in options.models]))
    _save(options, found)
    failed = options.at_most is not None and found.height(first) > options.at_most
    notes = _notes(options, one)
    lines = [f"{name}:\n{each}" if options.align else str(each) for name, each in curves.items()] + notes
    if failed:
        lines.append(f"{first}: the barrier is {found.height(first):.4g}, higher than --at-most {options.at_most:.4g}")
    data = {**_numbers(found), "failed": failed, "notes": notes}
    if options.align:
        data["as_trained"] = _numbers(curves["as trained"])
    return Outcome(data, "\n".join(lines), asked=True, failed=failed)


def _between(options: Namespace, one: nn.Module, other: nn.Module, evaluate: Any) -> landscape.Barrier:
    """The barrier between two networks, measured as the options say."""
    with workers_of(options) as workers:
        return landscape.barrier(
            one, other, evaluate, points=options.points, data=_norm_data(options), cache=_path(options.cache),
            workers=workers, progress=not options.quiet,
        )  # fmt: skip


def _aligned(options: Namespace, chosen: Chosen, plan: Blueprint, models: Sequence[nn.Module]) -> tuple[nn.Module, ...]:
    """Both networks in a common order and scale; where activations count, by --unlabeled or the inputs of --data."""
    terms = options.terms or chosen.row.terms
    flag = "--unlabeled" if options.unlabeled else "--data" if terms in ("activations", "both") else None
    data = inputs_and_labels(options, flag)[0] if flag else None
    fusion = fuse(
        models, example_inputs(options, plan), method=chosen.method, seed=options.seed, correct="none", data=data,
        terms=options.terms, **chosen.options,
    )  # fmt: skip
    return fusion.aligned


def _numbers(found: landscape.Barrier) -> dict[str, Any]:
    """What is told of a barrier to machines."""
    return {
        "barrier": {metric: found.height(metric) for metric in found.metrics},
        "midpoint": {metric: found.midpoint(metric) for metric in found.metrics},
        "positions": found.positions.tolist(),
        "values": {metric: found.of(metric).tolist() for metric in found.metrics},
    }


def _notes(options: Namespace, model: nn.Module) -> list[str]:
    """What is to be said about values between networks with batch norm, whose statistics were interpolated."""
    return [f"Note: {INTERPOLATED}."] if norms_of(model) and not options.reset_batchnorm else []


def plane(options: Namespace) -> Outcome:
    """Loss and error on the plane through three checkpoints."""
    _check_outputs(options)
    (origin, x, y), _ = opened_modules(options, options.models)
    evaluate = evaluation(options, origin)
    marks = dict(zip(short_names(options.models).values(), (origin, x, y), strict=True))
    with workers_of(options) as workers:
        found = landscape.plane(
            origin, x, y, evaluate, grid=options.grid, margin=options.margin, marks=marks,
            data=_norm_data(options), cache=options.cache, workers=workers, progress=not options.quiet,
        )  # fmt: skip
    _draw(options, lambda plots: plots.plane(found))
    _save(options, found)
    shown, notes = {mark.name: dict(mark.values) for mark in found.marks}, _notes(options, origin)
    data = {"marks": shown, "notes": notes, "x": found.x.tolist(), "y": found.y.tolist(),
            "values": {metric: found.of(metric).tolist() for metric in found.metrics}}  # fmt: skip
    return Outcome(data, "\n".join([str(found), *notes]), asked=True)


def report(options: Namespace) -> Outcome:
    """Fuse, measure, and write one page about it."""
    from ..report import card_address, card_beside  # the other verbs do without templates

    for path in (options.out, str(card_beside(options.out))):
        check_new(path, force=options.force)
    card_address(options.out, options.url)
    chosen = chosen_method(options)
    check_measures(options)
    job = prepared(options, chosen, options.models)
    modules = job.modules()
    evaluate = evaluation(options, modules[0])
    fusion: Any = fuse(
        modules, job.inputs, layout=job.layout, method=chosen.method, weights=options.weights,
        seed=options.seed, progress=not options.quiet, **chosen.options,
    )  # fmt: skip
    with workers_of(options) as workers:
        fusion.report(options.out, evaluate=evaluate, data=_norm_data(options), workers=workers, url=options.url)
    files = [options.out, str(card_beside(options.out))]
    return Outcome({"out": options.out, "files": files}, f"wrote {' and '.join(files)}")


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


def _draw(options: Namespace, draw: Callable[[Any], Any]) -> None:
    """Draw a figure into the file that --plot names, if it names one."""
    if options.plot:
        from .. import plots

        with whole_file(options.plot) as temporary:
            draw(plots).savefig(temporary, format=Path(options.plot).suffix[1:])


def _save(options: Namespace, record: landscape.Record) -> None:
    """Write the numbers of a record to the file that --out names, if it names one."""
    if options.out:
        record.save(options.out)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
