"""What is done for a row, by its kind: networks are measured, kept, refitted, fused, or looked between.

In: a job and its group. Out: what a line of results says. A new kind of row is an entry of `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

import transfuse
from transfuse.activations import Batches
from transfuse.corrections import nearest_control
from transfuse.depths import brought_to
from transfuse.modules import Ensemble, depth_of

from .group import Group
from .jobs import Job
from .landscapes import landscape
from .measuring import accuracy, mean_of, metrics_of, outputs_of
from .networks import build
from .profiles import PROFILES
from .records import Amount
from .rounds import federated
from .rows import ROWS
from .unions import union


def fuse(job: Job, group: Group, options: Mapping[str, Any]) -> transfuse.Fusion:
    """A fusion by the row of a job, with some options beside its own."""
    row, task, amount = ROWS[job.row], group.task, job.cell.amount or Amount()
    given = {
        "layout": without(group.layout, row.without),
        "target": amount.width if job.target is None else build(job.target),
        "weights": job.weights,
        "data": _inputs(job, group, amount),
        "seed": job.group,
    }
    return transfuse.fuse(group.models, task.train.read(slice(2)), **{**given, **row.options, **options})


def _inputs(job: Job, group: Group, amount: Amount) -> Any:
    """What a fusion gets as data: unlabeled inputs, or a number of synthetic ones; None if there are none."""
    if amount.synthetic is not None:
        example = group.task.train.read(slice(2))
        return transfuse.synthetic_inputs(group.models, example, samples=amount.synthetic, seed=job.group)
    return group.unlabeled(ROWS[job.row].unlabeled if amount.images is None else amount.images)


def without(layout: transfuse.Layout, symmetries: Sequence[str]) -> transfuse.Layout:
    """A layout whose spaces lack some symmetries."""
    none: dict[str, Any] = dict.fromkeys(symmetries, False)
    return replace(
        layout, spaces=tuple(replace(space, symmetry=replace(space.symmetry, **none)) for space in layout.spaces)
    )


def _base(job: Job, group: Group) -> dict[str, Any]:
    found = [metrics_of(answers, group.task.test) for answers in group.answers]
    (name,) = found[0]
    each = [one[name] for one in found]
    return {"metrics": {name: sum(each) / len(each)}, "each": each}


def _parent(job: Job, group: Group) -> dict[str, Any]:
    return group.answered(group.answers[ROWS[job.row].options["number"]], job.weights)


def _better(job: Job, group: Group) -> dict[str, Any]:
    """The parent that is better on validation examples: what somebody with labels would keep."""
    each = [accuracy(model, group.task.validation) for model in group.models]
    best = each.index(max(each))
    return {**group.answered(group.answers[best], job.weights), "kept": best + 1}


def _control(job: Job, group: Group) -> dict[str, Any]:
    """One parent with its last layer refitted: the nearest, on held-out inputs, to what a correction would aim at."""
    data = _inputs(job, group, job.cell.amount or Amount())
    if data is None:
        data = transfuse.synthetic_inputs(group.models, group.task.train.read(slice(2)), seed=job.group)
    weights = job.weights or [1 / len(group.bases)] * len(group.bases)
    batches = Batches.of(data)
    models, _ = brought_to(max(group.models, key=depth_of), group.models, batches)  # a grown one computes the same
    control = nearest_control(models, weights, batches)  # it aims as `fuse` does: no easier to beat
    measured = group.answered(outputs_of(control.model, group.task.test), job.weights)
    return {**measured, "kept": control.number, "disagreement": control.disagreement, "aim": control.aim}


def _ensemble(job: Job, group: Group) -> dict[str, Any]:
    # Each place of a text is an example: scores of all places are class scores then.
    members = [nn.Sequential(model, nn.Flatten(0, -2)) for model in group.models]
    return group.answered(outputs_of(Ensemble(members), group.task.test), job.weights)


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
        "aim": fusion.correction.aim,
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
    "federated": federated,
    "union": union,
}
