"""Jobs become lines: networks are trained or found, fused, measured; a line is added for each.

In: jobs and places. Out: lines under a folder of results. A job whose line is there is skipped, so a killed run goes
on; one that failed has a line that says why, and is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import transfuse
from transfuse.activations import Batches
from transfuse.corrections import nearest_control
from transfuse.modules import Ensemble

from .data import Task, load
from .jobs import Job
from .keeping import append, lines
from .landscapes import landscape
from .measuring import accuracy, likeness, mean_of, outputs_of, share_right
from .networks import build
from .profiles import PROFILES
from .rows import ROWS
from .training import Base, Place, base_network, identity
from .versions import origin


@dataclass(frozen=True, eq=False)
class Group:
    """Base networks that are fused together.

    Args:
        bases: The networks.
        task: What they are measured on.
        layout: Which axes move together.
        answers: Class scores of each network on the test examples.
        place: Where points of landscapes are kept, and by how many processes they are measured.
    """

    bases: tuple[Base, ...]
    task: Task
    layout: transfuse.Layout
    answers: tuple[Tensor, ...]
    place: Place

    @staticmethod
    def of(job: Job, place: Place) -> Group:
        """Trained or found."""
        bases = tuple(base_network(name, setting, seed, place) for name, setting, seed in job.members)
        task = load(replace(job.members[0][1].data, skill=None))
        layout = transfuse.trace(bases[0].model, task.train.read(slice(2)))
        return Group(bases, task, layout, tuple(outputs_of(base.model, task.test) for base in bases), place)

    @property
    def models(self) -> list[nn.Module]:
        """The networks."""
        return [base.model for base in self.bases]

    def unlabeled(self, count: int) -> Tensor | None:
        """Training inputs without their labels; None if there are none."""
        return self.task.train.read(slice(count)) if count else None

    def answered(self, own: Tensor, weights: Sequence[float] | None) -> dict[str, Any]:
        """What class scores on the test examples are worth: accuracy, and how like the parents' they are."""
        return {
            "metrics": {"accuracy": share_right(own, self.task.test)},
            "likeness": likeness(own, self.answers, weights),
        }


def fuse(job: Job, group: Group, options: Mapping[str, Any]) -> transfuse.Fusion:
    """A fusion by the row of a job, with some options beside its own."""
    row, task = ROWS[job.row], group.task
    return transfuse.fuse(
        group.models,
        task.train.read(slice(2)),
        layout=without(group.layout, row.without),
        target=None if job.target is None else build(job.target),
        weights=job.weights,
        data=group.unlabeled(row.unlabeled),
        seed=job.group,
        **{**row.options, **options},
    )


def without(layout: transfuse.Layout, symmetries: Sequence[str]) -> transfuse.Layout:
    """A layout whose spaces lack some symmetries."""
    none: dict[str, Any] = dict.fromkeys(symmetries, False)
    return replace(
        layout, spaces=tuple(replace(space, symmetry=replace(space.symmetry, **none)) for space in layout.spaces)
    )


def run(jobs: Sequence[Job], results: Path, place: Place, *, fresh: bool = False) -> list[str]:
    """Do what is not done yet. What another experiment has done is not done again: its line is taken over.

    Args:
        jobs: What there is to do.
        results: The folder of lines.
        place: Where base networks are.
        fresh: Do it again, even if it is done.

    Returns:
        What failed.
    """
    failed = []
    for _, same in groupby(jobs, key=lambda job: (job.experiment, job.cell.title, job.group)):
        batch = list(same)
        names = [identity(name, setting, seed, place) for name, setting, seed in batch[0].members]
        known = {} if fresh else _known(results, batch[0].profile)
        batch = [job for job in batch if job.key(names) not in known]
        group: Group | None = None
        for job in batch:
            try:
                if (line := known.get(job.work(names))) is None:
                    group = group or Group.of(job, place)
                    line = measured(job, group)
            except transfuse.FusionError as error:
                failed.append(f"{job.experiment}, {job.cell.title}: {error}")
                print(failed[-1], flush=True)
                break
            line = {**_head(job, names), **{name: each for name, each in line.items() if name not in HEAD}}
            append(results / f"{job.experiment}.{job.profile}.jsonl", line)
            _tell(line)
            failed += [f"{job.experiment}, {job.cell.title}, {job.row}: {line['error']}"] if "error" in line else []
    return failed


HEAD = ("key", "work", "experiment", "profile", "cell", "row", "group", "family", "place", "seeds")


def _head(job: Job, names: Sequence[str]) -> dict[str, Any]:
    """What tells lines apart."""
    seeds = [seed for _, _, seed in job.members]
    values = (
        job.key(names), job.work(names), job.experiment, job.profile, job.cell.title, job.row, job.group,
        job.cell.family, job.cell.place, seeds,
    )  # fmt: skip
    return dict(zip(HEAD, values, strict=True))


