"""Refit: every layer is fitted again, by least squares, to the mean of the aligned parents' pre-activations.

From the first site to the last: features are what the corrected network gives so far, targets are the parents' mean
pre-activations (less the other summand of a residual sum), so errors of earlier layers are made good by later ones. A
recurrent layer is fitted on hidden states that the target pre-activations drive, not on its own: those drift. The ridge
towards the fused weights is the one with the smallest residual on held-out batches; without an improvement there, a
site stays as it is.

Where pre-activations go through a nonlinearity and nowhere else, what is lost there need not be right: residuals are
then weighted by its slope (`slopes`). A recurrent layer is fitted once more, by what it then runs through by itself
(`trajectories`). A last layer of which the evidence is compared is fitted by that (`last_layer`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache, partial
from operator import add

import torch
from torch import Tensor

from ..activations import Seen
from .affine import has_constant, matrices, written
from .last_layer import Regression
from .least_squares import RIDGES, LeastSquares, problem_of
from .pieces import Piece, Samples, few_sequences, pieces_of
from .slopes import PartMatrices, by_slopes
from .task import Task, check_numbers
from .trajectories import by_trajectories


def refit_sites(task: Task, *, bent: Collection[str] | None = None) -> None:
    """Refit every site of the network of a task, in place.

    Args:
        task: What to correct.
        bent: Names of the weights whose residuals count by slopes; default: all where a known nonlinearity follows.
    """
    sites = task.sites()
    bent = task.bent() if bent is None else bent
    for number, (name, calls) in enumerate(sites.items()):
        task.step(number, len(sites))
        refit_site(task, partial(task.samples, name, calls), bent=name in bent)


def refit_site(task: Task, samples: Samples, *, bent: bool) -> None:
    """Refit one site to its samples; without samples it stays as it is."""
    pieces = pieces_of(samples, bent=lambda seen: bent and seen.recurrence is None)
    site, fit, judge = _equations(pieces())
    if site is None or not fit or not judge:
        return
    start, constant = matrices(site, task.state), has_constant(site)
    if task.softened(site.name):
        regression = Regression.of([piece for piece in pieces() if piece.batch.fits], task.temperature, task.order)
        _write(task, site, [regression.fitted(start[0], constant=constant)], fit)
        return
    best = _best_ridge(start, fit, judge, constant=constant)
    if best is None:
        return
    ridge, new = best
    many = True
    if bent and site.recurrence is not None:
        samples, many = few_sequences(samples)
        if many:
            pieces = pieces_of(samples, bent=lambda seen: True)
            _, fit, _ = _equations(pieces())  # of those that are left: they lead conjugate gradients faster
    if bent and many:
        new = by_slopes(start, new, fit, pieces, ridge=ridge, constant=constant)
    _write(task, site, new, fit)
    if site.recurrence is not None and bent:
        by_trajectories(samples, new, fit, ridge=ridge, constant=constant,
                        write=lambda found: task.write(written(site, task.state, found)))  # fmt: skip


def _equations(pieces: Iterable[Piece]) -> tuple[Seen | None, list[LeastSquares], list[LeastSquares]]:
    """A site, and the normal equations of its parts: from batches that fit, and from those that judge."""
    site = None
    fit: list[LeastSquares] = []
    judge: list[LeastSquares] = []
    for piece in pieces:
        site, batch = piece.site, piece.batch
        equations = [problem_of(part.features, part.outputs, batch.weight) for part in piece.parts]
        check_numbers(site.name, *(numbers for each in equations for numbers in each.numbers))
        if batch.fits:
            fit = list(map(add, fit, equations)) if fit else equations
        if batch.judges:
            judge = list(map(add, judge, equations)) if judge else equations
    return site, fit, judge


def _best_ridge(
    start: PartMatrices, fit: Sequence[LeastSquares], judge: Sequence[LeastSquares], *, constant: bool
) -> tuple[float, PartMatrices] | None:
    """The ridge with the smallest residual where it is judged, and what it gives; nothing if that is no better.

    The residual falls towards the best ridge and rises behind it, so the way is from the middle one downhill.
    """
    solvers = [eqs.solver(v, constant=constant) for v, eqs in zip(start, fit, strict=True)]

    def residual(found: PartMatrices) -> float:
        """What is left where it is judged."""
        return sum(eqs.residual(matrix) for matrix, eqs in zip(found, judge, strict=True))

    @cache
    def tried(number: int) -> tuple[float, PartMatrices]:
        """What one of the ridges leaves, and what it gives."""
        found = [solved(RIDGES[number]) for solved in solvers]
        return residual(found), found

    at = len(RIDGES) // 2
    for step in (1, -1):
        while 0 <= at + step < len(RIDGES) and tried(at + step)[0] < tried(at)[0]:
            at += step
    least, best = tried(at)
    enough = residual(start) - 1e-9 * sum(float(eqs.energy.sum()) for eqs in judge)
    return (RIDGES[at], best) if least < enough else None


def _write(task: Task, site: Seen, new: PartMatrices, equations: Sequence[LeastSquares]) -> None:
    """Write the matrices of a site into the network; a norm that follows gets the statistics that they lead to."""
    mean, variance = _moments(new, equations) if site.norm else (None, None)
    task.write(written(site, task.state, new, mean=mean, variance=variance))


def _moments(new: PartMatrices, equations: Sequence[LeastSquares]) -> tuple[Tensor, Tensor]:
    """Mean and variance of each row without its constant."""
    means, variances = [], []
    for matrix, eqs in zip(new, equations, strict=True):
        count, average = eqs.gram[-1, -1], eqs.gram[-1, :-1] / eqs.gram[-1, -1]
        spread = eqs.gram[:-1, :-1] / count - torch.outer(average, average)
        weight = matrix[:, :-1]
        means.append(weight @ average)
        variances.append(((weight @ spread) * weight).sum(1).clamp_min(0.0))
    return torch.cat(means), torch.cat(variances)
