"""From options to what a verb works on: checkpoints that fit one architecture, its layout, modules.

Everything that cannot work is refused here, before any work is done.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from ..checkpoints import Checkpoint, Transfer, open_transfer
from ..errors import InputError, LayoutError, listing
from ..fusing.checking import check_fit, told_classes
from ..fusing.heads import Joined
from ..layout import Axis, Fixed, Layout
from ..lazy import entries_of
from ..methods import Chosen
from ..modules import depth_of, shares_of, ties_of
from ..tracing import trace
from ..types import State
from .architectures import Blueprint, architecture_named, blueprint, blueprints_apart, example_inputs
from .values import classes_in, pairs
from .working import Job, loaded, read_layout

NEEDED = (
    "the architecture is needed: pass --model SPEC, or --layout FILE for state dicts alone; only folders with a "
    "config.json of transformers say it themselves"
)
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of mallopt(3)
_LARGE = 1 << 19  # bytes; smaller pieces are asked for too often to go to the system each time


def give_memory_back() -> None:
    """Have the C library return large pieces of memory to the system as soon as they are free.

    Left to itself glibc keeps them for later, and what a tensor leaves behind seldom fits the next one: the memory of a
    long run of temporary tensors grows to several times of what is in use. Where there is no glibc, nothing happens.
    """
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


def hush_warnings(options: Namespace) -> None:
    """Leave out warnings of torch and of the network's code, unless --verbose asks for them."""
    if not options.verbose:
        warnings.simplefilter("ignore")


def prepared(options: Namespace, chosen: Chosen, paths: Sequence[str], out: Path | None = None) -> Job:
    """Open checkpoints, for a result that goes `out`, and learn their layout, by tracing the model or from a file."""
    give_memory_back()
    hush_warnings(options)
    _check_different(paths)
    opened = _opened(options, paths, out)
    given = read_layout(options.layout) if getattr(options, "layout", None) else None
    named = options.model if given is not None else architecture_named(options, paths)
    plans = blueprints_apart(opened) if given is None and options.model is None and options.verb == "fuse" else []
    if plans:
        job = _traced_apart(options, opened, plans)
    elif given is None and _is_plain_average(options, chosen):
        first = opened.inputs[0]
        job = Job(opened.fitted(list(first.tensors), first.ties), unmoved(first.tensors))
    elif named is not None:
        job = _traced(options, opened, blueprint(named, pairs(options.model_args, "--model-args")), given)
    elif given is not None:
        job = Job(opened.fitted(list(given.tensors), {}), given)
    else:
        raise InputError(NEEDED)
    if getattr(options, "heads", None):
        return _with_heads(options, job)
    if not job.apart:
        _check_shapes(job)
    return job


def _with_heads(options: Namespace, job: Job) -> Job:
    """Checkpoints whose outputs are placed among those of all.

    Raises:
        InputError: classes do not add up, or the checkpoints differ in more than their outputs.
    """
    shares = shares_of(options.weights, len(job.checkpoints))
    joined = Joined.of(job.layout, job.states, shares, classes_in(options.classes))
    if not job.apart:
        check_fit(joined.layout(job.layout), joined.all_placed(job.states))
    return replace(job, joined=joined)


def _opened(options: Namespace, paths: Sequence[str], out: Path | None) -> Transfer:
    """The checkpoints, open, and the place of the result, looked at: both cost nothing."""
    if out is None:
        return open_transfer(paths)
    return open_transfer(paths, out, kind=wanted_type(options), force=options.force or options.dry_run)


def _is_plain_average(options: Namespace, chosen: Chosen) -> bool:
    """Whether tensors are averaged as they are, and nothing else is asked for: no network is needed for that."""
    others = ("model", "data", "terms", "correct", "report", "target", "width", "budget", "heads")
    return options.verb == "fuse" and not chosen.row.matches and not any(getattr(options, name) for name in others)


def wanted_type(options: Namespace) -> torch.dtype | None:
    """The type that --dtype asks for; none, if that is the inputs' own."""
    return getattr(torch, options.dtype) if getattr(options, "dtype", None) else None


def unmoved(state: State) -> Layout:
    """The layout in which no unit of a state moves."""
    shapes = {name: entry.shape for name, entry in entries_of(state).items()}
    axes = {name: tuple(Axis((Fixed(length),) if length else ()) for length in shape) for name, shape in shapes.items()}
    return Layout((), axes)


