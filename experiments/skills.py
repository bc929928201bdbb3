"""Which training examples a network sees: parents that know different things.

In: labels and a skill. Out: numbers of examples, in order.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .records import Classes, Clients, Dirichlet, OwnClasses, Skill


def seen(labels: Tensor, skill: Skill | Classes | OwnClasses | Dirichlet) -> Tensor:
    """The numbers of the examples that a network with a skill sees.

    Example:
        >>> seen(torch.tensor([2, 0, 1, 2]), Classes((1, 2)))
        tensor([0, 2, 3])
    """
    if isinstance(skill, Classes | OwnClasses):
        known = skill.classes if isinstance(skill, Classes) else skill.own
        return _where(torch.isin(labels, torch.tensor(known)))
    return _shared_out(labels, skill) if isinstance(skill, Dirichlet) else _special(labels, skill)


def numbered(labels: Tensor, own: tuple[int, ...]) -> Tensor:
    """Labels as numbers of the outputs of a network that has outputs for some classes only.

    Example:
        >>> numbered(torch.tensor([7, 5, 7]), (5, 7))
        tensor([1, 0, 1])
    """
    return (labels[:, None] == torch.tensor(own)).long().argmax(1)


def dealt(labels: Tensor, clients: Clients, draw: int) -> list[Tensor]:
    """The numbers of the examples of each client of a federation; no two share one.

    Example:
        >>> [rows.tolist() for rows in dealt(torch.tensor([2, 0, 1, 2]), Clients(2, "disjoint", same_start=True), 0)]
        [[1, 2], [0, 3]]
    """
    if clients.shares == "dirichlet":
        parts = range(clients.count)
        return [seen(labels, Dirichlet(clients.concentration, part, clients.count, draw)) for part in parts]
    if clients.shares == "disjoint":
        order = labels.argsort(stable=True)
    else:
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(draw))
    return [rows.sort().values for rows in order.tensor_split(clients.count)]


def _special(labels: Tensor, skill: Skill) -> Tensor:
    """With shares that sum to 1, two networks share none of the examples of other digits."""
    special, others = _where(labels == skill.digit), _where(labels != skill.digit)
    count = round(skill.share * len(others))
    chosen = torch.cat([special, others[:count]]) if skill.knows else others[len(others) - count :]
    return chosen.sort().values


def _shared_out(labels: Tensor, skill: Dirichlet) -> Tensor:
    """Each class is cut into pieces by shares that are drawn anew; all networks of a group see the same draw."""
    random = np.random.default_rng(skill.draw)
    pieces = []
    for number in labels.unique():
        own = _where(labels == number)
        ends = np.cumsum(random.dirichlet([skill.concentration] * skill.parts)) * len(own)
        first, last = (round(float(end)) for end in (0.0, *ends)[skill.part : skill.part + 2])
        pieces.append(own[first:last])
    return torch.cat(pieces).sort().values


def _where(chosen: Tensor) -> Tensor:
    return chosen.nonzero()[:, 0]
