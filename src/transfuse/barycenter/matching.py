"""One coupling: the units of one space of one model matched to those of a target, everything else being as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..layout import Framed, Permutation, Rotation
from ..transport import ascend, entropic
from ..types import State
from .coupling import Coupling, Couplings, Plan, best_coupling, same
from .inside import inside_scores
from .problem import Problem
from .scores import Target, agreement, features, target_features, unit_scores

Distance = Literal["squared", "plain"]


@dataclass(frozen=True)
class Matching:
    """How a coupling is found.

    Args:
        signs: Units may be negated where their space allows.
        epsilon: Entropic couplings, with this regularisation relative to the spread of the scores; default: exact.
        distance: What is small for units that belong together: the squared distance of their weights, or the plain
            Euclidean one (only where the agreement is linear).
    """

    signs: bool = False
    epsilon: float | None = None
    distance: Distance = "squared"


EXACT = Matching()


def couple(
    problem: Problem, space: str, model: int, target: State, *, couplings: Couplings, matching: Matching = EXACT
) -> Coupling:
    """The best coupling of one space and one model to a target, by all tensors that the target holds.

    Exact where the agreement is linear; a monotone ascent where it is quadratic. With an epsilon, entropic: Sinkhorn at
    the scores, repeated at the scores of the coupling found where the agreement is quadratic (Peyre et al. 2016).
    """
    if matching.epsilon is None and matching.distance == "squared":
        return best_match(problem, space, model, target, couplings=couplings, signs=matching.signs).coupling
    touched = [name for name in problem.terms_of(space) if name in target]

    def scores(coupling: Coupling) -> Tensor:
        if matching.distance == "plain":
            return -_distances(problem, space, model, target, couplings)[None]
        return unit_scores(problem, space, model, target, {**couplings, space: coupling}, tensors=touched)

    if matching.epsilon is not None:
        repeats = 20 if problem.is_quadratic(space, touched) else 1
        return _entropic(scores, couplings[space], matching.epsilon, repeats=repeats)
    return best_coupling(scores(couplings[space]), problem.layout[space].symmetry, signs=matching.signs)


@dataclass(frozen=True, eq=False)
class Match:
    """A coupling, and the agreement with the target before and after; nan where units were mixed before."""

    coupling: Coupling
    before: float = float("nan")
    after: float = float("nan")


def best_match(problem: Problem, space: str, model: int, target: Target, *, couplings: Couplings, signs: bool) -> Match:
    """The exact coupling where the agreement is linear; the end of a monotone ascent where it is quadratic."""
    symmetry = problem.layout[space].symmetry
    touched = [name for name in problem.terms_of(space) if name in target]
    present = couplings[space]
    if isinstance(present, Permutation | Framed) and problem.layout.frames_of(space):
        inside = inside_scores(problem, space, model, target, couplings, touched)
        framed = inside.best()
        return Match(framed, inside.agreement(present), inside.agreement(framed))
    assert not isinstance(present, Framed), "only spaces with frames have such couplings"

    if not problem.is_quadratic(space, touched):
        scores = unit_scores(problem, space, model, target, couplings, tensors=touched)
        found = best_coupling(scores, symmetry, signs=signs)
        if isinstance(present, Plan) or isinstance(found, Plan):
            return Match(found)
        return Match(found, present.agreement(scores), found.agreement(scores))
    twice = [name for name in touched if problem.is_quadratic(space, [name])]
    linear = unit_scores(
        problem, space, model, target, couplings, tensors=[name for name in touched if name not in twice]
    )
    stands = [pair.target.tensor for pair in problem.blocks_of[space]]
    bilinear = all(stands.count(name) == 2 for name in twice)

    def at(coupling: Permutation | Rotation | Plan) -> tuple[float, Tensor]:
        """The agreement and its gradient. What is bilinear in an element is half of its own gradient along it."""
        moved = {**couplings, space: coupling}
        slopes = unit_scores(problem, space, model, target, moved, tensors=twice)
        if not isinstance(coupling, Plan) and bilinear:
            value = coupling.agreement(linear) + coupling.agreement(slopes) / 2
        else:
            value = agreement(problem, model, target, moved, touched)
        return value, slopes.add_(linear)

    best, before, after = ascend(
        present,
        at=at,
        vertex=lambda slopes: best_coupling(slopes, symmetry, signs=signs),
        matrix=lambda coupling: coupling.carriers(len(linear)),
    )
    return Match(best, before, after)


def _distances(problem: Problem, space: str, model: int, target: State, couplings: Couplings) -> Tensor:
    """Euclidean distances of the weights of the target's units and of a model's, [target units, model units]."""
    pairs = [pair for pair in problem.blocks_of[space] if pair.target.tensor in target]
    left, right = target_features(problem, target, pairs), features(problem, model, pairs, couplings)
    return torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist")


def _entropic(scores: Callable[[Coupling], Tensor], start: Coupling, epsilon: float, *, repeats: int) -> Coupling:
    """Sinkhorn at the scores of the present coupling, again and again until it stays."""
    coupling = start
    for _ in range(repeats):
        plan = entropic(scores(coupling).sum(0), epsilon, iterations=2000, tolerance=1e-3)
        error = 0.0 if plan.converged else plan.column_error
        found = Plan.of(plan.coupling, error)
        settled = same(found, coupling)
        coupling = found
        if settled:
            break
    return coupling
