"""Moving the units of a state: permutations, signs and positive scales, space by space.

In: a state, a layout, an action for some of its spaces. Out: a new state; the given one is not modified, and
tensors that nothing moves are passed on as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import LayoutError
from .recipe import Layout
from .records import Block, Space


@dataclass(frozen=True, eq=False)
class Action:
    """What happens to the units of one space.

    Args:
        order: Integers [units], a permutation: the new unit `u` is the old unit `order[u]`.
        factor: Numbers [units]: what the new unit `u` is multiplied by (where it is consumed, divided by); negative
            ones need a space with signs, others than 1 and -1 a space with scales.
    """

    order: NDArray[np.int64]
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
            moved[block.tensor] = _move(moved[block.tensor], block, actions[block.space])
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
    widths = layout.widths(state)
    result = dict(state)
    for _ in range(rounds):
        actions = {
            space.name: Action(np.arange(widths[space.name]), _balancing_factors(result, layout, space, widths))
            for space in layout.spaces
            if space.scales
        }
        result = permute(result, layout, actions)
        if all(np.allclose(action.factor, 1.0, atol=1e-7) for action in actions.values() if action.factor is not None):
            break
    return result


def _balancing_factors(
    state: Mapping[str, Tensor], layout: Layout, space: Space, widths: Mapping[str, int]
) -> NDArray[np.float64]:
    """The factor of each unit that makes its two norms equal."""
    norms = {"produces": np.zeros(widths[space.name]), "consumes": np.zeros(widths[space.name])}
    for block in layout.blocks(widths):
        if block.space == space.name and block.odd.any():
            units = (
                state[block.tensor]
                .detach()
                .double()
                .movedim(block.axis, 0)
                .cpu()
                .numpy()[block.positions[:, block.odd]]
            )
            norms[block.side] += (units.reshape(len(units), -1) ** 2).sum(1)
    usable = (norms["produces"] > 0) & (norms["consumes"] > 0)
    ratio = np.divide(norms["consumes"], norms["produces"], out=np.ones(widths[space.name]), where=usable)
    return ratio**0.25


def _shuffled(width: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A random permutation that moves something, where there is something to move."""
    order = rng.permutation(width)
    while width > 1 and np.array_equal(order, np.arange(width)):
        order = rng.permutation(width)
    return order


def _check_action(space: Space, action: Action, width: int) -> None:
    order = np.asarray(action.order)
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


def _move(tensor: Tensor, block: Block, action: Action) -> Tensor:
    """Gather the block's positions in the new order, then multiply its odd slots."""
    index = np.arange(tensor.shape[block.axis])
    index[block.positions] = block.positions[np.asarray(action.order)]
    moved = tensor.index_select(block.axis, torch.as_tensor(index, device=tensor.device))
    if action.factor is None or not block.odd.any():
        return moved
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
    return moved * torch.as_tensor(factor, device=tensor.device).view(shape).to(tensor.dtype)
