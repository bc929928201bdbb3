"""The verbs that write checkpoints: `fuse`, `align`, and `run`, which fuses as a YAML file says."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..arguments import check_arguments, optional
from ..barycenter import in_form_of
from ..checkpoints import SHARD, Provenance, size_told
from ..corrections import AUTO_AIM, ChosenCorrection
from ..errors import FusionError, InputError, printable
from ..files import check_new
from ..fusing import FusedStates, Fusion, Ready, Wanted, Widths, fused_networks, fused_states
from ..fusing.budgets import BUDGET
from ..fusing.verifying import NOT_RUN
from ..lazy import Entry, LazyState, entries_of, in_type
from ..methods import Chosen
from ..types import State
from .architectures import blueprint
from .config import read_config
from .data import inputs_and_labels
from .evaluating import labeled_evaluation
from .jobs import chosen_method, prepared, wanted_type
from .places import check_places
from .planning import estimate, told_plan
from .records import Outcome
from .resizing import Resized, resized_network
from .retelling import command, told_options
from .spreading import workers_of
from .values import classes_in, pairs, widths_in
from .verbs import VERBS
from .working import Job

Labeled = tuple[Tensor | None, Tensor | None]  # inputs and labels


def fuse_as_file_says(options: Namespace) -> Outcome:
    """Fuse as a YAML file says; switches that were typed are on, whatever the file says of them."""
    merged = read_config(options.config, options.out)
    for switch in (option.name for option in VERBS["run"].options if option.switch):
        setattr(merged, switch, getattr(options, switch) or getattr(merged, switch))
    check_places(merged, options.config)
    return fuse(merged)


def fuse(options: Namespace) -> Outcome:
    """Checkpoints in, one checkpoint out."""
    started = time.perf_counter()
    check_arguments(**{"--budget": (options.budget, optional(BUDGET))})
    chosen = chosen_method(options)
    if options.classes and not options.heads:
        raise InputError("--classes names the outputs of heads that are joined; pass --heads join as well")
    correction = ChosenCorrection.of(options.correct or chosen.row.correct, options.aim or AUTO_AIM, options.seed)
    job = _checked_job(options, chosen, options.models)
    if len(job.checkpoints) == 1 and not (options.target or options.width):
        raise InputError(
            "one checkpoint alone is only fused into another width: pass more checkpoints, --width or --target"
        )
    widths, target = _target(options, job)
    ready = job.ready(options.weights, widths)
    resized = resized_network(job, Path(options.out), ready.layout.shapes(ready.widths))
    with_modules = _needs_modules(options, job, chosen)
    if options.dry_run:
        return _plan(options, job, chosen, correct=with_modules)
    if not with_modules:
        fused = _fused_as_states(options, chosen, ready)
        fused = replace(fused, heads=job.joined.heads) if job.joined else fused
        return _written(options, job, chosen, _timed(fused, started), resized, NOT_RUN)
    fusion, labeled = _fused_as_modules(options, job, target or resized.model or widths, chosen, correction)
    if options.budget:  # its widths are known only now
        shapes = {name: tuple(tensor.shape) for name, tensor in fusion.states.state.items()}
        resized = resized_network(job, Path(options.out), shapes)
    outcome = _written(
        options, job, chosen, _timed(_corrected_states(fusion), started), resized, str(fusion.depths or "")
    )
    return _with_report(options, fusion, labeled, outcome) if options.report else outcome


def align(options: Namespace) -> Outcome:
    """A checkpoint in the order of another one; its function stays the same."""
    started = time.perf_counter()
    chosen = chosen_method(options)
    job = _checked_job(options, chosen, [options.to, options.model_file])
    if options.dry_run:
        return _plan(options, job, chosen, correct=False)
    own, other = (job.layout.widths(state) for state in job.states)
    if own != other:
        raise InputError(
            f"{options.model_file} has other widths than {options.to}: {other} against {own}; only checkpoints of the "
            "same widths can be aligned"
        )
    ready = job.ready(None, {})
    fused = _fused_as_states(options, chosen, ready)
    twin = fused.aligned[1]
    layout = ready.layout_for(chosen.row)
    twin = in_form_of(ready.states[0], twin, layout, fused.rotated, balance=chosen.row.balance)
    return _written(
        options, job, chosen, _timed(replace(fused, state=twin, weights=(0.0, 1.0)), started), Resized(), NOT_RUN
    )


def _timed(fused: FusedStates, started: float) -> FusedStates:
    """What was fused, with the time that all of it took: reading, tracing, matching, corrections."""
    return replace(fused, seconds=time.perf_counter() - started)


def _fused_as_states(options: Namespace, chosen: Chosen, ready: Ready) -> FusedStates:
    """Fuse tensors alone: they are read when needed, and made when they are written."""
    with workers_of(options) as workers:
        return fused_states(
            chosen, ready, seed=options.seed, low_memory=options.low_memory, progress=not options.quiet, workers=workers
        )


def _fused_as_modules(
    options: Namespace, job: Job, target: Any, chosen: Chosen, correction: ChosenCorrection
) -> tuple[Fusion, Labeled]:
    """Fuse modules, which activations, corrections and reports need; gives the data that it read, too."""
    data, labels = inputs_and_labels(options) if options.data else (None, None)
    with workers_of(options) as workers:
        wanted = Wanted(
            job.inputs, correction, layout=job.layout, weights=options.weights, target=target or None,
            budget=options.budget, data=data,
            terms=options.terms, synthetic=not options.no_synthetic, seed=options.seed, progress=not options.quiet,
            heads=options.heads, classes=classes_in(options.classes), workers=workers,
        )  # fmt: skip
        return fused_networks(job.modules(), chosen, wanted), (data, labels)


def _with_report(options: Namespace, fusion: Fusion, labeled: Labeled, outcome: Outcome) -> Outcome:
    """The outcome of a fusion with a page about it, which is written when the checkpoint is: it may take long."""
    data, labels = labeled
    try:
        evaluate = None
        if data is not None and labels is not None:
            evaluate = labeled_evaluation(options, fusion.parents[0], data, labels)
        fusion.report(options.report, evaluate=evaluate)
    except (FusionError, OSError) as error:
        raise FusionError(f"the checkpoint {options.out} is written and whole; the report is not: {error}") from error
    files = [*outcome.data["files"], *_pages(options)]
    return replace(outcome, data={**outcome.data, "files": files}, text=f"{outcome.text}, {options.report}")


def _pages(options: Namespace) -> tuple[str, str]:
    """The page about a fusion, and its preview card."""
    from ..report import card_beside  # most fusions do without templates

    return options.report, str(card_beside(options.report))


def _corrected_states(fusion: Fusion) -> FusedStates:
    """What was fused, with the state of the corrected network."""
    done = fusion.correction.method
    told = [fusion.states.status, f"corrected by {done}" if done != "none" else "", str(fusion.budget or "")]
    return replace(fusion.states, state=fusion.model.state_dict(), status="; ".join(filter(None, told)))


def _checked_job(options: Namespace, chosen: Chosen, paths: list[str]) -> Job:
    """Checkpoints and their layout; where the result goes is looked at first, for it costs nothing."""
    if getattr(options, "report", None):
        for path in _pages(options):
            check_new(path, force=options.force)
    return prepared(options, chosen, paths, Path(options.out))


def _target(options: Namespace, job: Job) -> tuple[Widths, Any]:
    """Widths that are wanted, and the module that was named for them, if one was."""
    given = [f"--{name}" for name in ("width", "target", "budget") if getattr(options, name)]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} both say how wide the result is; pass one of them")
    if not options.target:
        return options.width or {}, None
    if len(options.target) > 1 or "=" in options.target[0]:
        return widths_in(options.target), None
    if job.apart:  # the target is one of the inputs: its layers are compared with those of the others
        model = job.modules()[job.number]
    else:
        model = blueprint(options.target[0], pairs(options.target_args, "--target-args"), "--target").build()
    return job.widths(model.state_dict()), model


def _needs_modules(options: Namespace, job: Job, chosen: Chosen) -> bool:
    """Whether activations, a correction or a report are wanted; a correction by synthetic inputs is made by default.

    Not for an exported program: it runs on as many inputs as it was exported with, and no others.
    """
    asked = options.data or options.correct or options.terms or options.report or options.budget
    if asked and options.low_memory:
        raise InputError(
            "--low-memory works on tensors alone; leave out --data, --terms, --correct, --report and --budget"
        )
    if job.apart and options.low_memory:
        raise InputError("--low-memory works on tensors alone, and networks of other depths are run; leave it out")
    by_default = chosen.row.correct != "none" and not options.no_synthetic
    able = job.build is not None and not options.low_memory and not str(options.model).endswith(".pt2")
    return bool(asked or job.apart or (by_default and able))


def _plan(options: Namespace, job: Job, chosen: Chosen, *, correct: bool) -> Outcome:
    """What would be done, with sizes, time and memory."""
    first = job.like
    plan = estimate(
        job, chosen.row, first.bytes_in(wanted_type(options)), low_memory=options.low_memory, correct=correct
    )
    rows = [f"{checkpoint.path} ({checkpoint.kind}, {size_told(checkpoint.bytes)})" for checkpoint in job.checkpoints]
    text = (
        "\n".join(f"input:  {row}" for row in rows)
        + f"\noutput: {options.out}{' (replaces what is there)' if Path(options.out).exists() else ''}"
        + f"\nmethod: {chosen.method}, seed {options.seed}\n{told_plan(plan)}\nNothing was written (--dry-run)."
    )
    inputs = [str(checkpoint.path) for checkpoint in job.checkpoints]
    data = {"inputs": inputs, "out": options.out, "method": chosen.method, "tensors": len(first.tensors), **plan}
    return Outcome(data, text, asked=True)


def _written(
    options: Namespace, job: Job, chosen: Chosen, fused: FusedStates, resized: Resized, note: str = ""
) -> Outcome:
    """Write the fused state with its provenance, and tell what was done; the note says what was not."""
    first = job.like if options.verb == "fuse" else job.checkpoints[1]
    objective = fused.history[-1].objective
    provenance = Provenance(
        job.transfer.origins(fused.weights), options.verb, chosen.method, chosen.row.citation,
        told_options(options), options.seed, fused.status, objective, command(options),
        rotated=fused.rotated,
    )  # fmt: skip
    tensors = _in_types(fused.state, entries_of(first.tensors), wanted_type(options))
    written, further = job.transfer.close(
        tensors, provenance, like=first, shard_bytes=options.shard_size or SHARD, sizes=resized.sizes
    )
    files = list(map(str, written))
    data = {
        "out": options.out, "files": files, "method": chosen.method,
        "weights": list(fused.weights), "status": fused.status, "objective": objective,
        "seconds": round(fused.seconds, 3), "seed": options.seed, "widths": job.widths(fused.state),
        **({"heads": asdict(fused.heads)} if fused.heads else {}),
    }  # fmt: skip
    done = f"fused {len(job.checkpoints)} checkpoints" if options.verb == "fuse" else "aligned"
    wrapped = [f"{each.path}: the state was found {found}\n" for each in job.checkpoints
               if (found := each.told_wrapping)]  # fmt: skip
    text = f"{''.join(wrapped)}{done} by {chosen.method} in {fused.seconds:.1f} s ({fused.status})"
    text += "".join(f"\n{told}" for told in (fused.heads, note) if told)
    if options.verbose:
        text += f"\nobjective {objective}\n{job.layout}"
    return Outcome(data, "\n".join(filter(None, [text, f"wrote {', '.join(map(printable, files))}", further])))


def _in_types(tensors: State, like: Mapping[str, Entry], dtype: torch.dtype | None) -> LazyState:
    """The tensors in the type that was asked for, or in the types of the first input."""
    entries = []
    for name, entry in entries_of(tensors).items():
        own = like[name].dtype
        entries.append(Entry(name, dtype if dtype is not None and own.is_floating_point else own, entry.shape))
    return LazyState(entries, lambda entry: in_type(entry.name, tensors[entry.name], entry.dtype, tensors))
