"""Balance: a canonical scale for networks whose units may be scaled.

What produces a unit and what consumes it get the same norm, so that copies of a network that differ in scales alone
become equal. The function of the network does not change.

In: a state (plain or lazy), a layout. Out: a state of the same kind. Squares of weights are summed over all axes
without such units once; those of a lazy state are made anew in each round, so that one tensor is there at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ..lazy import LazyState
from ..types import Array, State
from .moving import permute, spread
from .recipe import Layout
from .records import SIDES, Block
from .symmetry import Permutation

ROUNDS = 20  # over all spaces; each halves, roughly, how far norms are apart
SETTLED = 1e-7  # a round that changes no factor by more than this share is the last one

Factors = Mapping[str, Array]
Squares = Callable[[str], Tensor]


def balanced(state: State, layout: Layout, *, rounds: int = ROUNDS) -> State:
    """The state in a canonical scale: what produces a unit and what consumes it have the same norm.

    Only spaces with scales change, and the function of the network does not. Units that nothing produces or consumes
    keep their scale.
    """
    factors = balancing_factors(state, layout, rounds=rounds)
    return permute(state, layout, {name: Permutation.scaling(each) for name, each in factors.items()})


def in_scale_of(reference: State, state: State, layout: Layout, *, rounds: int = ROUNDS) -> State:
    """A state of canonical scale in the scale that another one of the same widths has: what `balanced` did, undone."""
    factors = balancing_factors(reference, layout, rounds=rounds)
    return permute(state, layout, {name: Permutation.scaling(1 / each) for name, each in factors.items()})


def balancing_factors(state: State, layout: Layout, *, rounds: int = ROUNDS) -> dict[str, Array]:
    """The factors of all units that make their two norms equal, by rounds over all spaces with scales."""
    widths = layout.widths(state)
    factors: dict[str, Array] = {each.name: np.ones(widths[each.name]) for each in layout.spaces if each.scales}
    blocks: dict[str, list[Block]] = {}
    for block in layout.blocks(widths):
        if block.space in factors and block.odd.any():
            blocks.setdefault(block.tensor, []).append(block)
    squares = _squares(state, blocks)
    for _ in range(rounds if factors else 0):
        change = _change(squares, blocks, factors)
        factors = {name: factors[name] * change[name] for name in factors}
        if all(np.allclose(each, 1.0, atol=SETTLED) for each in change.values()):
            break
    return factors


def _squares(state: State, blocks: Mapping[str, Sequence[Block]]) -> Squares:
    """A function of a tensor's name: its squares, summed over all axes on which nothing is scaled."""
    axes = {name: {block.axis for block in own} for name, own in blocks.items()}
    if isinstance(state, LazyState):
        return lambda name: _summed(state[name], axes[name])
    return {name: _summed(state[name], own) for name, own in axes.items()}.__getitem__


def _change(squares: Squares, blocks: Mapping[str, Sequence[Block]], factors: Factors) -> dict[str, Array]:
    """By how much more each unit must be multiplied so that its two norms become equal."""
    norms = {(name, side): np.zeros(len(each)) for name, each in factors.items() for side in SIDES}
    for tensor, own in blocks.items():
        for block, sums in zip(own, _scaled_sums(squares(tensor), own, factors), strict=True):
            norms[block.space, block.side] += sums[block.positions[:, block.odd]].sum(1)
    return {name: _balance(norms[name, "produces"], norms[name, "consumes"]) for name in factors}


def _balance(produced: Array, consumed: Array) -> Array:
    usable = (produced > 0) & (consumed > 0)
    ratio: Array = np.divide(consumed, produced, out=np.ones(len(produced)), where=usable)
    return ratio**0.25


def _summed(tensor: Tensor, axes: Collection[int]) -> Tensor:
    """The squares of a tensor, summed over all axes but some (which stay, of length 1)."""
    others = [axis for axis in range(tensor.dim()) if axis not in axes]
    norms: Tensor = torch.linalg.vector_norm(tensor.detach(), dim=others, keepdim=True) if others else tensor.detach()
    return norms.square()


def _scaled_sums(squares: Tensor, blocks: Sequence[Block], factors: Factors) -> list[Array]:
    """For each block, the sum of squares of the scaled tensor at each position of the block's axis."""
    along: dict[int, Tensor] = {}
    for block in blocks:
        unit = factors[block.space] if block.side == "produces" else 1.0 / factors[block.space]
        factor = along.setdefault(block.axis, squares.new_ones(squares.shape[block.axis], dtype=torch.float64))
        spread(torch.from_numpy(unit).to(squares.device) ** 2, block, factor)
    found = {}
    for axis, own in along.items():
        sums = squares
        for other, factor in along.items():
            if other != axis:
                sums = torch.tensordot(sums, factor.to(sums.dtype), dims=([other], [0])).unsqueeze(other)
        found[axis] = (sums.flatten().double() * own).cpu().numpy()
    return [found[block.axis] for block in blocks]
