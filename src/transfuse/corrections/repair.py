"""Repair: the mean and the spread of every unit's pre-activation set to the parents' (REPAIR, Jordan et al. 2023).

Units of an average vary less than those of its parents. At every site, from the first to the last, each row of the map
is scaled, and its constant moved, so that what the next nonlinearity sees has the mean of the parents' means and the
mean of their standard deviations; of a residual sum, the whole sum has. Where there is no constant, only the spread is
set. Everything is folded into weights, biases and norms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..activations import Seen, together
from ..modules import live_tensors
from .affine import chosen_rows, has_constant, matrices, parts, written
from .task import Task, check_numbers

MOST = 16.0  # the largest factor by which a unit is scaled; the smallest is one over it


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
        """The moments of values [samples, rows] of each kind."""
        stacked = torch.stack([value.double() for value in values])
        return Moments(stacked.shape[1], stacked.sum(1), torch.einsum("asr,bsr->abr", stacked, stacked))

    def __add__(self, other: Moments) -> Moments:
        """Sums over both sets of samples."""
        return Moments(self.count + other.count, self.first + other.first, self.second + other.second)

    @property
    def mean(self) -> Tensor:
        """The mean over all samples [kinds, rows]."""
        return self.first / self.count

    @property
    def covariance(self) -> Tensor:
        """Covariances of the kinds [kinds, kinds, rows]."""
        return self.second / self.count - self.mean[:, None] * self.mean[None]

    @property
    def deviations(self) -> Tensor:
        """Standard deviations [kinds, rows]."""
        return self.covariance.diagonal().T.clamp_min(0.0).sqrt()


def repair_sites(task: Task) -> None:
    """Set means and standard deviations at every site of the network of a task, in place."""
    _set(task, shift=True)


def rescale_sites(task: Task) -> None:
    """Set standard deviations only: units keep their means where they have a constant."""
    _set(task, shift=False)


def _set(task: Task, *, shift: bool) -> None:
    """Set standard deviations at every site, and means too if they shift."""
    sites, (_, theirs) = task.sites(), _parents_moments(task, lambda seen: seen.pre_activations)
    for number, (name, calls) in enumerate(sites.items()):
        task.step(number, len(sites))
        site, total = _own_moments(task, name, calls)
        if site is None or total is None or name not in theirs:
            continue
        check_numbers(name, total.second)
        mean, covariance, parents = total.mean, total.covariance, theirs[name]
        weights = mean.new_tensor(list(task.weights))
        wanted = weights @ parents.deviations
        scale = _scale(covariance[0, 0], covariance[0, 1], covariance[1, 1] - wanted**2)
        middle = weights @ parents.mean - mean[1] if shift else mean[0]
        _rewrite(task, site, matrices(site, task.state), RowChange(scale, middle, mean[0], covariance[0, 0]))


def _own_moments(task: Task, name: str, calls: int) -> tuple[Seen | None, Moments | None]:
    """A site of the network as it is now, and moments there of the layer's own output and of the other summand.

    A recurrent layer is seen on hidden states that the mean of the parents' pre-activations drives.
    """
    site, total = None, None
    for number, batch in enumerate(task.batches):
        for site in task.sights(number, batch, only=name, calls=calls):
            if site.recurrence is not None:
                return _recurrent_moments(task, name, calls)
            rest = torch.zeros_like(site.output) if site.rest is None else site.rest
            found = Moments.of([chosen_rows(site, value) for value in (site.output - rest, rest)])
            total = total + found if total else found
    return site, total


def _recurrent_moments(task: Task, name: str, calls: int) -> tuple[Seen | None, Moments | None]:
    """A recurrent site and moments of its pre-activations; it has no other summand, which counts as zeros."""
    site, total = None, None
    for sample in task.samples(name, calls):
        site = sample.own
        pieces = zip(parts(site, sample.target), matrices(site, task.state), strict=True)
        mine = torch.cat([part.features.double() @ matrix.T for part, matrix in pieces], 1)
        found = Moments.of([mine, torch.zeros_like(mine)])
        total = total + found if total else found
    return site, total


def _scale(own: Tensor, mixed: Tensor, excess: Tensor) -> Tensor:
    """The positive a with `a^2 own + 2 a mixed + excess = 0`, as near as there is one; 1 for units that never vary.

    If the other summand varies more than the sum shall, there are two: the one that is nearer to 1 counts.
    """
    alive = own > 1e-12 * own.max().clamp_min(1e-300)
    safe = torch.where(alive, own, 1.0)
    root = (mixed**2 - safe * excess).clamp_min(0.0).sqrt()
    high, low = (root - mixed) / safe, (-root - mixed) / safe
    nearer = torch.where((low > 0) & ((low - 1).abs() < (high - 1).abs()), low, high)
    return torch.where(alive, nearer, 1.0).clamp(1 / MOST, MOST)


def rescale_in_closed_form(task: Task) -> None:
    """Scale every unit by what averaging takes from it, as the parents alone tell: the network is not run.

    The mean `sum_i w_i y_i` of the parents' values has the variance `w' C w`, with their covariances C. Units are
    scaled by the mean of the parents' standard deviations over its root, around their mean where they have a constant.
    """
    sites, sums = _parents_moments(
        task, lambda seen: seen.pre_activations if seen.rest is None else seen.output - seen.rest
    )
    for name, moments in sums.items():
        weights = moments.mean.new_tensor(list(task.weights))
        mean = weights @ moments.mean
        variance = torch.einsum("a,b,abr->r", weights, weights, moments.covariance)
        wanted = weights @ moments.deviations
        scale = _scale(variance, torch.zeros_like(variance), -(wanted**2))
        each = [matrices(sites[name], live_tensors(parent)) for parent in task.parents]
        start = [task.mean(part) for part in zip(*each, strict=True)]
        _rewrite(task, sites[name], start, RowChange(scale, mean, mean, variance))


def _parents_moments(task: Task, values: Callable[[Seen], Tensor]) -> tuple[dict[str, Seen], dict[str, Moments]]:
    """For each site that may change, one sight of it and the moments of values there in all parents, in one pass."""
    wanted = task.sites()
    sites: dict[str, Seen] = {}
    sums: dict[str, Moments] = {}
    for number, batch in enumerate(task.batches):
        for seen in together(task.parents_sights(number, batch)):
            if seen[0].name in wanted:
                first = sites.setdefault(seen[0].name, seen[0])
                found = Moments.of([chosen_rows(first, values(each)) for each in seen])
                sums[first.name] = sums[first.name] + found if first.name in sums else found
    for name, moments in sums.items():
        check_numbers(name, moments.second)
    return sites, sums


@dataclass(frozen=True, eq=False)
class RowChange:
    """How the rows of a site are changed.

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


def _rewrite(task: Task, site: Seen, start: Sequence[Tensor], change: RowChange) -> None:
    """RowChange the rows of a site, given as the matrices of its parts."""
    counts = [len(matrix) for matrix in start]
    new = [matrix * own[:, None] for matrix, own in zip(start, change.scale.split(counts), strict=True)]
    statistics = {}
    if has_constant(site):
        for matrix, move in zip(new, (change.middle - change.scale * change.mean).split(counts), strict=True):
            matrix[:, -1] += move
        constants = torch.cat([matrix[:, -1] for matrix in new])
        statistics = {"mean": change.middle - constants, "variance": change.scale**2 * change.variance}
    task.write(written(site, task.state, new, **statistics))
