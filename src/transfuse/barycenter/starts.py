"""What a sweep starts from: another state of the target, or other couplings.

- `random_target`: weights drawn at random, of the sizes that the first model's have.
- `distilled_target`: the first model alone, fused into a random target (the paper's start for other architectures).
- `merged`: the base start. Couplings that leave units where they are, repeat them for a wider target, and merge those
  that are alike for a narrower one.
- `anchored`: couplings by which units that rotate are turned to those of the first model, by what meets nothing else
  that moves: embeddings, positions, what reads the outputs.
- `shuffled`: couplings of a model as if its units stood in random order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..transport import exact, grouped
from .coupling import Coupling, Couplings, Plan, best_coupling
from .objective import means
from .problem import Problem
from .scores import features, unit_scores

Start = Literal["base", "random", "distilled"]
Layered = Callable[..., tuple[list[dict[str, Coupling]], Sequence[object]]]


def random_target(problem: Problem, rng: np.random.Generator) -> dict[str, Tensor]:
    """A target whose tensors are drawn from normal distributions with the sizes (root mean squares) of the first
    model's, widened or narrowed.
    """  # noqa: D205
    couplings = problem.start(0)
    target = {}
    for name in problem.terms:
        like = problem.carried(0, name, couplings)
        size = float(like.square().mean(dtype=torch.float64)) ** 0.5
        target[name] = torch.from_numpy(size * rng.standard_normal(tuple(like.shape))).to(like)
    return target


def distilled_target(problem: Problem, rng: np.random.Generator, layered: Layered) -> dict[str, Tensor]:
    """The first model alone fused, layer by layer, into a random target."""
    alone = replace(problem, states=problem.states[:1], weights=[1.0])
    couplings, _ = layered(alone, start=random_target(problem, rng))
    return means(alone, couplings, alone.terms)


def merged(problem: Problem, model: int) -> dict[str, Coupling]:
    """Couplings of a model to a target: where that is narrower, units that are alike are merged.

    Space by space, in the order of the layout: of the present couplings of the other spaces, the groups of equal size
    are sought that keep most of |T(W)|^2. Elsewhere units stay or are repeated. Couplings that are known stay so.
    """
    couplings = problem.start(model)
    if problem.known_of(model) is not None:
        return couplings
    for space, coupling in couplings.items():
        if problem.widths[space] < coupling.width and problem.terms_of(space):
            couplings[space] = _grouping(problem, model, space, couplings)
    return couplings


def _grouping(problem: Problem, model: int, space: str, couplings: Couplings) -> Coupling:
    """Units of one space merged in groups of like ones."""
    count, width = problem.widths[space], couplings[space].width
    total: Tensor | None = None
    for pair in problem.blocks_of[space]:
        if pair.target.tensor in problem.terms:
            units = features(problem, model, [pair], couplings)
            units = units if pair.target.side == "produces" else units * (width / count)
            total = units @ units.T if total is None else total.addmm_(units, units.T)
    assert total is not None, "a space with terms has blocks"
    groups = torch.from_numpy(grouped(total.double().cpu().numpy(), count)).to(total.device)
    member = (groups == torch.arange(count, device=total.device)[:, None]).to(total)
    matrix = member / member.sum(1, keepdim=True)
    if width % count:
        matrix = exact(matrix @ total)
    return Plan.of(matrix)


def all_anchored(problem: Problem) -> bool:
    """Whether units rotate, and all that do stand alone on some tensor: embeddings, say."""
    return bool(problem.layout.rotating) and all(_alone(problem, space) for space in problem.layout.rotating)


def _alone(problem: Problem, space: str) -> list[str]:
    """The tensors on which nothing but the units of one space moves."""
    return [name for name in problem.terms_of(space) if len(problem.blocks[name]) == 1]


def anchored(problem: Problem, couplings: Sequence[Couplings]) -> list[dict[str, Coupling]]:
    """Couplings with the units that rotate turned to the first model's, by the tensors on which nothing else moves.

    All other couplings are found by these, so they must not be needed to find them.
    """
    found = [dict(each) for each in couplings]
    for space in problem.layout.rotating:
        alone = _alone(problem, space)
        goal = {name: problem.carried(0, name, found[0]) for name in alone}
        for model in range(1, len(found)) if alone else ():
            scores = unit_scores(problem, space, model, goal, found[model], tensors=alone)
            found[model][space] = best_coupling(scores, problem.layout[space].symmetry, signs=True)
    return found


def shuffled(couplings: Couplings, rng: np.random.Generator) -> dict[str, Coupling]:
    """The couplings of a model as if its units stood in random order."""
    return {name: coupling.of_shuffled(rng.permutation(coupling.width)) for name, coupling in couplings.items()}
