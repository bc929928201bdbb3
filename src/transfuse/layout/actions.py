"""Moving the units of a state: permutations, signs and positive scales, space by space.

In: a state, a layout, an action for some of its spaces. Out: a new state; the given one is not modified, and
tensors that nothing moves are passed on as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import LayoutError
from .recipe import Layout
from .records import Block, Side, Space

SIDES: tuple[Side, ...] = ("produces", "consumes")


@dataclass(frozen=True, eq=False)
class Action:
    """What happens to the units of one space.

    Args:
        order: Integers [units], a permutation: the new unit `u` is the old unit `order[u]`; None: units stay in place.
        factor: Numbers [units]: what the new unit `u` is multiplied by (where it is consumed, divided by); negative
            ones need a space with signs, others than 1 and -1 a space with scales.
    """

    order: NDArray[np.int64] | None = None
    factor: NDArray[np.float64] | None = None


def permute(state: Mapping[str, Tensor], layout: Layout, actions: Mapping[str, Action]) -> dict[str, Tensor]:
    """Move the units of a state by actions on its spaces; the function of the network stays the same.

    Example:
        >>> from transfuse import parse
        >>> layout = parse('''
        ... spaces: {up.out: 2}
        ... tensors: {up.weight: [up.out, 1], down.weight: [1, < up.out]}
        ... ''')
        >>> state = {"up.weight": torch.tensor([[1.0], [2.0]]), "down.weight": torch.tensor([[3.0, 4.0]])}
        >>> permute(state, layout, {"up.out": Action(np.array([1, 0]))})["down.weight"]
        tensor([[4., 3.]])
    """
    widths = layout.widths(state)
    for name, action in actions.items():
        _check_action(layout[name], action, widths[name])
    moved = dict(state)
    for block in layout.blocks(widths):
        if block.space in actions:
            own = moved[block.tensor]
            moved[block.tensor] = _move(own, block, actions[block.space], new=own is not state[block.tensor])
    return moved


def random_actions(
    layout: Layout, widths: Mapping[str, int], rng: np.random.Generator, *, symmetries: bool = True
) -> dict[str, Action]:
    """A random action for each space: a permutation and, where the space allows, signs and scales.

    None is trivial: where units can be permuted or negated, at least one is.
    """
    actions = {}
    for space in layout.spaces:
        width = widths[space.name]
        factor = np.ones(width)
        if symmetries and space.signs:
            factor *= rng.choice([-1.0, 1.0], size=width)
            factor[rng.integers(width)] *= -1.0 if (factor > 0).all() else 1.0
        if symmetries and space.scales:
            factor *= np.exp(rng.uniform(-0.7, 0.7, size=width))
        actions[space.name] = Action(_shuffled(width, rng), factor)
    return actions


def balanced(state: Mapping[str, Tensor], layout: Layout, *, rounds: int = 20) -> dict[str, Tensor]:
    """The state in a canonical scale: what produces a unit and what consumes it have the same norm.

    Only spaces with scales change, and the function of the network does not. Units that nothing produces or consumes
    keep their scale. Copies of a network that differ in scales alone become equal.
    """
    factors = _balancing_factors(state, layout, rounds)
    return permute(state, layout, {name: Action(factor=each) for name, each in factors.items()})


def in_scale_of(
    reference: Mapping[str, Tensor], state: Mapping[str, Tensor], layout: Layout, *, rounds: int = 20
) -> dict[str, Tensor]:
    """A state of canonical scale in the scale that another one of the same widths has: what `balanced` did, undone."""
    factors = _balancing_factors(reference, layout, rounds)
    return permute(state, layout, {name: Action(factor=1 / each) for name, each in factors.items()})


def _balancing_factors(state: Mapping[str, Tensor], layout: Layout, rounds: int) -> dict[str, NDArray[np.float64]]:
    """The factors of all units that make their two norms equal, by rounds over all spaces with scales.

    Squares of weights are summed over all axes without such units first: a round works on what is left.
    """
    widths = layout.widths(state)
    factors = {space.name: np.ones(widths[space.name]) for space in layout.spaces if space.scales}
    blocks: dict[str, list[Block]] = {}
    for block in layout.blocks(widths):
        if block.space in factors and block.odd.any():
            blocks.setdefault(block.tensor, []).append(block)
    squares = {name: _squares(state[name], {block.axis for block in own}) for name, own in blocks.items()}
    for _ in range(rounds if factors else 0):
        norms = {(name, side): np.zeros(len(each)) for name, each in factors.items() for side in SIDES}
        for tensor, own in blocks.items():
            for block, sums in zip(own, _scaled_sums(squares[tensor], own, factors), strict=True):
                norms[block.space, block.side] += sums[block.positions[:, block.odd]].sum(1)
        change = {name: _balance(norms[name, "produces"], norms[name, "consumes"]) for name in factors}
        factors = {name: factors[name] * change[name] for name in factors}
        if all(np.allclose(each, 1.0, atol=1e-7) for each in change.values()):
            break
    return factors


def _balance(produced: NDArray[np.float64], consumed: NDArray[np.float64]) -> NDArray[np.float64]:
    usable = (produced > 0) & (consumed > 0)
    ratio: NDArray[np.float64] = np.divide(consumed, produced, out=np.ones(len(produced)), where=usable)
    return ratio**0.25


def _squares(tensor: Tensor, axes: Collection[int]) -> Tensor:
    """The squares of a tensor, summed over all axes but some (which stay, of length 1)."""
    others = [axis for axis in range(tensor.dim()) if axis not in axes]
    norms: Tensor = torch.linalg.vector_norm(tensor.detach(), dim=others, keepdim=True) if others else tensor.detach()
    return norms.square()


def _scaled_sums(
    squares: Tensor, blocks: Sequence[Block], factors: Mapping[str, NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """For each block, the sum of squares of the scaled tensor at each position of the block's axis."""
    along: dict[int, Tensor] = {}
    for block in blocks:
        unit = factors[block.space] if block.side == "produces" else 1.0 / factors[block.space]
        factor = along.setdefault(block.axis, squares.new_ones(squares.shape[block.axis], dtype=torch.float64))
        places = torch.from_numpy(block.positions[:, block.odd]).to(squares.device)
        factor[places] = torch.from_numpy(unit).to(squares.device)[:, None] ** 2
    found = {}
    for axis, own in along.items():
        sums = squares
        for other, factor in along.items():
            if other != axis:
                sums = torch.tensordot(sums, factor.to(sums.dtype), dims=([other], [0])).unsqueeze(other)
        found[axis] = (sums.flatten().double() * own).cpu().numpy()
    return [found[block.axis] for block in blocks]


