"""The verbs that write checkpoints: `fuse`, `align`, and `run` for a YAML file."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checkpoints import (
    SHARD,
    Entry,
    Provenance,
    Tensors,
    check_writable,
    entries_of,
    size_told,
    sources,
    write_checkpoint,
)
from ..errors import InputError
from ..fusing import networks as api
from ..fusing.networks import proportions, target_widths
from ..fusing.streaming import fuse_streamed, in_scale_of_lazily
from ..methods import METHODS
from .config import read as read_config
from .jobs import Job, check_new, prepared
from .planning import estimate, told
from .running import Outcome
from .specs import blueprint, data_of, evaluation, pairs


@dataclass(frozen=True, eq=False)
class _Result:
    """A state to be written, and what is told about it."""

    tensors: Mapping[str, Tensor]
    status: str
    objective: float | None
    seconds: float
    weights: tuple[float, ...]


def run(options: Namespace) -> Outcome:
    """Fuse as a YAML file says."""
    merged = read_config(options.config)
    for flag in ("json", "quiet", "verbose", "debug", "dry_run", "force"):
        setattr(merged, flag, getattr(options, flag) or getattr(merged, flag))
    return fuse(merged)


def fuse(options: Namespace) -> Outcome:
    """Checkpoints in, one checkpoint out."""
    chosen = method_options(options)
    job = _checked_job(options, options.models)
    shares = proportions(options.weights, len(job.checkpoints))
    if len(job.checkpoints) == 1 and not options.target:
        raise InputError("one checkpoint alone is only fused into another width: pass more checkpoints, or --target")
    widths, target = _target(options, job)
    if options.dry_run:
        return _plan(options, job)
    if _needs_modules(options, job):
        result = _fused_modules(options, job, target or widths, chosen)
    else:
        streamed = fuse_streamed(
            job.states, job.layout, method=options.method, weights=shares, widths=widths, seed=options.seed,
            low_memory=options.low_memory, progress=not options.quiet, **chosen,
        )  # fmt: skip
        objective = streamed.history[-1].objective
        result = _Result(streamed.state, streamed.status, objective, streamed.seconds, streamed.weights)
    return _written(options, job, result, "fuse")


def align(options: Namespace) -> Outcome:
    """A checkpoint in the order of another one; its function stays the same."""
    chosen = method_options(options)
    job = _checked_job(options, [options.to, options.model_file])
    if options.dry_run:
        return _plan(options, job)
    own, other = (job.layout.widths(state) for state in job.states)
    if own != other:
        raise InputError(f"{options.model_file} has other widths than {options.to}: {other} against {own}")
    streamed = fuse_streamed(
        job.states, job.layout, method=options.method, seed=options.seed, low_memory=options.low_memory,
        progress=not options.quiet, **chosen,
    )  # fmt: skip
    twin = streamed.aligned[1]
    if METHODS[options.method].balance:
        twin = in_scale_of_lazily(job.states[0], twin, job.layout)
    result = _Result(twin, streamed.status, streamed.history[-1].objective, streamed.seconds, (0.0, 1.0))
    return _written(options, job, result, "align")


def method_options(options: Namespace) -> dict[str, Any]:
    """The options of the method; a wrong name is told with the right ones."""
    if options.method not in METHODS:
        close = get_close_matches(options.method, METHODS, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise InputError(f"--method {options.method}: {meant}the methods: {', '.join(METHODS)}")
    chosen = pairs(options.option, "--option")
    row = METHODS[options.method]
    if problems := row.problems(chosen):
        raise InputError(f"--option of method {options.method}: {'; '.join(problems)}")
    terms = getattr(options, "terms", None) or row.terms
    if terms in ("activations", "both") and not getattr(options, "data", None):
        raise InputError(f"--method {options.method} sees {terms}: pass inputs for that (--data)")
    return chosen


def _checked_job(options: Namespace, paths: list[str]) -> Job:
    """Checkpoints and layout; where the result goes is looked at first, for it costs nothing."""
    out = Path(options.out)
    if any(out.exists() and Path(path).exists() and out.samefile(path) for path in paths):
        raise InputError(f"{out} is one of the inputs; write elsewhere")
    if out.exists() and not options.force and not options.dry_run:
        raise InputError(f"{out} exists; pass --force to replace it, or another path")
    check_new(getattr(options, "report", None), force=options.force)
    job = prepared(options, paths)
    check_writable(out, job.checkpoints[0], _size(options, job), force=options.force or options.dry_run)
    return job


def _size(options: Namespace, job: Job) -> int:
    """Bytes of the result, if it has the widths of the first input."""
    first = job.checkpoints[0]
    if not getattr(options, "dtype", None):
        return first.bytes
    kind = getattr(torch, options.dtype)
    entries = entries_of(first.tensors).values()
    return sum(entry.bytes // entry.dtype.itemsize * kind.itemsize for entry in entries)


def _target(options: Namespace, job: Job) -> tuple[dict[str, int], Any]:
    """Widths of the result by space, and the module that was named for it, if one was."""
    if not options.target:
        return {}, None
    first = dict(job.layout.widths(job.states[0]))
    if len(options.target) > 1 or "=" in options.target[0]:
        return target_widths(job.layout, first, pairs_of_widths(options.target)), None
    model = blueprint(options.target[0], pairs(options.target_args, "--target-args"), "--target").build()
    return job.layout.widths(model.state_dict()), model


def pairs_of_widths(texts: list[str]) -> dict[str, int]:
    """`["conv.out=32"]` as `{"conv.out": 32}`."""
    found = {}
    for text in texts:
        name, equals, width = text.partition("=")
        if not equals or not width.isdecimal():
            raise InputError(f"--target {text!r}: expected SPACE=WIDTH, or one model such as mlplarge")
        found[name] = int(width)
    return found


def _needs_modules(options: Namespace, job: Job) -> bool:
    """Whether activations, a correction at the end or a report are wanted; a correction by noise is by default.

    An exported program runs on inputs of the size with which it was exported only: no noise there.
    """
    asked = options.data or options.correct or options.terms or options.report
    if asked and options.low_memory:
        raise InputError("--low-memory works on tensors alone; leave out --data, --terms, --correct and --report")
    ends = METHODS[options.method].correct != "none" and not options.no_synthetic
    able = job.build is not None and not options.low_memory and not options.model.endswith(".pt2")
    return bool(asked or (ends and able))


def _fused_modules(options: Namespace, job: Job, target: Any, chosen: Mapping[str, Any]) -> _Result:
    """Fuse modules: what activations, corrections and reports need."""
    fusion = api.fuse(
        job.modules(), job.inputs, layout=job.layout, method=options.method, weights=options.weights,
        target=target or None, data=data_of(options)[0] if options.data else None, terms=options.terms,
        correct=options.correct, synthetic=not options.no_synthetic, seed=options.seed,
        progress=not options.quiet, **chosen,
    )  # fmt: skip
    if options.report:
        options.evaluate = None
        labeled = options.data and data_of(options)[1] is not None
        evaluate = evaluation(options, fusion.parents[0]) if labeled else None
        fusion.report(options.report, evaluate=evaluate)
    states = fusion.states
    done = fusion.correction.method
    status = states.status if done == "none" else f"{states.status}; corrected by {done}"
    return _Result(fusion.model.state_dict(), status, states.history[-1].objective, states.seconds, states.weights)


def _plan(options: Namespace, job: Job) -> Outcome:
    plan = estimate(
        job, options.method, _size(options, job), low_memory=options.low_memory, correct=_needs_modules(options, job)
    )
    first = job.checkpoints[0]
    rows = [f"{checkpoint.path} ({checkpoint.kind}, {size_told(checkpoint.bytes)})" for checkpoint in job.checkpoints]
    text = (
        "\n".join(f"input:  {row}" for row in rows)
        + f"\noutput: {options.out}{' (replaces what is there)' if Path(options.out).exists() else ''}"
        + f"\nmethod: {options.method}, seed {options.seed}\n{told(plan)}\nNothing was written (--dry-run)."
    )
    inputs = [str(checkpoint.path) for checkpoint in job.checkpoints]
    data = {"inputs": inputs, "out": options.out, "method": options.method, "tensors": len(first.tensors), **plan}
    return Outcome(data, text, asked=True)


def _written(options: Namespace, job: Job, result: _Result, verb: str) -> Outcome:
    """Write the result with its provenance."""
    first = job.checkpoints[0 if verb == "fuse" else 1]
    provenance = Provenance(
        sources(job.checkpoints, result.weights), verb, options.method, METHODS[options.method].citation,
        _told_options(options), options.seed, result.status, result.objective, command(options),
    )  # fmt: skip
    tensors = _typed(result.tensors, entries_of(first.tensors), getattr(torch, options.dtype or "", None))
    written = write_checkpoint(
        Path(options.out), tensors, like=first, provenance=provenance, shard_bytes=options.shard_size or SHARD
    )
    files = [*map(str, written), *filter(None, [getattr(options, "report", None)])]
    data = {
        "out": options.out, "files": files, "method": options.method,
        "weights": list(result.weights), "status": result.status, "objective": result.objective,
        "seconds": round(result.seconds, 3), "seed": options.seed, "widths": job.layout.widths(job.states[0]),
    }  # fmt: skip
    done = f"fused {len(job.checkpoints)} checkpoints" if verb == "fuse" else "aligned"
    text = f"{done} by {options.method} in {result.seconds:.1f} s ({result.status})\nwrote {', '.join(data['files'])}"
    if options.verbose:
        text += f"\nobjective {result.objective}\n{job.layout}"
    return Outcome(data, text)


def _typed(tensors: Mapping[str, Tensor], like: Mapping[str, Entry], dtype: torch.dtype | None) -> Tensors:
    """The tensors in the type that was asked for, or in the types of the first input."""
    entries = []
    for name, entry in entries_of(tensors).items():
        own = like[name].dtype
        entries.append(Entry(name, dtype if dtype is not None and own.is_floating_point else own, entry.shape))
    return Tensors(entries, lambda entry: tensors[entry.name].to(entry.dtype))


def _told_options(options: Namespace) -> dict[str, Any]:
    """What was chosen beside the method, for the provenance."""
    told = pairs(options.option, "--option")
    for name in ("dtype", "target", "terms", "correct", "no_synthetic", "low_memory"):
        if value := getattr(options, name, None):
            told[name] = " ".join(value) if isinstance(value, list) else value
    return told


def command(options: Namespace) -> str:
    """A command that does it again; files by their names, wherever they were."""
    words = ["transfuse", options.verb if options.verb != "run" else "fuse"]
    if options.verb == "align":
        words += [Path(options.model_file).name, "--to", Path(options.to).name]
    else:
        words += [Path(path).name for path in options.models]
    words += ["-o", Path(options.out).name]
    for name in ("model", "layout", "data", "example_inputs"):
        if value := getattr(options, name, None):
            words += [f"--{name.replace('_', '-')}", _name_of(value)]
    for name in ("model_args", "option", "weights", "target", "target_args"):
        if value := getattr(options, name, None):
            words += [f"--{name.replace('_', '-')}", *map(str, value)]
    for name in ("method", "seed", "dtype", "terms", "correct"):
        if (value := getattr(options, name, None)) is not None:
            words += [f"--{name}", str(value)]
    words += [f"--{name.replace('_', '-')}" for name in ("no_synthetic", "low_memory") if getattr(options, name, None)]
    if options.input_shape:
        words += ["--input-shape", ",".join(map(str, options.input_shape))]
    return shlex.join(words)


def _name_of(value: str) -> str:
    """The last part of a path; other texts as they are."""
    place, colon, name = value.rpartition(":")
    return (
        f"{Path(place).name}:{name}" if colon and place.endswith(".py") else Path(value).name if "/" in value else value
    )
