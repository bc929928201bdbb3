"""Balance: a canonical scale for networks whose units may be scaled.

What produces a unit and what consumes it get the same norm, so that copies of a network that differ in scales alone
become equal. The function of the network does not change. The factors f = exp(x) minimise the sum of the squares of all
weights, which is convex in x: there is one such scale, and it is found however deep the network is.

In: a state (plain or lazy), a layout. Out: a state of the same kind. Squares of weights are summed over all axes
without such units once; those of a lazy state are made anew in each round, so that one tensor is there at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..lazy import LazyState
from ..types import Array, State
from .elements import Permutation
from .moving import spread
from .permuting import permute
from .recipe import Layout
from .records import SIDES, Block
from .spaces_balance import Term, balancing_shifts

ROUNDS = 20  # over all spaces; each halves, roughly, how far the norms of a shallow network are apart
SETTLED = 1e-7  # a round that changes no factor by more than this share is the last one
MORE_ROUNDS = 300  # of those in which whole spaces are balanced too; some ten are needed, more near the identity only
REMEMBERED = 10  # of these rounds: what is extrapolated from
ALIKE = 0.1  # most difference of logarithms of factors, in the median over units, of models that are scaled alike
QUANTILES = np.linspace(0.0, 1.0, 101)  # by which units of models are compared that need not have the same number

Factors = Mapping[str, Array]
Squares = Callable[[str], Tensor]
Norms = Mapping[tuple[str, str], Array]  # by space and side: the squared norm of each unit

_log = logging.getLogger(__name__)


def balanced(state: State, layout: Layout, *, rounds: int = ROUNDS, apart: Collection[str] = ()) -> State:
    """The state in a canonical scale: what produces a unit and what consumes it have the same norm.

    Only spaces with scales change, and the function of the network does not. Units that nothing produces or consumes
    keep their scale. Tensors that are kept `apart` do not count in the norms; they are scaled with their units.
    """
    factors = balancing_factors(state, layout, rounds=rounds, apart=apart)
    return permute(state, layout, {name: Permutation.scaling(each) for name, each in factors.items()})


def balancing_factors(
    state: State, layout: Layout, *, rounds: int = ROUNDS, apart: Collection[str] = ()
) -> dict[str, Array]:
    """The factors of all units that make their two norms equal, without tensors that are kept `apart`.

    Rounds over all spaces with scales are enough for shallow networks. In a deep one what is out of balance at one end
    reaches the other slowly; if a few rounds do not settle it, whole spaces are balanced among each other in between.
    """
    widths = layout.widths(state)
    factors: dict[str, Array] = {each.name: np.ones(widths[each.name]) for each in layout.spaces if each.scales}
    blocks: dict[str, list[Block]] = {}
    for block in layout.blocks(widths):
        if block.space in factors and block.odd.any() and block.tensor not in apart:
            blocks.setdefault(block.tensor, []).append(block)
    squares = _squares(state, blocks)
    for _ in range(rounds if factors else 0):
        change = _change(_norms(squares, blocks, factors))
        factors = _times(factors, change)
        if all(np.allclose(each, 1.0, atol=SETTLED) for each in change.values()):
            return factors
    return _balanced_by_spaces(lambda name: squares(name).double(), blocks, factors) if factors and rounds else factors


def scaled_alike(states: Sequence[State], layout: Layout, *, apart: Collection[str] = ()) -> bool:
    """Whether models have units of like scales: as many small and large ones, up to a few, in every space.

    So have networks that were trained in the same way: 0.01 to 0.08 was seen on eight pairs, where `ALIKE` is allowed;
    with other optimisers or random starts 0.07 to 0.7. Units that died have any scale, hence the median.

    Args:
        states: The models.
        layout: Which axes move together.
        apart: Names of tensors that do not count.

    Example:
        >>> from transfuse import parse
        >>> layout = parse("{spaces: {up: 2 scales}, tensors: {up.weight: [up, 1], down.weight: [1, < up]}}")
        >>> one, other = ({"up.weight": f * torch.ones(2, 1), "down.weight": torch.ones(1, 2) / f} for f in (1, 3))
        >>> scaled_alike([one, one], layout), scaled_alike([one, other], layout)
        (True, False)
    """
    factors = [balancing_factors(state, layout, apart=apart) for state in states]

    def apart_by(space: str) -> float:
        """How far the models are apart, from unit to unit in the order of their scales, in the median."""
        return float(np.median(np.ptp([np.quantile(np.log(own[space]), QUANTILES) for own in factors], axis=0)))

    return all(apart_by(space) <= ALIKE for space in factors[0])


def _balanced_by_spaces(squares: Squares, blocks: Mapping[str, Sequence[Block]], factors: Factors) -> dict[str, Array]:
    """Factors after rounds in which every space as a whole is balanced against all others, then its units alone.

    Within a space units settle in a few rounds, since all of them are read by the same next layer. Where they are not
    (weights near the identity), extrapolation from the last rounds shortens the way.
    """
    names, found = list(factors), dict(factors)
    points: list[Array] = []
    steps: list[Array] = []
    for _ in range(MORE_ROUNDS):
        norms = _norms(squares, blocks, found)
        shifts = balancing_shifts(_terms(squares, blocks, found, norms), names)
        whole = {name: np.where(_usable(norms, name), np.exp(shifts[name]), 1.0) for name in names}
        change = _change(_norms(squares, blocks, _times(found, whole)))
        if all(np.allclose(each, 1.0, rtol=0.0, atol=SETTLED) for each in change.values()):
            return _times(_times(found, whole), change)
        points.append(np.log(np.concatenate([found[name] for name in names])))
        steps.append(np.log(np.concatenate([whole[name] * change[name] for name in names])))
        points, steps = points[-REMEMBERED:], steps[-REMEMBERED:]
        following = np.split(np.exp(_extrapolated(points, steps)), np.cumsum([len(found[name]) for name in names])[:-1])
        found = dict(zip(names, following, strict=True))
    worst = max(float(np.abs(each - 1).max()) for each in change.values())
    _log.warning("scales are not balanced after %d rounds; the last one changed a factor by %.1e", MORE_ROUNDS, worst)
    return found


def _extrapolated(points: Sequence[Array], steps: Sequence[Array]) -> Array:
    """Where steps from several points lead, by the combination of them that is shortest (Anderson 1965).

    A step that is far longer than the one before it was extrapolated too far: then the last one alone counts.
    """
    result: Array = points[-1] + steps[-1]
    if len(steps) < 2 or np.linalg.norm(steps[-1]) > 2 * np.linalg.norm(steps[-2]):
        return result
    moved, changed = np.diff(points, axis=0), np.diff(steps, axis=0)
    shares = np.linalg.lstsq(changed.T, steps[-1], rcond=1e-10)[0]
    return result - shares @ (moved + changed)


def _times(factors: Factors, change: Factors) -> dict[str, Array]:
    return {name: factors[name] * change[name] for name in factors}


def _squares(state: State, blocks: Mapping[str, Sequence[Block]]) -> Squares:
    """A function of a tensor's name: its squares, summed over all axes on which nothing is scaled."""
    axes = {name: {block.axis for block in own} for name, own in blocks.items()}
    if isinstance(state, LazyState):
        return lambda name: _summed(state[name], axes[name])
    return {name: _summed(state[name], own) for name, own in axes.items()}.__getitem__


