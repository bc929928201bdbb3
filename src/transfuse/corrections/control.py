"""The control that every fusion is compared with: one parent is kept, and only its last layer is refitted.

In: the networks that were fused, as they were trained, and inputs without labels. Out: a copy of one of them whose last
layer gives, by ridge least squares, the mean of all parents' outputs. Nothing is matched and no unit is averaged, so
parents need not be aligned, and may have other hidden widths. A fusion that is farther from the parents' mean than this
has not earned its place on these inputs: keeping a parent is as good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from torch import nn

from ..activations import Batches
from ..modules import alone, twin_of, undisturbed
from .aims import AUTO_AIM, MEAN
from .refit import refit_site
from .task import Given, Task, aiming


@dataclass(frozen=True, eq=False)
class Control:
    """One parent with its last layer refitted, and how near it comes to all of them.

    Args:
        number: The parent that was kept, counted from 1.
        model: A copy of it, its last layer refitted, in its mode.
        disagreement: How far its outputs are from the mean of the parents' outputs on held-out inputs (squared,
            relative), as in `Corrected.disagreement`.
        aim: What was aimed at: that mean, or the mean of what the parents hold for each class.
    """

    number: int
    model: nn.Module
    disagreement: float
    aim: str = MEAN

    def __str__(self) -> str:
        """The parent and its distance, in a few words."""
        return f"model {self.number}, last layer refitted: {self.disagreement:.3g}"


@alone()
def refitted_parent(
    parent: nn.Module, parents: Sequence[nn.Module], weights: Sequence[float], batches: Batches, aim: str = AUTO_AIM,
    given: Given | None = None,
) -> nn.Module:  # fmt: skip
    """A copy of one parent whose last layer is refitted to the mean of all parents' outputs.

    The ridge is towards the parent's own last layer, and is chosen on held-out batches; without an improvement there,
    the copy is the parent.

    Args:
        parent: The network that is kept.
        parents: All networks, in any order of their units.
        weights: Proportions of the parents, summing to 1.
        batches: Inputs without labels.
        aim: What is aimed at: a row of `AIMS`, or `auto`.
        given: What the parents give on the batches, where some of it is known.

    Example:
        >>> import torch
        >>> one, other = nn.Linear(3, 2), nn.Linear(3, 2)
        >>> kept = refitted_parent(one, [one, other], [0.5, 0.5], Batches.of(torch.randn(100, 3)), aim="mean")
        >>> torch.allclose(kept.weight, (one.weight + other.weight) / 2, atol=0.01)
        True
    """
    with undisturbed(parent, *parents):
        own = _refitted(parent, parents, weights, batches, aim=aim, given=given or Given()).network
    _set_modes(own, parent)
    return own


@alone()
def nearest_control(
    parents: Sequence[nn.Module], weights: Sequence[float], batches: Batches, aim: str = AUTO_AIM,
    given: Given | None = None,
) -> Control:  # fmt: skip
    """The parent that comes nearest to the mean of all parents' outputs when its last layer is refitted.

    Args:
        parents: All networks, in any order of their units.
        weights: Proportions of the parents, summing to 1.
        batches: Inputs without labels; those that are held out choose.
        aim: What is aimed at: a row of `AIMS`, or `auto`.
        given: What the parents give on the batches, where some of it is known.

    Example:
        >>> import torch
        >>> net = nn.Linear(3, 2)
        >>> nearest_control([net, net], [0.5, 0.5], Batches.of(torch.randn(100, 3))).disagreement
        0.0
    """
    found, given = [], given or Given()
    for number, parent in enumerate(parents, start=1):
        with undisturbed(parent, *parents):
            task = _refitted(parent, parents, weights, batches, aim=aim, given=given)
            found.append(Control(number, task.network, task.disagreement(task.network), task.aim))
        _set_modes(task.network, parent)
    return min(found, key=lambda control: control.disagreement)


def _refitted(
    parent: nn.Module, parents: Sequence[nn.Module], weights: Sequence[float], batches: Batches, *, aim: str,
    given: Given,
) -> Task:  # fmt: skip
    """The task of refitting the last layer of one parent, done: its network is the copy, in evaluation mode."""
    own = twin_of(parent)
    runs = given.runs.lent(parent, own)
    task, _ = aiming(Task(own, parents, weights, batches, given=given, runs=runs), aim)
    bent = task.bent()
    for name, calls in _last_sites(task).items():
        refit_site(task, partial(task.samples, name, calls), bent=name in bent)
    return task


def _set_modes(network: nn.Module, like: nn.Module) -> None:
    """Give every part of a copy the mode of its original."""
    for module, before in zip(network.modules(), like.modules(), strict=True):
        module.training = before.training


def _last_sites(task: Task) -> dict[str, int]:
    """The sites that give the outputs of the network, and how often each is applied.

    Where there are none, since something follows the last layer (a softmax, a mean over places), that layer.
    """
    sites, ends = task.sites(), task.outputs()
    return {name: calls for name, calls in sites.items() if name in (ends or list(sites)[-1:])}
