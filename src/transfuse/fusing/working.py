"""States on their way into the pipeline: in a type in which arithmetic is safe, in a canonical scale, in an own order.

In: states as the user gave them, plain or lazy. Out: states of the same kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import torch
from torch import Tensor

from ..layout import Layout, all_balanced, folded, in_balance_of, unfolded
from ..lazy import Entry, LazyState, entries_of
from ..types import State


def working_type(kinds: Iterable[torch.dtype]) -> torch.dtype:
    """The type in which sums of products of tensors of these types are safe: float64 if any is, else float32."""
    return torch.float64 if {torch.float64, torch.complex128} & set(kinds) else torch.float32


def type_of(states: Sequence[State]) -> torch.dtype:
    """The type in which sums of products of all tensors of some states are safe."""
    return working_type(entry.dtype for state in states for entry in entries_of(state).values())


def working_state(state: State, kind: torch.dtype) -> State:
    """A state with all floating-point tensors in one type; what has that type already is not copied.

    Tensors of a lazy state are converted at each reading.
    """

    def converted(tensor: Tensor) -> Tensor:
        return tensor.detach().to(kind) if tensor.is_floating_point() else tensor.detach()

    if isinstance(state, LazyState):
        entries = [
            Entry(name, kind if entry.dtype.is_floating_point else entry.dtype, entry.shape)
            for name, entry in entries_of(state).items()
        ]
        return LazyState(entries, lambda entry: converted(state[entry.name]))
    return {name: converted(tensor) for name, tensor in state.items()}


def working_states(
    states: Sequence[State], layout: Layout, *, balance: bool, low_memory: bool = False, apart: Collection[str] = ()
) -> list[State]:
    """States to work on: of one safe type, with norms over units that rotate folded, in a canonical scale if `balance`.

    Tensors that are kept `apart` do not count in the scale. A lazy state is read once and kept, unless `low_memory`:
    then every tensor is read again whenever it is needed.
    """
    kind = type_of(states)
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