def _norms(squares: Squares, blocks: Mapping[str, Sequence[Block]], factors: Factors) -> Norms:
    """The squared norms of what produces and of what consumes each unit, scaled by the factors."""
    norms = {(name, side): np.zeros(len(each)) for name, each in factors.items() for side in SIDES}
    for tensor, own in blocks.items():
        for block, sums in zip(own, _scaled_sums(squares(tensor), own, factors), strict=True):
            norms[block.space, block.side] += sums[block.positions[:, block.odd]].sum(1)
    return norms  # type: ignore[return-value]


def _change(norms: Norms) -> dict[str, Array]:
    """By how much more each unit must be multiplied so that its two norms become equal."""
    names = dict.fromkeys(name for name, _ in norms)
    return {name: _balance(norms[name, "produces"], norms[name, "consumes"]) for name in names}


def _balance(produced: Array, consumed: Array) -> Array:
    usable = (produced > 0) & (consumed > 0)
    ratio: Array = np.divide(consumed, produced, out=np.ones(len(produced)), where=usable)
    return ratio**0.25


def _usable(norms: Norms, name: str) -> NDArray[np.bool_]:
    """Which units of a space have both norms, so that they can be balanced."""
    return (norms[name, "produces"] > 0) & (norms[name, "consumes"] > 0)