def _known(results: Path, profile: str) -> dict[str, dict[str, Any]]:
    """Lines of a profile, by the key of the line and by the work that was done for it."""
    good = [line for path in sorted(results.glob(f"*.{profile}.jsonl")) for line in lines(path) if "error" not in line]
    return {line[name]: line for line in good for name in ("key", "work")}


def measured(job: Job, group: Group) -> dict[str, Any]:
    """What a job gives."""
    started = time.perf_counter()
    try:
        result = KINDS[ROWS[job.row].kind](job, group)
    except transfuse.FusionError as error:
        result = {"error": str(error)}
    return {
        **result, "seconds": round(time.perf_counter() - started, 3), "base": [b.origin for b in group.bases],
        "configuration": job.configuration(), "deviations": job.deviations(), "notes": list(group.task.notes),
        "versions": origin(),
    }  # fmt: skip


def _base(job: Job, group: Group) -> dict[str, Any]:
    each = [accuracy(model, group.task.test) for model in group.models]
    return {"metrics": {"accuracy": sum(each) / len(each)}, "each": each}


def _parent(job: Job, group: Group) -> dict[str, Any]:
    return group.answered(group.answers[ROWS[job.row].options["number"]], job.weights)


def _better(job: Job, group: Group) -> dict[str, Any]:
    """The parent that is better on validation examples: what somebody with labels would keep."""
    each = [accuracy(model, group.task.validation) for model in group.models]
    best = each.index(max(each))
    return {**group.answered(group.answers[best], job.weights), "kept": best + 1}


def _control(job: Job, group: Group) -> dict[str, Any]:
    """One parent with its last layer refitted: the nearest to the mean of the parents' outputs on held-out inputs."""
    data = group.unlabeled(ROWS[job.row].unlabeled)
    if data is None:
        data = transfuse.synthetic_inputs(group.models, group.task.train.read(slice(2)), seed=job.group)
    weights = job.weights or [1 / len(group.bases)] * len(group.bases)
    control = nearest_control(group.models, weights, Batches.of(data))
    answers = group.answered(outputs_of(control.model, group.task.test), job.weights)
    return {**answers, "kept": control.number, "disagreement": control.disagreement}


def _ensemble(job: Job, group: Group) -> dict[str, Any]:
    return group.answered(outputs_of(Ensemble(group.models), group.task.test), job.weights)


def _mean(job: Job, group: Group) -> dict[str, Any]:
    return group.answered(mean_of(group.answers, job.weights), job.weights)


def _fuse(job: Job, group: Group) -> dict[str, Any]:
    """A fusion, its hyper-parameters chosen by validation accuracy; test examples are used once, at the end."""
    choices = job.choices
    tried: list[dict[str, Any]] = []
    best: tuple[float, transfuse.Fusion, dict[str, Any]] | None = None
    for options in choices:
        fusion = fuse(job, group, options)
        reached = accuracy(fusion.model, group.task.validation) if len(choices) > 1 else 0.0
        tried.append({**options, "accuracy": reached, "seconds": round(fusion.states.seconds, 3)})
        if best is None or reached > best[0]:
            best = reached, fusion, options
    assert best is not None, "a product of grids has at least one choice"
    _, fusion, chosen = best
    return {
        **group.answered(outputs_of(fusion.model, group.task.test), job.weights),
        "objective": float(fusion.history[-1].objective),
        "finish": str(fusion.correction),
        "status": fusion.status,
        "fusing_seconds": round(fusion.states.seconds, 3),
        **({"chosen": chosen, "validation": tried} if len(choices) > 1 else {}),
    }


def _landscape(job: Job, group: Group) -> dict[str, Any]:
    fusion = fuse(job, group, {"correct": "none"})
    names = "-".join(base.origin.get("sha256") or base.origin["trained"] for base in group.bases)
    cache = group.place.cache / f"points-{names}"
    cache.parent.mkdir(parents=True, exist_ok=True)
    return landscape(
        fusion,
        group.task.test,
        PROFILES[job.profile],
        pictured=job.pictured,
        cache=cache,
        workers=group.place.workers,
    )


KINDS: dict[str, Callable[[Job, Group], dict[str, Any]]] = {
    "base": _base,
    "parent": _parent,
    "better": _better,
    "control": _control,
    "ensemble": _ensemble,
    "mean": _mean,
    "fuse": _fuse,
    "landscape": _landscape,
}


def _tell(line: Mapping[str, Any]) -> None:
    told = line.get("error") or ", ".join(f"{name} {value:.2f}" for name, value in line["metrics"].items())
    place = f"{line['experiment']} | {line['cell']} | {line['row']} | group {line['group']}"
    print(f"{place}: {told}  ({line['seconds']:.1f} s)", flush=True)
