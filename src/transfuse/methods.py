"""The methods table: published ways to fuse, as rows over the same problem.

A row says which sweep finds the couplings, and with which options. It is a function of a problem and a random state.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .barycenter import (
    Coupling,
    Problem,
    Step,
    cycle_consistent,
    jointly,
    layer_by_layer,
    matched_averaging,
    shuffled,
)

Found = tuple[list[dict[str, Coupling]], list[Step]]


@dataclass(frozen=True)
class Method:
    """One row.

    Args:
        summary: What it does, in a sentence.
        citation: Where it was published.
        couple: Finds the couplings of a problem, given a random state and the options of the method.
        balance: Bring every model to a canonical scale first, where its layout allows scales.
    """

    summary: str
    citation: str
    couple: Callable[..., Found]
    balance: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Options that the method takes, with their defaults."""
        parameters = inspect.signature(self.couple).parameters.values()
        return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


def _unmatched(problem: Problem) -> list[dict[str, Coupling]]:
    return [problem.start(model) for model in range(len(problem.states))]


def _vanilla(problem: Problem, rng: np.random.Generator) -> Found:
    couplings = _unmatched(problem)
    carried = [problem.carried_state(model, each) for model, each in enumerate(couplings)]
    return couplings, [Step(problem.objective(carried), 0)]


def _auto(problem: Problem, rng: np.random.Generator, *, restarts: int = 2) -> Found:
    """The best, by the objective, of joint sweeps from several starts: unmatched, layer by layer, and shuffled."""
    unmatched = _unmatched(problem)
    layered, _ = layer_by_layer(problem, quadratic=True, updates=0, signs=True)
    starts = [unmatched, layered]
    starts += [[unmatched[0], *(shuffled(each, rng) for each in unmatched[1:])] for _ in range(restarts)]
    tries = [jointly(problem, start, signs=True, rng=rng) for start in starts]
    return min(tries, key=lambda found: found[1][-1].objective)


def _rebasin(problem: Problem, rng: np.random.Generator) -> Found:
    return jointly(problem, _unmatched(problem), signs=False, rng=rng)


def _ot(problem: Problem, rng: np.random.Generator, *, epsilon: float | None = None) -> Found:
    return layer_by_layer(problem, quadratic=False, updates=0, epsilon=epsilon)


def _wb(problem: Problem, rng: np.random.Generator, *, updates: int = 20, epsilon: float | None = None) -> Found:
    return layer_by_layer(problem, quadratic=False, updates=updates, epsilon=epsilon)


def _fedma(problem: Problem, rng: np.random.Generator, *, sigma: float = 1.0, sigma0: float = 1.0) -> Found:
    return matched_averaging(problem, sigma=sigma, sigma0=sigma0)


def _c2m3(problem: Problem, rng: np.random.Generator, *, steps: int = 100) -> Found:
    return cycle_consistent(problem, steps=steps)


def _gwb(
    problem: Problem, rng: np.random.Generator, *, updates: int = 20, epsilon: float | None = None, alpha: float = 1.0
) -> Found:
    """Alpha weighs the tensors on which a space stands twice (alpha_H in the paper)."""
    names = [[pair.target.tensor for pair in problem.blocks_of[space]] for space in problem.widths]
    twice = {name: alpha for each in names for name in each if each.count(name) > 1}
    return layer_by_layer(replace(problem, importance=twice), quadratic=True, updates=updates, epsilon=epsilon)


METHODS: dict[str, Method] = {
    "auto": Method(
        "canonical scales, then joint sweeps over incoming and outgoing weights with signs, to convergence; the best "
        "of several starts",
        "transfuse; objective of Akash, Li and Garcia Trillos (2022), sweeps of Ainsworth et al. (2023)",
        _auto,
        balance=True,
    ),
    "gwb": Method(
        "layer by layer by incoming weights, hidden-to-hidden weights included; target updated to the barycenter",
        "Akash, Li and Garcia Trillos (2022), Section 3, Algorithm 2; arXiv:2210.06671",
        _gwb,
    ),
    "wb": Method(
        "layer by layer by incoming weights, hidden-to-hidden weights left out; target updated to the barycenter",
        "Akash, Li and Garcia Trillos (2022), Section 2, Algorithm 1; arXiv:2210.06671",
        _wb,
    ),
    "ot": Method(
        "layer by layer by incoming weights, once, to the first model; squared distance",
        "Singh and Jaggi (2020), Model Fusion via Optimal Transport; arXiv:1910.05653",
        _ot,
    ),
    "rebasin": Method(
        "joint sweeps over incoming and outgoing weights without signs, to convergence; each model against the others",
        "Ainsworth, Hayase and Srinivasa (2023), Git Re-Basin, weight matching; arXiv:2209.04836",
        _rebasin,
    ),
    "fedma": Method(
        "one-shot FedMA: layer by layer, one model after another, costs of a Beta-Bernoulli process, no new units",
        "Wang et al. (2020), Federated Learning with Matched Averaging; arXiv:2002.06440",
        _fedma,
    ),
    "c2m3": Method(
        "all spaces of all models at once, cycle-consistent, by Frank and Wolfe's method",
        "Crisostomi et al. (2024), Cycle-Consistent Multi-Model Merging; arXiv:2405.17897",
        _c2m3,
    ),
    "vanilla": Method("no matching: the plain weighted average", "McMahan et al. (2017); arXiv:1602.05629", _vanilla),
}
