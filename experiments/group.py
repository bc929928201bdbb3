"""A group of base networks: trained or found, with what they answer on the test examples.

In: a job and places. Out: a `Group`, which the rows of a cell share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

import transfuse

from .data import Task, load
from .jobs import Job
from .measuring import likeness, metrics_of, outputs_of
from .networks import build
from .training import Base, Place, base_network


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
        """Trained or found; clients of a federation are neither."""
        own = [] if job.cell.clients else job.members
        bases = tuple(base_network(name, setting, seed, place) for name, setting, seed in own)
        first = job.members[0][1]
        task = load(replace(first.data, skill=None))
        models = [base.model for base in bases] or [build(first.network)]
        shown = max(models, key=lambda model: len(model.state_dict()))  # of networks of other depths the deepest
        layout = transfuse.trace(shown, task.train.read(slice(2)))
        return Group(bases, task, layout, tuple(outputs_of(base.model, task.test) for base in bases), place)

    @property
    def models(self) -> list[nn.Module]:
        """The networks."""
        return [base.model for base in self.bases]

    def unlabeled(self, count: int) -> Tensor | None:
        """Training inputs without their labels; None if there are none."""
        return self.task.train.read(slice(count)) if count else None

    def answered(self, own: Tensor, weights: Sequence[float] | None) -> dict[str, Any]:
        """What class scores on the test examples are worth: accuracy or loss, and how like the parents' they are."""
        return {
            "metrics": metrics_of(own, self.task.test),
            "likeness": likeness(own, self.answers, weights),
        }
