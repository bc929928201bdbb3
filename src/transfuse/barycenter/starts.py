"""What a sweep starts from: another state of the target, or other couplings.

- The base start needs nothing from here: the first model, widened (units repeated) or narrowed (neighbours merged).
- `random_target`: weights drawn at random, of the sizes that the first model's have.
- `distilled_target`: the first model alone, fused into a random target (the paper's start for other architectures).
- `shuffled`: couplings of a model as if its units stood in random order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from .coupling import Coupling
from .problem import Couplings, Problem

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
    return alone.barycenter(couplings, alone.terms)


def shuffled(couplings: Couplings, rng: np.random.Generator) -> dict[str, Coupling]:
    """The couplings of a model as if its units stood in random order."""
    return {name: coupling.of_shuffled(rng.permutation(coupling.width)) for name, coupling in couplings.items()}
