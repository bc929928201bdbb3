"""Networks that answer for the classes of all parents: what each row of such a cell does, and what it is worth.

In: a job whose parents have outputs for some classes each, and its group. Out: what a line of results says: how often
the class is right among all, and, for each parent's classes, how often it is right among these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

import transfuse
from transfuse.activations import Batches
from transfuse.corrections import nearest_control

from .data import Examples
from .group import Group
from .jobs import Job
from .measuring import mean_of, outputs_of, share_right
from .records import OwnClasses
from .rows import ROWS

TASKS = ("first", "second", "third")


def union(job: Job, group: Group) -> dict[str, Any]:
    """What the row of a job does with parents that have outputs for other classes."""
    return WHAT[ROWS[job.row].options["what"]](job, group)


def joined(job: Job, group: Group, **options: Any) -> transfuse.Fusion:
    """A fusion with one output for each class of any parent."""
    classes = classes_of(job)
    return transfuse.fuse(
        group.models, group.task.train.read(slice(2)), layout=group.layout, heads="join", classes=classes,
        data=group.unlabeled(ROWS[job.row].unlabeled), seed=job.group, **options,
    )  # fmt: skip


def classes_of(job: Job) -> list[tuple[int, ...]]:
    """The classes of each parent."""
    skills = [setting.data.skill for _, setting, _ in job.members]
    return [skill.own for skill in skills if isinstance(skill, OwnClasses)]


def worth(outputs: Tensor, examples: Examples, classes: Sequence[Sequence[int]]) -> dict[str, float]:
    """Right answers in percent: of all classes, and for each parent's, of these alone.

    Example:
        >>> import torch
        >>> asked = Examples(torch.zeros(2), torch.tensor([0, 2]))
        >>> worth(torch.tensor([[5.0, 1.0, 9.0], [8.0, 0.0, 9.0]]), asked, [[0, 1], [2]])
        {'accuracy': 50.0, 'first task': 100.0, 'second task': 100.0}
    """
    found = {"accuracy": share_right(outputs, examples)}
    for title, own in zip(TASKS, classes, strict=False):
        asked = sum(examples.labels == each for each in own).bool()  # type: ignore[union-attr]
        others = [each for each in range(outputs.shape[1]) if each not in own]
        among = outputs[asked].index_fill(1, outputs.new_tensor(others).long(), -float("inf"))
        found[f"{title} task"] = share_right(among, examples.part(asked))
    return found


def _placed(job: Job, group: Group) -> tuple[transfuse.Heads, list[Any]]:
    """The parents with outputs for all classes: calibrated, if there are inputs to do that by."""
    fusion = joined(job, group, method="vanilla", correct="none")
    assert fusion.heads is not None, "heads were joined"
    return fusion.heads, list(fusion.parents)


def _better(job: Job, group: Group) -> dict[str, Any]:
    """The parent that is right more often on validation examples of all classes; it names its own only."""
    heads, parents = _placed(job, group)
    classes = classes_of(job)
    reached = []
    for parent, own in zip(parents, classes, strict=True):
        others = [each for each in range(heads.width) if each not in own]
        parts = [outputs_of(parent, each) for each in (group.task.validation, group.task.test)]
        reached.append([each.index_fill(1, each.new_tensor(others).long(), -float("inf")) for each in parts])
    shares = [share_right(validation, group.task.validation) for validation, _ in reached]
    best = shares.index(max(shares))
    return {"metrics": worth(reached[best][1], group.task.test, classes), "kept": best + 1}


def _ensemble(job: Job, group: Group) -> dict[str, Any]:
    """The outputs of all parents, each of which is run."""
    heads, parents = _placed(job, group)
    outputs = mean_of([outputs_of(parent, group.task.test) for parent in parents])
    return {"metrics": worth(outputs, group.task.test, classes_of(job)), "factors": heads.factors,
            "offsets": heads.offsets}  # fmt: skip


def _control(job: Job, group: Group) -> dict[str, Any]:
    """One parent, its last layer refitted to the outputs of all."""
    data = group.unlabeled(ROWS[job.row].unlabeled)
    batches = _synthetic(job, group) if data is None else Batches.of(data)
    _, parents = _placed(job, group)
    control = nearest_control(parents, [1 / len(parents)] * len(parents), batches, aim="mean")
    outputs = outputs_of(control.model, group.task.test)
    return {"metrics": worth(outputs, group.task.test, classes_of(job)), "kept": control.number,
            "disagreement": control.disagreement}  # fmt: skip


def _synthetic(job: Job, group: Group) -> Batches:
    """Synthetic inputs that ask one parent each, in turn, as a fusion has them."""
    example = group.task.train.read(slice(2))
    parts = [transfuse.synthetic_inputs([model], example, seed=job.group) for model in group.models]
    mixed = [content for each in zip(*(part.data for part in parts), strict=True) for content in each]
    return replace(parts[0], data=mixed, count=len(mixed))


def _fuse(job: Job, group: Group) -> dict[str, Any]:
    """One network for all classes."""
    options = {name: value for name, value in ROWS[job.row].options.items() if name != "what"}
    fusion = joined(job, group, **options)
    return {
        "metrics": worth(outputs_of(fusion.model, group.task.test), group.task.test, classes_of(job)),
        "finish": str(fusion.correction),
        "status": fusion.status,
        "fusing_seconds": round(fusion.states.seconds, 3),
    }


WHAT: dict[str, Callable[[Job, Group], dict[str, Any]]] = {
    "better": _better,
    "ensemble": _ensemble,
    "control": _control,
    "fuse": _fuse,
}
