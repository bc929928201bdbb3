"""Repair: the mean and the spread of every unit's pre-activation set to the parents' (REPAIR, Jordan et al. 2023).

Units of an average vary less than those of its parents. At every site, from the first to the last, each row of the map
is scaled, and its constant moved, so that what the next nonlinearity sees has the mean of the parents' means and the
mean of their standard deviations; of a residual sum, the whole sum has. Where there is no constant, only the spread is
set. Everything is folded into weights, biases and norms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..activations import Seen, watch
from .affine import has_constant, matrices, parts, rows_of, written
from .task import Sample, Task

MOST = 16.0  # no unit is scaled by more, or by less than one over it


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over samples of values that belong together: [kinds, samples, rows] -> means and covariances of the kinds.

    Args:
        count: How many samples.
        first: Sums [kinds, rows].
        second: Sums of products [kinds, kinds, rows].
    """

    count: int
    first: Tensor
    second: Tensor

    @staticmethod
    def of(values: Sequence[Tensor]) -> Moments:
        """From values [samples, rows] of each kind."""
        stacked = torch.stack([value.double() for value in values])
        return Moments(stacked.shape[1], stacked.sum(1), torch.einsum("asr,bsr->abr", stacked, stacked))

    def __add__(self, other: Moments) -> Moments:
        """Of both sets of samples."""
        return Moments(self.count + other.count, self.first + other.first, self.second + other.second)

    @property
    def mean(self) -> Tensor:
        """[kinds, rows]."""
        return self.first / self.count

    @property
    def covariance(self) -> Tensor:
        """[kinds, kinds, rows]."""
        return self.second / self.count - self.mean[:, None] * self.mean[None]


def repair(task: Task) -> None:
    """Set means and standard deviations at every site of the network of a task, in place."""
    _set(task, shift=True)


def rescale(task: Task) -> None:
    """Set standard deviations only: units keep their means where they have a constant."""
    _set(task, shift=False)


def _set(task: Task, *, shift: bool) -> None:
    weights = torch.tensor(list(task.weights), dtype=torch.float64)
    for name, calls in task.sites().items():
        total: Moments | None = None
        for sample in task.samples(name, calls):
            found = Moments.of(_values(task, sample))
            total = total + found if total else found
        assert total is not None, "there is at least one batch"
        mean, covariance = total.mean, total.covariance
        wanted = weights @ covariance[2:, 2:].diagonal().T.clamp_min(0.0).sqrt()
        scale = _scale(covariance[0, 0], covariance[0, 1], covariance[1, 1] - wanted**2)
        middle = weights @ mean[2:] - mean[1] if shift else mean[0]
        start = matrices(sample.own, task.state)
        _rewrite(task, sample.own, start, Change(scale, middle, mean[0], covariance[0, 0]))


def _values(task: Task, sample: Sample) -> list[Tensor]:
    """The layer's own output, the other summand, and what comes out in each parent: [samples, rows] each."""
    own, theirs = sample.own, [seen.pre_activations for seen in sample.parents]
    if own.recurrence is not None:
        found = parts(own, task.mean(theirs))
        rows = [part.features.double() @ m.T for part, m in zip(found, matrices(own, task.state), strict=True)]
        mine = torch.cat(rows, 1)
        return [mine, torch.zeros_like(mine), *(rows_of(own, value) for value in theirs)]
    rest = torch.zeros_like(own.output) if own.rest is None else own.rest
    return [rows_of(own, value) for value in (own.output - rest, rest, *theirs)]


def _scale(own: Tensor, mixed: Tensor, excess: Tensor) -> Tensor:
    """The positive a with `a^2 own + 2 a mixed + excess = 0`, as near as there is one; 1 for units that never vary."""
    alive = own > 1e-12 * own.max().clamp_min(1e-300)
    safe = torch.where(alive, own, 1.0)
    root = (mixed**2 - safe * excess).clamp_min(0.0).sqrt()
    return torch.where(alive, (root - mixed) / safe, 1.0).clamp(1 / MOST, MOST)


def closed_form(task: Task) -> None:
    """Scale every unit by what averaging takes from it, as the parents alone tell: the network is not run.

    The mean `sum_i w_i y_i` of the parents' values has the variance `w' C w`, with their covariances C. Units are
    scaled by the mean of the parents' standard deviations over its root, around their mean where they have a constant.
    """
    weights = torch.tensor(list(task.weights), dtype=torch.float64)
    sites, sums = _parents_moments(task)
    for name, moments in sums.items():
        mean, covariance = weights @ moments.mean, moments.covariance
        variance = torch.einsum("a,b,abr->r", weights, weights, covariance)
        wanted = weights @ covariance.diagonal().T.clamp_min(0.0).sqrt()
        scale = _scale(variance, torch.zeros_like(variance), -(wanted**2))
        each = [matrices(sites[name], parent.state_dict()) for parent in task.parents]
        start = [task.mean(part) for part in zip(*each, strict=True)]
        _rewrite(task, sites[name], start, Change(scale, mean, mean, variance))


def _parents_moments(task: Task) -> tuple[dict[str, Seen], dict[str, Moments]]:
    """For each site one sight of it, and moments of the parents' values there without other summands."""
    sites: dict[str, Seen] = {}
    sums: dict[str, Moments] = {}
    for batch in task.batches:
        for seen in zip(*(watch(parent, batch.run) for parent in task.parents), strict=True):
            first = sites.setdefault(seen[0].name, seen[0])
            values = [s.pre_activations if s.rest is None else s.output - s.rest for s in seen]
            found = Moments.of([rows_of(first, value) for value in values])
            sums[first.name] = sums[first.name] + found if first.name in sums else found
        task.step()
    return sites, sums


@dataclass(frozen=True, eq=False)
class Change:
    """What happens to the rows of a site.

    Args:
        scale: Each row is multiplied by it.
        middle: The mean that each row shall have, where it has a constant.
        mean: The mean that it has.
        variance: The variance that it has.
    """

    scale: Tensor
    middle: Tensor
    mean: Tensor
    variance: Tensor


def _rewrite(task: Task, site: Seen, start: Sequence[Tensor], change: Change) -> None:
    """Change the rows of a site, given as the matrices of its parts."""
    counts = [len(matrix) for matrix in start]
    new = [matrix * own[:, None] for matrix, own in zip(start, change.scale.split(counts), strict=True)]
    statistics = {}
    if has_constant(site):
        for matrix, move in zip(new, (change.middle - change.scale * change.mean).split(counts), strict=True):
            matrix[:, -1] += move
        constants = torch.cat([matrix[:, -1] for matrix in new])
        statistics = {"mean": change.middle - constants, "variance": change.scale**2 * change.variance}
    task.write(written(site, task.state, new, **statistics))
