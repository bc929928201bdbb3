"""Sweeps: in which order couplings are found, and from which terms.

- `layer_by_layer`: spaces in the order of the layers, each from what comes in (OT fusion; the paper's Algorithms 1
  and 2), the target's layer updated in between.
- `jointly`: all spaces again and again, from what comes in and what goes out, each model against the weighted sum of
  the others, until nothing changes (weight matching of Git Re-Basin, for any number of models).

Both start from the identity. The joint sweep never raises the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..transport import ascend, entropic
from .coupling import Coupling
from .problem import Couplings, Pair, Problem, State


@dataclass(frozen=True)
class Step:
    """One sweep over all models and spaces: the objective after it, and how many couplings it changed."""

    objective: float
    changed: int


def couple(  # noqa: PLR0913
    problem: Problem, space: str, model: int, target: State, couplings: Couplings, *, signs: bool = False,
    tensors: Sequence[str] | None = None, epsilon: float | None = None,
) -> Coupling:  # fmt: skip
    """The best coupling of one space and one model to a target, the other couplings being as they are.

    Exact where the agreement is linear; a monotone ascent where it is quadratic. With an epsilon, entropic: Sinkhorn at
    the scores, repeated at the scores of the coupling found where the agreement is quadratic (Peyre et al. 2016).
    """
    allowed = signs and problem.layout[space].signs
    touched = sorted({pair.target.tensor for pair in problem.blocks_of[space]} & set(tensors or problem.blocks))

    def scores(coupling: Coupling) -> tuple[Tensor, Tensor]:
        return problem.scores(space, model, target, {**couplings, space: coupling}, tensors=touched)

    if epsilon is not None:
        return _entropic(scores, couplings[space], epsilon, repeats=20 if problem.is_quadratic(space) else 1)
    if not problem.is_quadratic(space):
        odd, even = scores(couplings[space])
        return Coupling.best(odd, even, signs=allowed)
    best, _ = ascend(
        couplings[space],
        gradient=lambda soft: torch.stack(scores(Coupling(soft=soft))),
        value=lambda soft: problem.agreement(model, target, {**couplings, space: Coupling(soft=soft)}, touched),
        vertex=lambda at: Coupling.best(at[0], at[1], signs=allowed),
        matrix=lambda coupling: coupling.matrices,
    )
    return best


def _entropic(
    scores: Callable[[Coupling], tuple[Tensor, Tensor]], start: Coupling, epsilon: float, *, repeats: int
) -> Coupling:
    """Sinkhorn at the scores of the present coupling, again and again until it stays."""
    coupling = start
    for _ in range(repeats):
        odd, even = scores(coupling)
        matrix = entropic(odd + even, epsilon).coupling
        found = Coupling(soft=torch.stack([matrix, matrix]))
        settled = torch.allclose(found.matrices, coupling.matrices, atol=1e-4)
        coupling = found
        if settled:
            break
    return coupling


def jointly(
    problem: Problem, start: Sequence[Couplings], *, signs: bool, rng: np.random.Generator, sweeps: int = 100
) -> tuple[list[dict[str, Coupling]], list[Step]]:
    """Coordinate ascent over models and spaces until no coupling changes.

    Every model but the first is improved against those before it, then each against all others. The first of two
    models of the target's widths stays as it is.

    Args:
        problem: The models.
        start: Couplings of each model to start from.
        signs: Units may be negated where their space allows.
        rng: For the order of the spaces.
        sweeps: Most sweeps over all spaces and models.
    """
    count = len(problem.states)
    couplings = [dict(each) for each in start]
    placed = _Placed(problem, couplings, [problem.carried_state(i, couplings[i]) for i in range(count)], signs)
    for model in range(1, count):
        placed.sweep([model], range(model), rng)
    unmoved = count <= 2 and problem.layout.widths(problem.states[0]) == dict(problem.widths)
    history: list[Step] = []
    for _ in range(sweeps):
        changed = placed.sweep(range(1 if unmoved else 0, count), range(count), rng) if count > 1 else 0
        history.append(Step(problem.objective(placed.carried), changed))
        if not changed:
            break
    return placed.couplings, history


def shuffled(couplings: Couplings, rng: np.random.Generator) -> dict[str, Coupling]:
    """The same couplings, with the units of the target in random order."""
    return {
        name: Coupling(soft=coupling.matrices[:, torch.from_numpy(rng.permutation(coupling.matrices.shape[1]))])
        for name, coupling in couplings.items()
    }


@dataclass(eq=False)
class _Placed:
    """Models in the order of the target, as far as they are coupled by now."""

    problem: Problem
    couplings: list[dict[str, Coupling]]
    carried: list[dict[str, Tensor]]
    signs: bool

    def sweep(self, models: Iterable[int], against: Iterable[int], rng: np.random.Generator) -> int:
        """Couple every space of some models to the weighted sum of others; how many couplings changed."""
        changed = 0
        names = [space.name for space in self.problem.layout.spaces]
        for name in rng.permutation(names).tolist():
            for model in models:
                changed += self.improve(name, model, [other for other in against if other != model])
        return changed

    def improve(self, space: str, model: int, others: Sequence[int]) -> bool:
        """Couple one space of one model to the weighted sum of other models; keep it if they agree more."""
        problem, present = self.problem, self.couplings[model]
        touched = sorted({pair.target.tensor for pair in problem.blocks_of[space]})
        target = {name: self._sum(name, others) for name in touched}
        found = couple(problem, space, model, target, present, signs=self.signs)
        if found.same_as(present[space]):
            return False
        proposed = {**present, space: found}
        before = problem.agreement(model, target, present, touched)
        if problem.agreement(model, target, proposed, touched) <= before + 1e-7 * abs(before):
            return False
        self.couplings[model] = proposed
        self.carried[model].update((name, problem.carried(model, name, proposed)) for name in touched)
        return True

    def _sum(self, tensor: str, models: Sequence[int]) -> Tensor:
        """A tensor summed over models by their weights (equally, if these are all zero)."""
        weights = [self.problem.weights[model] for model in models]
        if not any(weights):
            weights = [1.0] * len(models)
        total = torch.zeros_like(self.carried[models[0]][tensor])
        for weight, model in zip(weights, models, strict=True):
            total += weight / sum(weights) * self.carried[model][tensor]
        return total


def layer_by_layer(
    problem: Problem, *, quadratic: bool, updates: int, signs: bool = False, epsilon: float | None = None
) -> tuple[list[dict[str, Coupling]], list[Step]]:
    """Spaces in the order of the layers, each coupled by its incoming tensors whose other spaces are coupled already.

    Args:
        problem: The models.
        quadratic: Count tensors on which the space stands twice (the paper's GWB; without, its WB).
        updates: How often the layer of the target is updated to the barycenter and coupled again; 0 couples once, to
            the first model (OT fusion).
        signs: Units may be negated where their space allows.
        epsilon: Entropic couplings, with this regularisation relative to the spread of the scores; default: exact.
    """
    count = len(problem.states)
    couplings = [problem.start(model) for model in range(count)]
    done: set[str] = set()
    history: list[Step] = []
    while len(done) < len(problem.layout.spaces):
        space, pairs = next_space(problem, done, quadratic=quadratic)
        tensors = sorted({pair.target.tensor for pair in pairs})
        target: State = {name: problem.carried(0, name, couplings[0]) for name in tensors}
        for _ in range(updates + 1):
            found = [
                couple(problem, space, model, target, couplings[model], signs=signs, tensors=tensors, epsilon=epsilon)
                if tensors
                else couplings[model][space]
                for model in range(count)
            ]
            changed = [not new.same_as(old[space]) for new, old in zip(found, couplings, strict=True)]
            couplings = [{**old, space: new} for old, new in zip(couplings, found, strict=True)]
            if not any(changed):
                break
            target = problem.barycenter([
                {name: problem.carried(model, name, couplings[model]) for name in tensors} for model in range(count)
            ])  # fmt: skip
        done.add(space)
        carried = [problem.carried_state(model, couplings[model]) for model in range(count)]
        history.append(Step(problem.objective(carried), sum(changed)))
    return couplings, history


def next_space(problem: Problem, done: Collection[str], *, quadratic: bool = False) -> tuple[str, list[Pair]]:
    """The first space that has incoming tensors to go by, with their blocks; if none has, the first one left.

    Incoming are tensors that produce the units from units of spaces that are done (if `quadratic`, also from
    themselves).
    """
    left = [space.name for space in problem.layout.spaces if space.name not in done]
    for space in left:
        known = {*done, space} if quadratic else set(done)
        if pairs := [pair for pair in problem.blocks_of[space] if _is_incoming(problem, pair, known)]:
            return space, pairs
    return left[0], []


def _is_incoming(problem: Problem, pair: Pair, known: Collection[str]) -> bool:
    others = {other.target.space for other in problem.blocks[pair.target.tensor] if other is not pair}
    return pair.target.side == "produces" and others <= set(known)
