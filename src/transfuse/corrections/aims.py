"""What a correction aims at: the mean of the parents' outputs, or the mean of what they hold for each class.

A classifier that has never seen a class holds more and more against it while it is trained, on every input. In the mean
of outputs this outweighs what another parent, which knows the class, holds for it. So where parents know different
things, the aim is their *evidence*: of each parent's scores, what is above its mean score; what is below counts as
nothing. Where parents know the same, the mean of their outputs is the better aim: it can be fitted more closely.

Which is better cannot be seen without labels, but whether parents know different things can: they are sure, and name
different classes. Networks that were trained to other ends than classes are rarely both. The result says what was
chosen and why, and `aim=` overrides it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..activations import Batches
from ..modules import are_class_scores, tensors_in

MEAN, EVIDENCE, AUTO_AIM = "mean", "evidence", "auto"
ALIKE = 0.5  # share of inputs: parents that name the same class on fewer know different things
SURE = 0.6  # the largest probability, on average: untrained networks, and most that give no classes, have less


@dataclass(frozen=True)
class Aim:
    """What a correction aims at: a row of the table `AIMS`.

    Args:
        summary: What it is, in a few words.
        of: What each parent's outputs become before their mean is taken.
        needs_classes: Whether outputs must be class scores.
    """

    summary: str
    of: Callable[[Tensor], Tensor]
    needs_classes: bool = False


def evidence(scores: Tensor) -> Tensor:
    """What scores hold for each class: how far they are above the mean score of their sample, else zero.

    Example:
        >>> evidence(torch.tensor([[3.0, 1.0, -10.0]]))
        tensor([[5., 3., 0.]])
    """
    return (scores - scores.mean(-1, keepdim=True)).clamp_min(0.0)


AIMS: dict[str, Aim] = {
    MEAN: Aim("the mean of the parents' outputs", lambda scores: scores),
    EVIDENCE: Aim("the mean of what the parents' scores hold for each class", evidence, needs_classes=True),
}


@dataclass(frozen=True)
class Answers:
    """What the parents say about inputs, as classifiers.

    Args:
        alike: On which share of inputs all parents name the same class.
        sure: The largest probability that a parent gives, on average; of the parent that is least sure.
    """

    alike: float
    sure: float

    @property
    def differ(self) -> bool:
        """Whether the parents know different things: they are sure, and name different classes."""
        return self.alike < ALIKE and self.sure >= SURE

    def __str__(self) -> str:
        """What was seen, in a few words."""
        return f"the models name the same class on {100 * self.alike:.0f} % of the inputs, and are sure of it"


@torch.no_grad()
def answers(parents: Sequence[nn.Module], batches: Batches) -> Answers | None:
    """What the parents say about inputs; none where their outputs do not have the shape of class scores."""
    same, count, sure = 0.0, 0.0, torch.zeros(len(parents))
    for batch in batches:
        outputs = [tensors_in(batch.run(parent)) for parent in parents]
        if any(len(each) != 1 or not are_class_scores(each[0]) for each in outputs):
            return None
        largest, named = torch.stack([each[0].softmax(1) for each in outputs]).max(2)
        same += batch.weight * float((named == named[0]).all(0).sum())
        sure += batch.weight * largest.sum(1).cpu()
        count += batch.weight * named.shape[1]
    return Answers(same / count, float(sure.min()) / count) if count else None
