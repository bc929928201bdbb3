"""States between the server and clients of other widths: couplings upwards and downwards, and which one is nearest.

A coupling upwards is a matrix [server units, client units] for each space: the one by which a reply is fused. Downwards
units of the server that belong to one unit of the client merge into it, by the same matrix turned round.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import torch
from torch import Tensor

from ..barycenter import CouplingMatrices
from ..fusing import fuse_states
from ..fusing.known import turns
from ..layout import Layout, Permutation
from ..types import State
from .records import Standing


def carried(state: State, layout: Layout, couplings: State, widths: Mapping[str, int]) -> State:
    """A state, maybe without some tensors, carried along couplings [target units, own units] to other widths."""
    own = layout.without([name for name in layout.tensors if name not in state])
    wanted = {space.name: widths[space.name] for space in own.spaces}
    return fuse_states([state], own, method="vanilla", couplings=[couplings], widths=wanted, aligned=False).state


def downwards(couplings: State) -> dict[str, Tensor]:
    """Couplings [server units, client units] turned round, their rows summing to 1 again, signs left out.

    Example:
        >>> downwards({"a": torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, -1.0]])})["a"].tolist()
        [[0.5, 0.5, 0.0], [0.0, 0.0, -1.0]]
    """
    return {space: _by_rows(matrix.T) for space, matrix in couplings.items()}


def _by_rows(matrix: Tensor) -> Tensor:
    return matrix / matrix.abs().sum(1, keepdim=True)


def unmoved(widths: Mapping[str, int]) -> CouplingMatrices:
    """The couplings by which every unit stays where it is."""
    return CouplingMatrices({space: Permutation(torch.arange(width)) for space, width in widths.items()})


def moved_share(couplings: CouplingMatrices) -> float:
    """The share of units that stand elsewhere, or are negated; of spaces in which units are mixed, all."""
    moved, total = 0, 0
    for coupling in couplings.couplings.values():
        width = coupling.width
        total += width
        if isinstance(coupling, Permutation):
            still = (coupling.order == torch.arange(width, device=coupling.order.device)) & (coupling.factor > 0)
            moved += width - int(still.sum())
        else:
            moved += width
    return moved / total if total else 0.0


def nearest(state: State, server: State, layout: Layout, standing: Standing) -> State | None:
    """The couplings from which a client that is known is matched: of what it was sent, or of its last reply.

    A client that trains what it was sent has the server's order of units. One that goes on with its own network has
    the order of its last reply. Which one it is shows in the distance to the server's state. Where the last reply was
    rotated there is none: that is searched for anew.
    """
    if turns(standing.found):
        return None
    widths = layout.widths(server)
    sent = unmoved(widths) if standing.sent is None else standing.sent
    if all(_same(sent.couplings[space], standing.found.couplings[space]) for space in sent):
        return sent
    return min((sent, standing.found), key=lambda each: distance(server, carried(state, layout, each, widths)))


def _same(one: object, other: object) -> bool:
    if isinstance(one, Permutation) and isinstance(other, Permutation):
        return torch.equal(one.order, other.order) and torch.equal(one.factor.double(), other.factor.double())
    return one is other


def distance(one: State, other: State) -> float:
    """The root of the sum of squared differences of two states, over what both hold as numbers."""
    shared = [name for name, tensor in other.items() if tensor.is_floating_point()]
    return sqrt(sum(float((one[name].double() - other[name].double()).nan_to_num().square().sum()) for name in shared))
