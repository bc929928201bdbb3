"""Jointly: all spaces again and again, from what comes in and what goes out, until nothing changes.

- `jointly`: each model against the weighted sum of the others, space by space.
- `merge_many`: each model in turn is matched to the mean of the others to convergence (Git Re-Basin, Algorithm 3).

Neither ever raises the objective (for equal weights, in `merge_many`). Beside the models, one state of the target is
kept: the sum of the carried models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from .coupling import Coupling
from .matching import Matching, couple
from .problem import Couplings, Problem, State
from .steps import Step, Watch, unwatched


def jointly(
    problem: Problem, start: Sequence[Couplings], *, signs: bool, rng: np.random.Generator, sweeps: int = 100,
    watch: Watch = unwatched,
) -> tuple[list[dict[str, Coupling]], list[Step]]:  # fmt: skip
    """Coordinate ascent over models and spaces until no coupling changes.

    Every model is improved against those before it, then each against all others. The first of two models of the
    target's widths stays as it is. For two models this is weight matching of Git Re-Basin (its Algorithm 1).

    Args:
        problem: The models.
        start: Couplings of each model to start from.
        signs: Units may be negated where their space allows.
        rng: For the order of the spaces.
        sweeps: Most sweeps over all spaces and models.
        watch: Is told of each space.
    """
    count = len(problem.states)
    placed = _Placed(problem, start, signs=signs, weights=_working(problem.weights))
    for model in range(count):
        if model or placed.mixes(0):
            placed.sweep([model], rng, watch, f"placing model {model + 1}")
        placed.place(model)
    models = range(1 if count <= 2 and not placed.mixes(0) else 0, count)
    history: list[Step] = []
    for number in range(1, sweeps + 1):
        placed.refresh()
        changed = placed.sweep(models, rng, watch, f"sweep {number}")
        history.append(Step(problem.objective(placed.couplings), changed))
        if not changed:
            break
    return placed.couplings, noted(history)


def merge_many(
    problem: Problem, start: Sequence[Couplings], *, rng: np.random.Generator, sweeps: int = 100,
    watch: Watch = unwatched,
) -> tuple[list[dict[str, Coupling]], list[Step]]:  # fmt: skip
    """Merge many models (Ainsworth et al. 2023, Algorithm 3).

    In random order, each model is matched to the mean of all others until that matching converges; again and again,
    until a round changes nothing. All models count alike, as published. A step of the history is a round.
    """
    count = len(problem.states)
    placed = _Placed(problem, start, signs=False, weights=[1 / count] * count)
    for model in range(count):
        placed.place(model)
    history: list[Step] = []
    for number in range(1, sweeps + 1):
        placed.refresh()
        changed = 0
        for model in rng.permutation(count).tolist():
            while moved := placed.sweep([model], rng, watch, f"round {number}, model {model + 1}"):
                changed += moved
        history.append(Step(problem.objective(placed.couplings), changed))
        if not changed:
            break
    return placed.couplings, noted(history)


def noted(history: list[Step]) -> list[Step]:
    """The history, with a note on its last step if that still changed couplings."""
    last = history[-1]
    if not last.changed:
        return history
    before = history[-2].objective if len(history) > 1 else float("nan")
    note = (
        f"stopped after {len(history)} sweeps, of which the last changed {last.changed} couplings and took the "
        f"objective from {before:.6g} to {last.objective:.6g}; allow more sweeps"
    )
    return [*history[:-1], Step(last.objective, last.changed, note)]


def _working(weights: Sequence[float]) -> Sequence[float]:
    """The weights; equal ones if all weight is on one model, so that the others are still matched to it."""
    return weights if sum(weight > 0 for weight in weights) > 1 else [1 / len(weights)] * len(weights)


class _Placed:
    """Models in the order of the target: their couplings, and the weighted sum of those that are placed by now."""

    def __init__(self, problem: Problem, start: Sequence[Couplings], *, signs: bool, weights: Sequence[float]) -> None:
        self.problem = problem
        self.couplings = [dict(each) for each in start]
        self.matching = Matching(signs=signs)
        self.weights = weights
        self.counted: list[int] = []
        self.total: dict[str, Tensor] = {}

    def place(self, model: int) -> None:
        """Count a model into the sum."""
        self.counted.append(model)
        for name in self.problem.terms:
            own = self.weights[model] * self.problem.carried(model, name, self.couplings[model])
            self.total[name] = own if name not in self.total else self.total[name].add_(own)

    def refresh(self) -> None:
        """Make the sum anew: small errors of its updates do not add up over sweeps."""
        counted, self.counted, self.total = self.counted, [], {}
        for model in counted:
            self.place(model)

    def mixes(self, model: int) -> bool:
        """Whether a coupling of a model is more than a permutation."""
        return not all(coupling.hard for coupling in self.couplings[model].values())

    def sweep(self, models: Iterable[int], rng: np.random.Generator, watch: Watch, stage: str) -> int:
        """Improve every space of some models; how many couplings changed."""
        changed = 0
        names = rng.permutation([space.name for space in self.problem.layout.spaces]).tolist()
        for done, name in enumerate(names, start=1):
            changed += sum(self.improve(name, model) for model in models)
            watch(stage, done, len(names))
        return changed

    def improve(self, space: str, model: int) -> bool:
        """Couple one space of one model to the sum of the others; keep it if |W|^2 rises, W being the sum of all.

        With S the sum of the others, |W|^2 rises as `2 <S, T> + lambda <T, T>` does. The second term is constant
        between permutations. Where units are mixed, W itself is a target as well: it is the gradient at the
        present coupling.
        """
        problem, present = self.problem, self.couplings[model]
        touched = problem.terms_of(space)
        own = {name: problem.carried(model, name, present) for name in touched}
        rest = {name: self._rest(name, model, own[name]) for name in touched}
        targets: list[State] = [rest] if set(self.counted) - {model} else []
        if not present[space].hard:
            targets.append({name: rest[name] + self.weights[model] * own[name] for name in touched})
        for target in targets:
            found = couple(problem, space, model, target, couplings=present, matching=self.matching)
            proposed = {**present, space: found}
            if found.same_as(present[space]) or not self._gains(model, rest, own, proposed):
                continue
            self.couplings[model] = proposed
            return True
        return False

    def _rest(self, name: str, model: int, own: Tensor) -> Tensor:
        if name not in self.total:
            return own.new_zeros(own.shape)
        return self.total[name] - self.weights[model] * own if model in self.counted else self.total[name]

    def _gains(self, model: int, rest: State, own: State, proposed: Couplings) -> bool:
        """Whether proposed couplings raise |W|^2; if so, the sum is updated."""
        moved = {name: self.problem.carried(model, name, proposed) for name in own}
        before, after = (self._value(model, rest, each) for each in (own, moved))
        if after <= before + 1e-7 * abs(before):
            return False
        if model in self.counted:
            for name, new in moved.items():
                self.total[name] = rest[name] + self.weights[model] * new
        return True

    def _value(self, model: int, rest: State, own: State) -> float:
        omega = self.problem.importance
        weight = self.weights[model]
        return sum(
            omega.get(name, 1.0) * float(((2 * rest[name] + weight * own[name]) * own[name]).sum(dtype=torch.float64))
            for name in own
        )
