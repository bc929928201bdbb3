"""Jointly: all spaces again and again, from what comes in and what goes out, until nothing changes.

- `jointly`: each model against the weighted sum of the others, space by space.
- `merge_many`: each model in turn is matched to the mean of the others to convergence (Git Re-Basin, Algorithm 3).

Neither ever raises the objective (for equal weights, in `merge_many`). Beside the models, one state of the target is
kept: the sum of the carried models. A space is coupled again only if a coupling that its scores depend on has changed
since, and of the sum and the objective only what such a change touches is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import torch
from torch import Tensor

from ...layout import Permutation
from ...layout.slicing import Sliced, pieces, taken_slice, whole
from ...progress import unwatched
from ...types import State, Watch
from ..coupling import Coupling, Couplings, packed, reversible, same
from ..history import Step
from ..matching import best_match
from ..objective import term
from ..problem import Problem
from ..scores import Target, square

# Share of the agreement by which a coupling must be better than the present one: for a permutation more than rounding;
# for a rotation so much that sweeps come to an end. With 1e-7 it takes them twice as many, and neither pairs of vision
# transformers nor of language models got better by it.
GAIN = 1e-7
TURNED_GAIN = 1e-5
POLISHES = 30  # most rounds after the sweeps in which what rotates is rotated again; networks that differ need one
FALLS = 0.1  # by which share the objective falls in such a round at least, or it is the last one


def jointly(
    problem: Problem, start: Sequence[Couplings], *, signs: bool, rng: np.random.Generator, sweeps: int = 100,
    watch: Watch = unwatched,
) -> tuple[list[dict[str, Coupling]], list[Step]]:  # fmt: skip
    """Coordinate ascent over models and spaces until no coupling changes.

    Every model is improved against those before it, then each against all others; models whose couplings are known come
    first, as they are. The first of two models of the target's widths stays as it is. For two models this is weight
    matching of Git Re-Basin (its Algorithm 1).

    Args:
        problem: The models.
        start: Couplings of each model to start from.
        signs: Units may be negated where their space allows.
        rng: Draws the order in which spaces are gone through.
        sweeps: Most sweeps over all spaces and models.
        watch: Is told of each space.
    """
    count = len(problem.states)
    placed = _Placed(problem, start, signs=signs, weights=_working(problem.weights))
    for model in sorted(range(count), key=lambda model: problem.known_of(model) is None):
        if problem.known_of(model) is None and (model or placed.mixes(0)):
            placed.sweep([model], rng, watch, f"placing model {model + 1}")
        placed.place(model)
    models = range(1 if count <= 2 and not placed.mixes(0) else 0, count)
    history: list[Step] = []
    for number in range(1, sweeps + 1):
        changed = placed.sweep(models, rng, watch, f"sweep {number}")
        history.append(Step(placed.objective(), changed))
        if not changed:
            history += placed.polished(models)
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
        changed = 0
        for model in rng.permutation(count).tolist():
            while moved := placed.sweep([model], rng, watch, f"round {number}, model {model + 1}"):
                changed += moved
        history.append(Step(placed.objective(), changed))
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
    """Models in the order of the target: their couplings, and the weighted sum of those that are placed by now.

    Of two models no sum is kept: the rest is the other one.
    """

    def __init__(self, problem: Problem, start: Sequence[Couplings], *, signs: bool, weights: Sequence[float]) -> None:
        self.problem = problem
        self.couplings = [dict(each) for each in start]
        self.signs = signs
        self.weights = weights
        self.counted: list[int] = []
        self.total: dict[str, Tensor] = {}
        for name in problem.terms if len(start) > 2 else ():
            self.total[name] = problem.states[0][name].new_zeros(problem.shape(name))
        self.parts: dict[str, float] = {}  # of the objective
        self.stale = set(problem.terms)  # tensors whose part, and maybe whose sum, is to be made anew
        self.open = {(model, space) for model in range(len(start)) for space in problem.widths}  # to be coupled

    def place(self, model: int) -> None:
        """Count a model into the sum, which the others are matched to."""
        self.counted.append(model)
        for name in self.total:
            self._add(name, [(self.weights[model], self._carried(model, name))])
        others = set(range(len(self.couplings))) - {model}
        self.open |= {(other, space) for other in others for space in self.problem.widths}

    def objective(self) -> float:
        """F. The sum is made anew where it was updated: small errors of updates do not add up over sweeps."""
        for name in self.stale:
            self.parts[name] = term(self.problem, name, self.couplings)
            if name in self.total:
                self.total[name].zero_()
                self._add(name, [(self.weights[model], self._carried(model, name)) for model in self.counted])
        self.stale = set()
        return sum(self.parts[name] for name in self.problem.terms)

    def _carried(self, model: int, name: str) -> Sliced:
        return self.problem.sliced(model, name, self.couplings[model])

    def _add(self, name: str, shares: Sequence[tuple[float, Sliced]]) -> None:
        """Add tensors with their weights to a sum, all of them a few rows at a time."""
        own = [(weight, part.along(0)) for weight, part in shares]
        for piece in pieces(self.total[name].shape):
            for weight, make in own:
                self.total[name][piece].add_(make(piece), alpha=weight)

    def mixes(self, model: int) -> bool:
        """Whether a coupling of a model merges or splits units."""
        return not reversible(self.couplings[model])

    def sweep(self, models: Iterable[int], rng: np.random.Generator, watch: Watch, stage: str) -> int:
        """Improve every space of some models; how many couplings changed."""
        changed = 0
        names = rng.permutation([space.name for space in self.problem.layout.spaces]).tolist()
        names.sort(key=self.problem.layout.rotating.__contains__)  # these meet everything: all else is matched first
        for done, name in enumerate(names, start=1):
            changed += sum(self.improve(name, model) for model in models)
            watch(stage, done, len(names))
        return changed

    def polished(self, models: Sequence[int]) -> list[Step]:
        """What can be turned is turned again, however little is gained, as long as the objective falls by a share.

        Near the best rotation the objective hardly changes, so that sweeps end while rotations are off by as much as
        the root of what they ask to be gained. Of copies of a network nothing would be left of it.
        """
        layout = self.problem.layout
        names = [*dict.fromkeys(frame.space for frame in layout.frames), *layout.rotating]
        steps = [Step(self.objective(), 0)] if names else []
        for _ in range(POLISHES if names else 0):
            for name, model in product(names, models):
                if found := self._turned(name, model, any_gain=True):
                    self._replace(model, name, found)
            steps.append(Step(self.objective(), 0))
            if steps[-1].objective > (1 - FALLS) * steps[-2].objective:
                break
        return steps[-1:]

    def improve(self, space: str, model: int) -> bool:
        """Couple one space of one model to the sum of the others; keep it if |W|^2 rises, W being the sum of all.

        With S the sum of the others, |W|^2 rises as `2 <S, T> + lambda <T, T>` does. The second term is constant
        between permutations and rotations.
        """
        if (model, space) not in self.open:
            return False
        self.open.discard((model, space))
        exact = self.couplings[model][space].reversible
        found = (self._turned if exact else self._mixed)(space, model)
        if found is None:
            return False
        self._replace(model, space, found)
        stays = exact and not self.problem.is_quadratic(space)  # it is the best one: no need to look again
        near = {(other, name) for other in range(len(self.couplings)) for name in self.problem.neighbours(space)}
        self.open |= near - {(model, space)} if stays else near
        return True

    def _turned(self, space: str, model: int, *, any_gain: bool = False) -> Coupling | None:
        """A better permutation, or rotation, if there is one; however little it is better, if `any_gain`."""
        problem, present = self.problem, self.couplings[model]
        if not set(self.counted) - {model}:
            return None
        touched = problem.terms_of(space)
        rest: Target = {name: self._rest(name, model) for name in touched}
        if problem.is_quadratic(space):
            rest = {name: whole(each) for name, each in rest.items()}  # needed again and again
        found = best_match(problem, space, model, rest, couplings=present, signs=self.signs)
        before = 2 * found.before + self.weights[model] * square(problem, model, touched)
        least = GAIN if isinstance(found.coupling, Permutation) else TURNED_GAIN
        gained = 2 * (found.after - found.before) > (0.0 if any_gain else least) * abs(before)
        return found.coupling if gained and (any_gain or not same(found.coupling, present[space])) else None

    def _mixed(self, space: str, model: int) -> Coupling | None:
        """A better coupling that mixes units. W itself is a target as well: the gradient at the present coupling."""
        problem, present = self.problem, self.couplings[model]
        touched = problem.terms_of(space)
        own = {name: problem.carried(model, name, present) for name in touched}
        rest = {name: whole(self._rest(name, model)) for name in touched}
        targets: list[State] = [rest] if set(self.counted) - {model} else []
        targets.append({name: rest[name] + self.weights[model] * own[name] for name in touched})
        before = self._value(model, rest, own)
        for target in targets:
            found = best_match(problem, space, model, target, couplings=present, signs=self.signs).coupling
            if same(found, present[space]):
                continue
            moved = {name: problem.carried(model, name, {**present, space: found}) for name in touched}
            if self._value(model, rest, moved) > before + 1e-7 * abs(before):
                return found
        return None

    def _rest(self, name: str, model: int) -> Tensor | Sliced:
        """The sum of the other models that are placed."""
        others = [other for other in self.counted if other != model]
        if not others:
            return self.problem.states[model][name].new_zeros(self.problem.shape(name))
        if not self.total:
            return self._carried(others[0], name).each(lambda part, axis, rows: self.weights[others[0]] * part)
        total, weight = self.total[name], self.weights[model]
        if model not in self.counted:
            return total
        own = self._carried(model, name)
        return own.each(lambda part, axis, rows: torch.sub(taken_slice(total, axis, rows), part, alpha=weight))

    def _replace(self, model: int, space: str, found: Coupling) -> None:
        """Take a coupling, and update the sum."""
        names, weight = self.problem.terms_of(space), self.weights[model]
        before = {name: self._carried(model, name) for name in names}
        self.couplings[model] = packed({**self.couplings[model], space: found})
        self.stale.update(names)
        for name in names if self.total and model in self.counted else ():
            self._add(name, [(-weight, before[name]), (weight, self._carried(model, name))])

    def _value(self, model: int, rest: State, own: State) -> float:
        omega = self.problem.importance
        weight = self.weights[model]
        return sum(
            omega.get(name, 1.0) * float(((2 * rest[name] + weight * own[name]) * own[name]).sum(dtype=torch.float64))
            for name in own
        )
