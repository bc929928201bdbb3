"""Cross-layer alignment: which layers of a deeper network stand beside those of a shallower one.

After Nguyen et al. (2021), On Cross-Layer Alignment for Model Fusion of Heterogeneous Neural Networks,
arXiv:2110.15538: the order of layers is kept, the first and the last ones stand beside each other, and what all pairs
cost in sum is least, by dynamic programming. A pair costs 1 less how alike its layers are.

In: layers, and what tells how alike two are. Out: for each layer of the shallower network the number of one of the
deeper one. Not here: how alike layers are (`likeness`), and what becomes of those that have no partner (`growing`,
`losing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf

from ..errors import InputError
from .blocks import NORMED
from .layers import Layer
from .likeness import Likeness

# What it costs to leave a layer without a partner that changes the number of units, in differences of likeness, which
# are at most 1: the network without it has another width there than the one with it, and units would merge.
CHANGES_WIDTH = 1.0


def cheapest(costs: Sequence[Sequence[float]], skips: Sequence[float]) -> list[int] | None:
    """For each row a column, further to the right from row to row, such that the sum of costs is least.

    Args:
        costs: Of each row and column; infinite where they cannot stand beside each other.
        skips: What it costs to leave a column without a row; infinite where that cannot be.

    Returns:
        The columns, or nothing if all choices are infinite.

    Example:
        >>> cheapest([[0.0, 9.0, 9.0], [9.0, 2.0, 1.0]], [inf, 0.0, 0.0])
        [0, 2]
    """
    rows, columns = len(costs), len(skips)
    least = [[inf] * (columns + 1) for _ in range(rows + 1)]  # of the first so many rows and columns
    least[0][0] = 0.0
    for j in range(columns):
        least[0][j + 1] = least[0][j] + skips[j]
        for i in range(rows):
            least[i + 1][j + 1] = min(least[i + 1][j] + skips[j], least[i][j] + costs[i][j])
    if least[rows][columns] == inf:
        return None
    found, i, j = [], rows, columns
    while i:
        paired = least[i - 1][j - 1] + costs[i - 1][j - 1] <= least[i][j - 1] + skips[j - 1]
        found += [j - 1] if paired else []
        i, j = i - paired, j - 1
    return found[::-1]


def aligned_layers(shallow: Sequence[Layer], deep: Sequence[Layer], likeness: Likeness) -> list[int]:
    """For each layer of the shallower network the number of the layer of the deeper one that stands beside it.

    Args:
        shallow: Layers of the network that has fewer.
        deep: Layers of the network that has more.
        likeness: How alike two layers of one kind are, from 0 to 1.

    Raises:
        InputError: there is none for some of them, or some of the deeper network can neither be grown nor left out.
    """
    costs = [[_cost(one, other, likeness) for other in deep] for one in shallow]
    skips = [inf, *(_skip(before, layer) for before, layer in pairwise(deep[:-1])), inf] if len(deep) > 1 else [inf]
    found = cheapest(costs, skips)
    if found is None:
        raise InputError(_unaligned(shallow, deep, costs, skips))
    return found


def _cost(one: Layer, other: Layer, likeness: Likeness) -> float:
    """What it costs to have two layers stand beside each other."""
    return 1.0 - likeness(one, other) if one.kind == other.kind and one.places == other.places else inf


def _skip(before: Layer, layer: Layer) -> float:
    """What it costs to leave out a layer of the deeper network, or to grow it in the other one."""
    if layer.residual:
        return 0.0 if layer.block != NORMED or before.ends_in_norm else inf
    chain = layer.chained and before.chained and layer.kind[0][0] == before.kind[0][0]
    if not chain or layer.places[0] != layer.places[1]:
        return inf
    return 0.0 if layer.units[0] == layer.units[1] else CHANGES_WIDTH


def _unaligned(
    shallow: Sequence[Layer], deep: Sequence[Layer], costs: Sequence[Sequence[float]], skips: Sequence[float]
) -> str:
    """Why layers cannot be put beside each other, with all layers of both networks."""
    alone = [layer.name for layer, row in zip(shallow, costs, strict=True) if min(row, default=inf) == inf]
    rigid = [layer.name for layer, cost in zip(deep, skips, strict=True) if cost == inf]
    reason = (
        f"nothing in the deeper one is of the kind of {', '.join(alone)}"
        if alone
        else f"of the deeper one {', '.join(rigid)} cannot be left without a partner (only residual blocks, post-norm "
        "ones behind a layer norm, and linear or convolution layers of stride 1 inside a chain can), and in this order "
        "they have none"
    )
    told = [", ".join(f"{each.name} ({each.kind[0][0]})" for each in layers) for layers in (shallow, deep)]
    return (
        f"the networks have different numbers of layers ({len(shallow)} and {len(deep)}) that cannot be put beside "
        f"each other: {reason}.\n  the layers of the shallower one: {told[0]}\n  of the deeper one: {told[1]}\nFuse "
        "networks that are built alike and differ in the number of repeated layers or blocks"
    )
