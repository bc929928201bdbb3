"""States on their way in: in a type in which arithmetic is safe, in a canonical scale, in an own order; and back.

In: states as the user gave them, plain or lazy. Out: states of the same kind.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from ..layout import Layout, all_balanced, folded, in_balance_of, unfolded
from ..lazy import working_state, working_type
from ..types import State


def working_states(
    states: Sequence[State], layout: Layout, *, balance: bool, low_memory: bool = False, apart: Collection[str] = ()
) -> list[State]:
    """States to work on: of one safe type, with norms over units that rotate folded, in a canonical scale if `balance`.

    Tensors that are kept `apart` do not count in the scale. A lazy state is read once and kept, unless `low_memory`:
    then every tensor is read again whenever it is needed.
    """
    kind = working_type(states)
    own = [folded(working_state(state, kind), layout) for state in states]
    if balance or layout.frames:
        own = [all_balanced(state, layout, scales=balance, apart=apart) for state in own]
    return own if low_memory else [dict(state) for state in own]


def in_form_of(
    reference: State, state: State, layout: Layout, rotated: Collection[str], *, balance: bool = True
) -> State:
    """An aligned state in the scale of the reference that it was aligned to, with its directions and its norms.

    What `working_states` did is undone, as it was done to the reference.

    Args:
        reference: The state that it was aligned to, as it was given.
        state: What alignment gave.
        layout: Which axes move together.
        rotated: The spaces whose units were rotated, with norms folded.
        balance: Whether both were brought to a canonical scale.
    """
    moved = in_balance_of(folded(reference, layout, spaces=rotated), state, layout, scales=balance)
    return unfolded(reference, moved, layout, spaces=rotated)


def own_order(states: Sequence[State], weights: Sequence[float]) -> list[int]:
    """An order of models that depends on what they hold and not on the order in which they are given."""
    keys = [
        [weights[model]]
        + [float(tensor.sum(dtype=torch.float64)) for tensor in state.values() if tensor.is_floating_point()]
        for model, state in enumerate(states)
    ]
    return sorted(range(len(states)), key=keys.__getitem__)
