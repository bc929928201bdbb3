"""The methods table: published ways to fuse, as rows over the same problem.

A row says which sweep finds the couplings, and with which options. It is a function of a problem and a random state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .barycenter import Coupling, Problem, Step, jointly, layer_by_layer, shuffled

Found = tuple[list[dict[str, Coupling]], list[Step]]


@dataclass(frozen=True)
class Method:
    """One row.

    Args:
        summary: What it does, in a sentence.
        citation: Where it was published.
        couple: Finds the couplings of a problem.
        balance: Bring every model to a canonical scale first, where its layout allows scales.
    """

    summary: str
    citation: str
    couple: Callable[[Problem, np.random.Generator], Found]
    balance: bool = False


def _unmatched(problem: Problem) -> list[dict[str, Coupling]]:
    return [problem.start(model) for model in range(len(problem.states))]


def _vanilla(problem: Problem, rng: np.random.Generator) -> Found:
    couplings = _unmatched(problem)
    carried = [problem.carried_state(model, each) for model, each in enumerate(couplings)]
    return couplings, [Step(problem.objective(carried), 0)]


def _auto(problem: Problem, rng: np.random.Generator) -> Found:
    """The best, by the objective, of joint sweeps from several starts: unmatched, layer by layer, and shuffled."""
    unmatched = _unmatched(problem)
    layered, _ = layer_by_layer(problem, quadratic=True, updates=0, signs=True)
    starts = [unmatched, layered]
    starts += [[unmatched[0], *(shuffled(each, rng) for each in unmatched[1:])] for _ in range(2)]
    tries = [jointly(problem, start, signs=True, rng=rng) for start in starts]
    return min(tries, key=lambda found: found[1][-1].objective)


def _rebasin(problem: Problem, rng: np.random.Generator) -> Found:
    return jointly(problem, _unmatched(problem), signs=False, rng=rng)


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
        "Akash, Li and Garcia Trillos (2022), Section 3, Algorithm 2, with exact couplings; arXiv:2210.06671",
        lambda problem, rng: layer_by_layer(problem, quadratic=True, updates=20),
    ),
    "wb": Method(
        "layer by layer by incoming weights, hidden-to-hidden weights left out; target updated to the barycenter",
        "Akash, Li and Garcia Trillos (2022), Section 2, Algorithm 1, with exact couplings; arXiv:2210.06671",
        lambda problem, rng: layer_by_layer(problem, quadratic=False, updates=20),
    ),
    "ot": Method(
        "layer by layer by incoming weights, once, to the first model; squared distance",
        "Singh and Jaggi (2020), Model Fusion via Optimal Transport; arXiv:1910.05653",
        lambda problem, rng: layer_by_layer(problem, quadratic=False, updates=0),
    ),
    "rebasin": Method(
        "joint sweeps over incoming and outgoing weights without signs, to convergence; each model against the others",
        "Ainsworth, Hayase and Srinivasa (2023), Git Re-Basin, weight matching; arXiv:2209.04836",
        _rebasin,
    ),
    "vanilla": Method("no matching: the plain weighted average", "McMahan et al. (2017); arXiv:1602.05629", _vanilla),
}
