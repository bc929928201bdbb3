"""What a correction aims at: the mean of the parents' outputs, or the mean of what they hold for each class.

A classifier that has never seen a class holds more and more against it while it is trained, on every input. In the mean
of outputs this outweighs what another parent, which knows the class, holds for it. So where parents know different
things, the aim is their *evidence*: the probabilities that each parent gives to classes once its scores are softened.
What it holds against a class then counts for next to nothing, and shouting for one for little more than being sure.
The corrected network is to hold the same: its own scores, softened, are compared with that, and its last layer is
fitted to it. Where parents know the same, the mean of their outputs is the better aim: it can be fitted more closely.

How the network's own scores are read depends on what the parents share. Their mean probability is a *sum* of what each
of them says, and a linear layer can add, if its scores are taken for probabilities as they are. But of classes that
several parents know, the scores say it, and probabilities are bent. So scores are read by `entmax`: by a softmax where
parents know the same classes, and the more as probabilities, the fewer classes they share.

Which is better cannot be seen without labels, but whether parents know different things can: they are sure, and there
are classes that some of them name again and again and others next to never. Networks that were trained to other ends
than classes are rarely both. The result says what was chosen and why, and `aim=` overrides it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError
from ..modules import are_class_scores
from .tsallis import entmax

MEAN, EVIDENCE, AUTO_AIM = "mean", "evidence", "auto"
OFTEN = 0.5  # of its fair share of inputs: a class that is named so often is known
FEWEST = 5  # inputs that must be named so: fewer may be chance
SELDOM = 0.1  # of how often another parent names it: a class that is named less often is not known
WARMTH = 0.8  # of how far scores reach: the temperature of evidence; see docs/notes/data.md
SOFTER = 0.5  # by how much evidence is softer where parents share no class
STRAIGHTER = 0.5  # by how much the order of `entmax` is above that of a softmax there
SURE = 0.6  # the largest probability, on average: untrained networks, and most that give no classes, have less


@dataclass(frozen=True)
class Aim:
    """What a correction aims at: a row of the table `AIMS`.

    Args:
        of: What outputs become, at a temperature and read by some order of `entmax`, before they are compared and the
            parents' mean is taken.
        needs_classes: Whether outputs must be class scores.
    """

    of: Callable[[Tensor, float, float], Tensor]
    needs_classes: bool = False


def evidence(scores: Tensor, temperature: float, order: float = 1.0) -> Tensor:
    """What scores hold for each class: probabilities at a temperature, around zero and of the scale of scores.

    Scores that are small beside the temperature keep their distances to their mean, whatever the order; what is far
    below the mean counts as nothing. One temperature goes for all parents, so that the one that is surer counts for
    more.

    Args:
        scores: Of each sample a score for each class, [samples, classes].
        temperature: By which scores are divided before they become probabilities.
        order: Of `entmax`: 1 for what a classifier that was trained says, up to 2 for scores that are probabilities.

    Example:
        >>> evidence(torch.tensor([[3.0, 1.0, -10.0]]), temperature=2.0)
        tensor([[ 2.3815, -0.3881, -1.9934]])
        >>> evidence(torch.tensor([[3.0, 1.0, -10.0]]), temperature=2.0, order=1.5)
        tensor([[ 2.1990, -0.1990, -2.0000]])
    """
    classes = scores.shape[-1]
    return temperature * (classes * entmax(scores / scale_of(temperature, order, classes), order) - 1)


def scale_of(temperature: float, order: float, classes: int) -> float:
    """By what scores are divided before `entmax` makes shares of them.

    Shares that are nearly alike, 1 / classes each, grow with their scores by classes ** (order - 2): with this scale
    all orders make the same evidence of small scores.
    """
    return float(temperature * classes ** (order - 1))


def shares_of(evidence: Tensor, temperature: float) -> Tensor:
    """The probabilities that evidence, or a mean of evidence, was made of.

    Example:
        >>> scores = torch.tensor([[3.0, 1.0, -10.0]])
        >>> torch.allclose(shares_of(evidence(scores, 2.0), 2.0), (scores / 2.0).softmax(-1))
        True
    """
    return ((evidence / temperature + 1) / evidence.shape[-1]).clamp_min(0)  # rounding may leave less than nothing


AIMS: dict[str, Aim] = {
    MEAN: Aim(lambda scores, temperature, order: scores),
    EVIDENCE: Aim(evidence, needs_classes=True),
}


@dataclass(frozen=True)
class Answers:
    """What the parents say about inputs, as classifiers.

    Args:
        named: How often each parent names each class, [parents, classes].
        sure: The largest probability that a parent gives, on average; of the parent that is least sure.
        reach: How far scores reach above their mean, as a root mean square over inputs, classes and parents.
    """

    named: Tensor
    sure: float
    reach: float = 1.0

    @property
    def known_to_some(self) -> int:
        """How many classes some parent names again and again, and another one next to never."""
        most, least = self.named.amax(0), self.named.amin(0)
        fair = float(self.named[0].sum()) / self.named.shape[1]
        return int(((most >= max(OFTEN * fair, FEWEST)) & (least < SELDOM * most)).sum())

    @property
    def unshared(self) -> float:
        """The share of the classes that some parents name only."""
        return self.known_to_some / self.named.shape[1]

    @property
    def temperature(self) -> float:
        """At which their evidence is taken: by how far scores reach, and higher, the fewer classes all parents know.

        Where another one knows most classes, being sure of one's own says little.
        """
        return WARMTH * self.reach * (1 + SOFTER * self.unshared)

    @property
    def order(self) -> float:
        """Of `entmax`, by which the corrected network's scores are read: higher, the fewer classes all parents know."""
        return 1 + STRAIGHTER * self.unshared

    @property
    def differ(self) -> bool:
        """Whether the parents know different things: they are sure, and some classes are named by some of them only."""
        return self.sure >= SURE and self.known_to_some > 0

    def __str__(self) -> str:
        """What was seen, in a few words."""
        return f"{self.known_to_some} of {self.named.shape[1]} classes are named by some models only"


def answers(given: Iterable[Sequence[Sequence[Tensor]]]) -> Answers | None:
    """What the parents say about inputs; none where their outputs do not have the shape of class scores.

    Args:
        given: For each batch the outputs of every parent.
    """
    named: Tensor | None = None
    largest, above = [], []
    for outputs in given:
        if any(len(each) != 1 or not are_class_scores(each[0]) for each in outputs):
            return None
        scores = torch.stack([each[0] for each in outputs])
        sure, classes = scores.softmax(2).max(2)
        found = torch.stack([each.cpu().bincount(minlength=scores.shape[2]) for each in classes])
        named = found if named is None else named + found
        largest.append(sure.cpu())
        above.append((scores - scores.mean(2, keepdim=True)).clamp_min(0.0).square().mean((0, 2)).cpu())
    if named is None:
        return None
    reach = float(torch.cat(above).mean().sqrt()) or 1.0  # scores that are all the same hold for nothing
    return Answers(named, float(torch.cat(largest, 1).mean(1).min()), reach)


def checked_aim(aim: str) -> str:
    """The aim that was asked for.

    Raises:
        InputError: there is no such aim.
    """
    if aim not in (AUTO_AIM, *AIMS):
        raise InputError(f"aim is {aim!r}; expected {AUTO_AIM}, {', '.join(AIMS)}")
    return aim