def chosen_method(options: Namespace) -> Chosen:
    """The method that was chosen, with its options.

    Raises:
        InputError: no method or option is called so, an option has a wrong value, or the method needs data.
    """
    chosen = Chosen.of(options.method, pairs(options.option, "--option"))
    terms = getattr(options, "terms", None) or chosen.row.terms
    given = getattr(options, "data", None) or getattr(options, "unlabeled", None)
    if terms in ("activations", "both") and not given:
        raise InputError(f"--method {options.method} matches units by {terms}: pass inputs for that (--data)")
    return chosen


def opened_modules(options: Namespace, paths: Sequence[str]) -> tuple[list[nn.Module], Blueprint]:
    """Checkpoints as modules, without tracing."""
    hush_warnings(options)
    named = architecture_named(options, paths)
    if named is None:
        raise InputError("this needs the network itself: pass --model SPEC")
    _check_different(paths)
    opened = open_transfer(paths)
    plan = blueprint(named, pairs(options.model_args, "--model-args"))
    own = plan.build().state_dict()
    return [loaded(plan.build(), each) for each in opened.fitted(list(own), ties_of(own)).inputs], plan


def _traced(options: Namespace, opened: Transfer, plan: Blueprint, given: Layout | None) -> Job:
    """Checkpoints of a model with its layout: the one given, else that of the first checkpoint, traced."""
    model = plan.build()
    own = model.state_dict()
    transfer = opened.fitted(list(own), ties_of(own))
    inputs = example_inputs(options, plan)
    if given is not None:
        return Job(transfer, given, inputs, plan.build)
    try:
        layout = trace(loaded(model, transfer.inputs[0]), inputs, proof=not options.no_proof)
    except InputError:
        _check_finite(transfer.inputs)  # the likely reason, which the tracer does not see: it knows no files
        raise
    return Job(transfer, layout, inputs, plan.build)


def _traced_apart(options: Namespace, opened: Transfer, plans: Sequence[Blueprint]) -> Job:
    """Checkpoints of networks of other depths, with the layout of the deepest of them, or of the one that is --target.

    Raises:
        InputError: --target names a network that is none of them.
    """
    models = [plan.build() for plan in plans]
    transfer = opened.fitted_apart([model.state_dict() for model in models])
    number = max(range(len(models)), key=lambda each: depth_of(models[each]))
    named = [each for each in getattr(options, "target", None) or [] if "=" not in each]
    if named:
        same = [each for each, own in enumerate(transfer.inputs)
                if Path(named[0]).exists() and os.path.samefile(named[0], own.path)]  # fmt: skip
        if not same:
            raise InputError(
                f"--target {named[0]}: the inputs are networks of other depths; expected one of them, whose depth and "
                "widths the result has, or widths (SPACE=WIDTH)"
            )
        number = same[0]
    inputs = example_inputs(options, plans[number])
    layout = trace(loaded(models[number], transfer.inputs[number]), inputs, proof=not options.no_proof)
    return Job(transfer, layout, inputs, plans[number].build, [plan.build for plan in plans], number)


def _check_finite(checkpoints: Sequence[Checkpoint]) -> None:
    """Refuse checkpoints with NaN or infinity."""
    problems = [
        f"{checkpoint.path}: {name}"
        for checkpoint in checkpoints
        for name, tensor in checkpoint.tensors.items()
        if tensor.is_floating_point() and not tensor.isfinite().all()
    ]
    if problems:
        raise InputError(
            listing("tensors with NaN or infinity, of which no fusion can be made; leave these files out:", problems)
        )


def _check_different(paths: Sequence[str]) -> None:
    """Refuse a checkpoint that is given twice."""
    seen: list[str] = []
    for path in paths:
        twin = next((each for each in seen if Path(path).exists() and os.path.samefile(path, each)), None)
        if twin is not None:
            raise InputError(f"{path} and {twin} are the same file; give different checkpoints (or one, with --target)")
        if Path(path).exists():
            seen.append(path)


def _check_shapes(job: Job) -> None:
    """Refuse tensors whose shapes the layout does not explain."""
    problems = []
    for checkpoint in job.checkpoints:
        try:
            job.layout.check(checkpoint.tensors)
        except LayoutError as error:
            problems += [f"{checkpoint.path}: {line.strip(' -')}" for line in str(error).splitlines()[1:]]
    if problems:
        classes = told_classes(job.layout, job.states)
        raise InputError(listing("tensors that do not fit the model:", problems) + classes)