def _shuffled(width: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A random permutation that moves something, where there is something to move."""
    order = rng.permutation(width)
    while width > 1 and np.array_equal(order, np.arange(width)):
        order = rng.permutation(width)
    return order


def _check_action(space: Space, action: Action, width: int) -> None:
    order = np.arange(width) if action.order is None else np.asarray(action.order)
    if not np.issubdtype(order.dtype, np.integer) or not np.array_equal(np.sort(order), np.arange(width)):
        raise LayoutError(
            f"action on space {space.name}: order is not a permutation of its {width} units: {action.order!r}"
        )
    if action.factor is None:
        return
    factor = np.asarray(action.factor)
    if factor.shape != (width,) or not np.isfinite(factor).all() or (factor == 0).any():
        raise LayoutError(f"action on space {space.name}: factor must be {width} finite numbers other than zero")
    if not space.signs and (factor < 0).any():
        raise LayoutError(f"action on space {space.name}: its units may not be negated; give positive factors")
    if not space.scales and (np.abs(factor) != 1).any():
        raise LayoutError(f"action on space {space.name}: its units may not be scaled; give factors 1 (or -1)")


def _move(tensor: Tensor, block: Block, action: Action, *, new: bool) -> Tensor:
    """Gather the block's positions in the new order, then multiply its odd slots; in place in a `new` tensor."""
    if action.order is not None:
        index = np.arange(tensor.shape[block.axis])
        index[block.positions] = block.positions[np.asarray(action.order)]
        tensor, new = tensor.index_select(block.axis, torch.as_tensor(index, device=tensor.device)), True
    if action.factor is None or not block.odd.any():
        return tensor
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise LayoutError(
            f"tensor {block.tensor} holds {tensor.dtype}, which cannot be negated or scaled with space {block.space}; "
            f"make its slots even (|{block.space}|) or pass no factors"
        )
    unit_factor = np.asarray(action.factor) if block.side == "produces" else 1.0 / np.asarray(action.factor)
    factor = np.ones(tensor.shape[block.axis])
    factor[block.positions] = np.where(block.odd, unit_factor[:, None], 1.0)
    shape = [1] * tensor.dim()
    shape[block.axis] = -1
    along = torch.as_tensor(factor, device=tensor.device).view(shape).to(tensor.dtype)
    return tensor.mul_(along) if new else tensor * along
