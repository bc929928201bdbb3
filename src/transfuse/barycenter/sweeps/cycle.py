"""Cycle-consistent matching of any number of models at once (C2M3, Crisostomi et al. 2024, arXiv:2405.17897).

Every model p is carried to one common *universe* of units; the map from model q to model p is `P_p' P_q`, so going
round a circle of models always ends where it began. All spaces of all models are found together, as a maximum of

    f(P) = sum_{p < q} sum_t omega_t <T_p(W_p,t), T_q(W_q,t)>

where T_p carries every axis of tensor t by the matrices of model p (the paper's objective for n models: each pair
agrees as much as possible in the universe). The permutations are relaxed to doubly stochastic matrices, f is climbed by
Frank and Wolfe's method, and the nearest permutations are taken in the end.

All pairs count alike, as published: the weights of the problem enter only the average. No signs. All models move at
once, as published; where two of them want each other's places, the climb can end halfway, which shows for an even
number of copies of one model. Not here: the repair of activations that the paper adds after merging.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.polynomial import Chebyshev
from torch import Tensor

from ...layout import PERMUTATIONS, Framed, Permutation
from ...progress import unwatched
from ...types import Array, Watch
from ..coupling import Coupling, Couplings, Plan, same
from ..history import Step
from ..objective import means, objective_of
from ..problem import Problem
from ..scores import unit_scores
from .equal_widths import check_equal_widths

Vertices = list[dict[str, Permutation]]


def cycle_consistent(
    problem: Problem, start: Sequence[Couplings] | None = None, *, steps: int = 100, tolerance: float = 1e-6,
    watch: Watch = unwatched,
) -> tuple[list[dict[str, Coupling]], list[Step]]:  # fmt: skip
    """Permutations of every space of every model into a universe, numbered so that the first model stays as it is.

    The agreement of all pairs is never below that of the start.

    Args:
        problem: Models of equal widths.
        start: Permutations to start from; default: no unit moves. Signs in it are ignored.
        steps: Most steps of Frank and Wolfe.
        tolerance: A step that adds less than this share of the agreement is not taken, and the climb has ended.
        watch: Is told of each step.

    Returns:
        The couplings; and for the start and each step the objective of the nearest permutations, and how many of these
        changed. The last step counts no changes if the climb ended by itself.

    Raises:
        InputError: widths differ.
    """
    check_equal_widths(problem)
    begun = last = _nearest(start or [problem.start(model) for model in range(len(problem.states))])
    here: Sequence[Couplings] = begun
    history = [Step(objective_of(problem, begun), 0)]
    for number in range(1, steps + 1):
        watch("step", number, steps)
        further = _step(problem, here, tolerance)
        if further is None:
            history.append(Step(history[-1].objective, 0))
            break
        here, before, last = further, last, _nearest(further)
        history.append(Step(objective_of(problem, last), _changes(before, last)))
    else:
        note = f"the climb had not ended after {steps} steps; allow more steps"
        history[-1] = replace(history[-1], note=note)
    if agreement_of_pairs(problem, last) < agreement_of_pairs(problem, begun):
        last = begun
        history.append(Step(history[0].objective, 0))
    return _first_unmoved(last), history


def agreement_of_pairs(problem: Problem, couplings: Sequence[Couplings]) -> float:
    """f: the sum over all pairs of models of the agreement of what they carry to the universe."""
    return float(_agreements(problem, [couplings])[0, 0])


def _step(problem: Problem, here: Sequence[Couplings], tolerance: float) -> Sequence[Couplings] | None:
    """One step of Frank and Wolfe: all spaces of all models go by one length towards their best permutations.

    A tensor with k coupled axes, carried by matrices that are linear in the length of the step, is a polynomial of
    degree k in it: known everywhere from k + 1 places. So f is a polynomial of degree 2 k (4 for a weight matrix
    between two spaces), known from the inner products of what is carried at these places, and the line search is exact.
    """
    there = _towards(problem, here)
    axes = max((len({pair.target.axis for pair in pairs}) for pairs in problem.blocks.values()), default=1)
    places = np.linspace(0.0, 1.0, axes + 1)
    products = _agreements(problem, [_between(here, there, float(place)) for place in places])
    interpolation = np.linalg.inv(np.vander(places, increasing=True))

    def value(length: float) -> float:
        shares = length ** np.arange(axes + 1) @ interpolation
        return float(shares @ products @ shares)

    length = longest_climb(value, degree=2 * axes)
    gained = value(length) - value(0.0)
    return _between(here, there, length) if gained > tolerance * abs(value(0.0)) else None


def _towards(problem: Problem, here: Sequence[Couplings]) -> Sequence[Couplings]:
    """For each model and space the permutation with the largest inner product with the gradient of f.

    Where a space stands on two axes of a tensor, both count. Of two models the first stays (the paper's matching of a
    pair): if both moved, each would go to where the other one was.
    """
    mean = means(replace(problem, weights=[1 / len(here)] * len(here)), here, problem.terms)
    found: list[Couplings] = list(here)
    for model in range(1 if len(here) == 2 else 0, len(here)):
        own = here[model]
        best = {}
        for space in problem.widths:
            others = {
                name: len(here) * mean[name] - problem.carried(model, name, own) for name in problem.terms_of(space)
            }
            best[space] = _best(unit_scores(problem, space, model, others, own).sum(0))
        found[model] = best
    return found


def longest_climb(value: Callable[[float], float], *, degree: int) -> float:
    """Where in [0, 1] a polynomial of a known degree is largest: exact, from `degree + 1` values.

    Example:
        >>> round(longest_climb(lambda x: x - x**4, degree=4), 6)  # 4 x^3 = 1
        0.629961
    """
    places = np.linspace(0.0, 1.0, degree + 1)
    fitted = Chebyshev.fit(places, [value(float(place)) for place in places], degree, domain=[0.0, 1.0])
    roots = fitted.deriv().roots()
    candidates = np.clip(np.concatenate([[0.0, 1.0], roots.real]), 0.0, 1.0)  # any place may be tried
    return float(candidates[np.argmax([value(float(place)) for place in candidates])])


def _agreements(problem: Problem, places: Sequence[Sequence[Couplings]]) -> Array:
    """For places a, b that carry model p to X_a,p and X_b,p: the matrix of `sum_{p != q} <X_a,p, X_b,q> / 2`.

    A sum over pairs is `<sum_p X_p, sum_q Y_q> - sum_p <X_p, Y_p>`: linear in the number of models.
    """
    total = np.zeros((len(places), len(places)))
    for name in problem.terms:
        sums: Tensor | None = None
        products = torch.zeros(len(places), len(places), dtype=torch.float64, device="cpu")
        for model in range(len(problem.states)):
            carried = [problem.carried(model, name, place[model]).flatten() for place in places]
            stacked = torch.stack(carried).double()
            products -= (stacked @ stacked.T).cpu()
            sums = stacked if sums is None else sums.add_(stacked)
        if sums is not None:
            products += (sums @ sums.T).cpu()
        total += problem.importance.get(name, 1.0) / 2 * products.numpy()
    return total


def _between(here: Sequence[Couplings], there: Sequence[Couplings], part: float) -> Sequence[Couplings]:
    """`(1 - part) here + part there`, for every model that moves and every space."""
    return [
        own
        if own is other
        else {name: own[name] if own[name] is other[name] else _mixed(own[name], other[name], part) for name in own}
        for own, other in zip(here, there, strict=True)
    ]


def _mixed(own: Coupling, other: Coupling, part: float) -> Coupling:
    if part in (0.0, 1.0):
        return other if part else own
    assert not isinstance(own, Framed), "this method only permutes"
    assert not isinstance(other, Framed), "this method only permutes"
    return Plan(torch.lerp(own.matrices, other.matrices, part))


def _best(scores: Tensor) -> Permutation:
    """The permutation with the largest total score."""
    return PERMUTATIONS.best_permutation(scores[None])


def _nearest(couplings: Sequence[Couplings]) -> Vertices:
    """The permutations with the largest inner product with given matrices."""
    return [{name: _best(coupling.matrices[1]) for name, coupling in each.items()} for each in couplings]


def _first_unmoved(couplings: Vertices) -> list[dict[str, Coupling]]:
    """Couplings with the universe numbered as the units of the first model; maps between models stay the same."""
    return [{name: own.relative_to(couplings[0][name]) for name, own in each.items()} for each in couplings]


def _changes(before: Sequence[Couplings], after: Sequence[Couplings]) -> int:
    return sum(not same(new[name], old[name]) for old, new in zip(before, after, strict=True) for name in old)
