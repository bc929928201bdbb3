"""How badly units match: what each unit of a model would lose if it were merged with its counterparts.

In: a problem with couplings that permute units. Out: numbers by space, model and unit. Not here: what is done about it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..layout import Block
from .coupling import Couplings
from .problem import Problem

TINY = 1e-30  # keeps units of zeros, which match each other, from being divided by zero


def mismatches(problem: Problem, couplings: Sequence[Couplings]) -> dict[str, Tensor]:
    """By space, how unlike each unit of a model is to the mean of its counterparts, [models but the first, units].

    Counterparts are those of the models before it. The squared distance of all that the objective holds of the unit,
    relative to the squares of both: 0 where they are the same, 1 where they have nothing in common.
    """
    models = range(len(problem.states))
    apart: dict[str, Tensor] = {}
    sizes: dict[str, Tensor] = {}
    for name in problem.terms:
        parts = [problem.carried(model, name, couplings[model]) for model in models]
        count = problem.importance.get(name, 1.0)
        for pair in problem.blocks[name]:
            space = pair.target.space
            distance, size = _compared([_by_unit(part, pair.target) for part in parts])
            apart[space] = apart.get(space, torch.zeros_like(distance)) + count * distance
            sizes[space] = sizes.get(space, torch.zeros_like(size)) + count * size
    return {space: apart[space] / sizes[space].clamp_min(TINY) for space in apart}


def _by_unit(tensor: Tensor, block: Block) -> Tensor:
    """What a tensor holds of each unit of a block, [units, numbers]."""
    positions = torch.from_numpy(block.positions).to(tensor.device)
    return tensor.movedim(block.axis, 0)[positions].flatten(1)


def _compared(rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Squared distances of each model's units to the mean of those before it, and the squares of both."""
    distances, sizes = [], []
    mean = rows[0].double()
    for number, each in enumerate(rows[1:], start=1):
        own = each.double()
        distances.append((own - mean).square().sum(1))
        sizes.append(own.square().sum(1) + mean.square().sum(1))
        mean = mean + (own - mean) / (number + 1)
    units = len(rows[0])
    empty = rows[0].new_zeros(0, units, dtype=torch.float64)
    return (torch.stack(distances), torch.stack(sizes)) if distances else (empty, empty)
