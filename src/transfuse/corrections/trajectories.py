"""A recurrent layer fitted by what it runs through by itself: an error of one step counts by what becomes of it.

A fit on the states that its targets drive knows the errors of single steps. Left to itself, the layer starts each step
where the last one has left it; errors add up, and some could cancel. With h(V) the states that it runs through by
itself and h* those that the targets drive,

    minimise over V:  sum |h* - h(V)|^2 + ridge * d * mean(slope^2) * |V - V0|^2

is solved for h as it changes linearly around V0, the matrices that were fitted (a step of Gauss and Newton). Units are
coupled over time, so that no normal equations can be made: conjugate gradients go through all steps once forwards, once
backwards, and are led by the equations of the fit.

In: samples of a recurrent site as it is now, its matrices, and the equations by which they were found. Out: the site
has matrices whose states are nearer to the targets on held-out batches, if such are found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import torch
from torch import Tensor

from ..activations import Seen
from .affine import gates_by_part, recurrent_features
from .least_squares import Equations, LeastSquares, descended
from .pieces import Samples
from .slopes import FLOOR, PartMatrices
from .task import Sample

LENGTHS = (1.0, 0.5, 0.25)  # of the step: the first that helps on held-out batches is taken, for states bend
LEAST = 0.035  # of what all steps of conjugate gradients gain: one that gains less is the last, after 8 to 10 of them


@dataclass(frozen=True, eq=False)
class Course:
    """What a recurrent layer runs through, and how that changes with its matrices.

    Args:
        site: The layer.
        weights: How much each sample counts, [sample, 1].
        features: What the gates are linear in, [step, sample, features], for each part.
        slopes: For each state of a unit, how it changes with what the gates see and with the states before the step.
        hidden: How what the gates see changes with the states before, [gates x units, units].
        missing: What the states lack of those that the targets drive, [step, sample, units].
    """

    site: Seen
    weights: Tensor
    features: Sequence[Tensor]
    slopes: Sequence[tuple[Tensor, Sequence[Tensor]]]
    hidden: Tensor
    missing: Tensor

    @staticmethod
    def of(sample: Sample, start: PartMatrices) -> Course:
        """The course of a layer that has these matrices."""
        site, layer = sample.own, sample.own.recurrence
        assert layer is not None
        units = site.output.shape[-1]
        hidden = [matrix[:, :units] for matrix in start]
        if layer.kind == "gru":  # the half of the candidate that comes from inputs
            hidden[1] = torch.zeros_like(hidden[2])
        missing = layer.spread(layer.driven(sample.target) - site.output)
        steps = missing.shape[:2]
        features = [layer.spread(each).view(*steps, -1) for each in recurrent_features(site, site.output)]
        slopes = [
            (layer.spread(gates), [layer.spread(each) for each in states])
            for gates, states in layer.slopes(site.pre_activations)
        ]
        weights = torch.full_like(missing[0, :, :1], sample.batch.weight)
        return Course(site, weights, features, slopes, torch.cat(hidden).to(missing), missing)

    def beside(self, others: Sequence[Course]) -> Course:
        """This course and others of as many steps, as one: in all steps, products of few samples take longer."""
        every = [self, *others]
        features = [torch.cat(each, 1) for each in zip(*(course.features for course in every), strict=True)]
        slopes = [
            (torch.cat([gates for gates, _ in each], 1),
             [torch.cat(states, 1) for states in zip(*(states for _, states in each), strict=True)])
            for each in zip(*(course.slopes for course in every), strict=True)
        ]  # fmt: skip
        weights, missing = (torch.cat([getattr(each, name) for each in every], -2) for name in ("weights", "missing"))
        return replace(self, weights=weights, features=features, slopes=slopes, missing=missing)

    def ahead(self, change: PartMatrices) -> Tensor:
        """How the states after each step change with the matrices, in first order."""
        pushed = [features @ matrix.T.to(features) for features, matrix in zip(self.features, change, strict=True)]
        seen = torch.cat(pushed, -1) if len(pushed) > 1 else pushed[0]
        states: list[Tensor] = [torch.zeros_like(self.missing[0])] * len(self.slopes)
        found = torch.empty_like(self.missing)
        for step, seen_now in enumerate(seen):
            seen_now.addmm_(states[0], self.hidden.T)
            states = [(by_gates[step] * seen_now).unflatten(1, (-1, len(self.hidden.T))).sum(1) +
                      _sum(each[step] * state for each, state in zip(by_states, states, strict=True))
                      for by_gates, by_states in self.slopes]  # fmt: skip
            found[step] = states[0]
        return found

    def back(self, states: Tensor) -> list[Tensor]:
        """What numbers for the states after each step are for the matrices: `ahead`, transposed, by weights."""
        states = self.weights * states
        carried: list[Tensor] = [torch.zeros_like(states[0])] * len(self.slopes)
        found = torch.empty_like(self.slopes[0][0])
        for step in reversed(range(len(states))):
            carried[0] = carried[0] + states[step]
            gates = found[step].unflatten(1, (-1, states.shape[-1]))
            for number, ((by_gates, _), each) in enumerate(zip(self.slopes, carried, strict=True)):
                slopes = by_gates[step].view_as(gates)
                if number:
                    gates.addcmul_(slopes, each.unsqueeze(1))
                else:
                    torch.mul(slopes, each.unsqueeze(1), out=gates)
            carried = [_sum(by_states[number][step] * each for (_, by_states), each in
                            zip(self.slopes, carried, strict=True)) for number in range(len(carried))]  # fmt: skip
            carried[0].addmm_(found[step], self.hidden)
        rows = gates_by_part(self.site, found.flatten(0, 1))
        return [
            (features.flatten(0, 1).T @ each).T.double() for each, features in zip(rows, self.features, strict=True)
        ]


def by_trajectories(
    samples: Samples,
    start: PartMatrices,
    fit: Sequence[LeastSquares],
    *,
    ridge: float,
    constant: bool,
    write: Callable[[PartMatrices], None],
) -> None:
    """Fit a recurrent layer by its trajectories, if its states come nearer to the targets on held-out batches.

    Args:
        samples: The samples of the layer as it is now.
        start: Its matrices.
        fit: The equations by which they were found, of each part.
        ridge: The ridge by which they were found.
        constant: Whether the last feature is a constant.
        write: Gives the layer other matrices.
    """
    fits, judges = attrgetter("fits"), attrgetter("judges")
    courses = _joined(Course.of(sample, start) for sample in samples(which=fits))
    equations = [each if isinstance(each, Equations) else each.equations for each in fit]
    change = _change(courses, equations, ridge=ridge, constant=constant)
    before = _missed(samples(which=judges))
    for length in LENGTHS:
        write([matrix + length * each for matrix, each in zip(start, change, strict=True)])
        if _missed(samples(which=judges)) < before:
            return
    write(start)


def _joined(courses: Iterable[Course]) -> list[Course]:
    """Courses, those of as many steps as one."""
    by_steps: dict[int, list[Course]] = {}
    for course in courses:
        by_steps.setdefault(len(course.missing), []).append(course)
    return [first.beside(others) for first, *others in by_steps.values()]


def _missed(samples: Iterable[Sample]) -> float:
    """How far the states of a layer are from those that the targets drive; beyond all bounds if they are no numbers."""
    missed = 0.0
    for sample in samples:
        assert sample.own.recurrence is not None
        driven = sample.own.recurrence.driven(sample.target)
        missed += sample.batch.weight * float((driven - sample.own.output).square().sum())
    return missed if math.isfinite(missed) else math.inf


def _change(courses: Sequence[Course], fit: Sequence[Equations], *, ridge: float, constant: bool) -> list[Tensor]:
    """By how much the matrices must change for states to be nearest to their targets, in first order."""
    counts = _counts(courses)
    mean = float(torch.cat(counts).mean())
    rows = [each[:, None] + FLOOR * mean for each in counts]
    penalties = [mean * each.penalty(ridge, constant=constant) for each in fit]
    like = courses[0].missing  # what only leads need not be exact: float32 takes a quarter of the time
    inverses = [torch.cholesky_inverse(each.factor(ridge, constant=constant)).to(like) for each in fit]

    pull = [_sum(parts) for parts in zip(*(course.back(course.missing) for course in courses), strict=True)]

    def apart(flat: Tensor) -> list[Tensor]:
        """The matrix of each part."""
        pieces = flat[0].split([matrix.numel() for matrix in pull])
        return [piece.view_as(matrix) for piece, matrix in zip(pieces, pull, strict=True)]

    def curve(flat: Tensor) -> Tensor:
        """The equations of all steps and the ridge."""
        change = apart(flat)
        total = [matrix * penalty for matrix, penalty in zip(change, penalties, strict=True)]
        for course in courses:
            total = [one + other for one, other in zip(total, course.back(course.ahead(change)), strict=True)]
        return _flat(total)

    def inverse(flat: Tensor) -> Tensor:
        """What would be found if no error outlived its step, and each counted as much as its row does on average."""
        return _flat([(matrix.to(like) @ led).double() / each
                      for matrix, led, each in zip(apart(flat), inverses, rows, strict=True)])  # fmt: skip

    return apart(descended(torch.zeros_like(_flat(pull)), _flat(pull), curve, inverse, least=LEAST))


def _counts(courses: Sequence[Course]) -> list[Tensor]:
    """For each part, how much an error of each row counts: the mean squared slope of the states."""
    squares = _sum(gates.square().flatten(0, 1).sum(0) for course in courses for gates, _ in course.slopes)
    samples = sum(math.prod(course.missing.shape[:2]) for course in courses)
    return [each[0] for each in gates_by_part(courses[0].site, squares[None].double() / samples)]


def _flat(matrices: Sequence[Tensor]) -> Tensor:
    """All numbers in one row."""
    return torch.cat([matrix.flatten() for matrix in matrices])[None]


def _sum(tensors: Iterable[Tensor]) -> Tensor:
    first, *others = tensors
    return sum(others, first)