def _summed(tensor: Tensor, axes: Collection[int]) -> Tensor:
    """The squares of a tensor, summed over all axes but some (which stay, of length 1)."""
    others = [axis for axis in range(tensor.dim()) if axis not in axes]
    norms: Tensor = torch.linalg.vector_norm(tensor.detach(), dim=others, keepdim=True) if others else tensor.detach()
    return norms.square()


def _factors_along(squares: Tensor, blocks: Sequence[Block], factors: Factors) -> dict[int, Tensor]:
    """For each axis with units that are scaled, the square of the factor at each position."""
    along: dict[int, Tensor] = {}
    for block in blocks:
        unit = factors[block.space] if block.side == "produces" else 1.0 / factors[block.space]
        factor = along.setdefault(block.axis, squares.new_ones(squares.shape[block.axis], dtype=torch.float64))
        spread(torch.from_numpy(unit).to(squares.device) ** 2, block, factor)
    return along


def _scaled_sums(squares: Tensor, blocks: Sequence[Block], factors: Factors) -> list[Array]:
    """For each block, the sum of squares of the scaled tensor at each position of the block's axis."""
    along = _factors_along(squares, blocks, factors)
    found = {}
    for axis, own in along.items():
        sums = squares
        for other, factor in along.items():
            if other != axis:
                sums = torch.tensordot(sums, factor.to(sums.dtype), dims=([other], [0])).unsqueeze(other)
        found[axis] = (sums.flatten().double() * own).cpu().numpy()
    return [found[block.axis] for block in blocks]


def _terms(squares: Squares, blocks: Mapping[str, Sequence[Block]], factors: Factors, norms: Norms) -> list[Term]:
    """The sum of squares of all weights by the spaces that scale them: what spaces as a whole are balanced by.

    Units that cannot be balanced count as what is not scaled.
    """
    found: list[Term] = []
    for tensor, own in blocks.items():
        masses = squares(tensor)
        along = _factors_along(masses, own, factors)
        exponents: list[dict[str, int]] = [{}]
        for axis, factor in along.items():
            groups, scaled = _groups(len(factor), [block for block in own if block.axis == axis], norms)
            membership = torch.from_numpy(groups).to(factor) * factor
            masses = torch.tensordot(membership, masses.movedim(axis, 0), dims=1).movedim(0, axis)
            exponents = [_sum(one, other) for one in exponents for other in scaled]
        values = masses.permute(*along, *(axis for axis in range(masses.dim()) if axis not in along)).flatten()
        found += [(float(mass), which) for mass, which in zip(values, exponents, strict=True) if mass > 0]
    return found


def _groups(length: int, blocks: Sequence[Block], norms: Norms) -> tuple[Array, list[dict[str, int]]]:
    """Indicators [groups, positions] of an axis, a group for each block and one for the rest, and how each scales."""
    groups = np.zeros((len(blocks) + 1, length))
    for row, block in zip(groups, blocks, strict=False):
        row[block.positions[:, block.odd][_usable(norms, block.space)]] = 1.0
    groups[-1] = 1.0 - groups[:-1].sum(0)
    return groups, [{block.space: 1 if block.side == "produces" else -1} for block in blocks] + [{}]


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Exponents of a product of two scaled axes."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}
