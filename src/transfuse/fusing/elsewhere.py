"""States as others send them: arrays of NumPy, lists in the order of a layout, some tensors left out.

In: states of any of these kinds, and a layout. Out: states of tensors, and the layout of what all of them have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arguments import STATE, Kind, either, many
from ..errors import InputError, listing
from ..layout import Layout
from ..lazy import LazyState
from ..types import State

COUNT = "num_batches_tracked"  # of a batch norm: how often it was trained, which no network computes with
ARRAYS = many(Kind(lambda value: hasattr(value, "shape"), ""), "a list of arrays in the order of the layout")
SENT = many(
    either(STATE, ARRAYS), "a list of states: dicts of tensors or arrays by name, or lists in the order of the layout"
)
ENDINGS = many(Kind(lambda value: isinstance(value, str) and bool(value), ""), "a list of endings of names of tensors")

Sent = Mapping[str, Any] | Sequence[Any]


def received(states: Sequence[Sent], layout: Layout, may_lack: Collection[str] = ()) -> tuple[list[State], Layout]:
    """States of tensors by name, and the layout without what some of them lack and may lack.

    A count of batches that a state lacks is that of the first state which has one, or zero.

    Args:
        states: Mappings of tensors or arrays by name, lists of them in the order of the layout's tensors, lazy states.
        layout: Of the whole network.
        may_lack: Endings of the names of tensors that a state may lack; if one does, none keeps it.

    Raises:
        InputError: lists are of another length, or arrays hold something else than numbers; all of them are named.

    Example:
        >>> from transfuse import parse
        >>> layout = parse("{spaces: {up.out: 2}, tensors: {up.weight: [up.out, 1], down.weight: [1, < up.out]}}")
        >>> states, _ = received([[np.ones((2, 1)), np.ones((1, 2))]], layout)
        >>> list(states[0])
        ['up.weight', 'down.weight']
    """
    named, problems = [], []
    for number, state in enumerate(states, start=1):
        try:
            named.append(_tensors(_by_name(state, layout, may_lack)))
        except InputError as error:
            problems.append(f"state {number}: {error}")
    if problems:
        raise InputError(listing("states that are not what a network holds:", problems))
    absent = {name for name in layout.tensors if _ends(name, may_lack) and any(name not in state for state in named)}
    counts = {name: _count(name, named) for name in layout.tensors if name.endswith(COUNT) and name not in absent}
    return [_completed(state, layout, counts, absent) for state in named], layout.without(absent)


def _by_name(state: Sent, layout: Layout, may_lack: Collection[str]) -> Mapping[str, Any]:
    """A state by names, which a list has from the layout: all tensors, or all but those that may be lacked."""
    if isinstance(state, Mapping):
        return state
    orders = list(_orders(layout, may_lack))
    fitting = next((order for order in orders if len(order) == len(state)), None)
    if fitting is None:
        lengths = " or ".join(str(length) for length in sorted({len(order) for order in orders}, reverse=True))
        raise InputError(
            f"it is a list of {len(state)} arrays, but the layout has {lengths} tensors; send them in the order of "
            "layout.tensors, or by name"
        )
    return dict(zip(fitting, state, strict=True))


def _orders(layout: Layout, may_lack: Collection[str]) -> Iterator[list[str]]:
    """The names that a list may stand for: with and without counts of batches, and what may be lacked."""
    lacks: list[Callable[[str], bool]] = [
        lambda name: False,
        lambda name: name.endswith(COUNT),
        lambda name: _ends(name, may_lack),
        lambda name: name.endswith(COUNT) or _ends(name, may_lack),
    ]
    for lacked in lacks:
        yield [name for name in layout.tensors if not lacked(name)]


def _ends(name: str, endings: Collection[str]) -> bool:
    return any(name.endswith(ending) for ending in endings)


def _tensors(state: Mapping[str, Any]) -> State:
    """A state whose arrays are tensors; a lazy one is not read for it."""
    if isinstance(state, LazyState):
        return state
    problems, found = [], {}
    for name, value in state.items():
        try:
            found[name] = value if isinstance(value, Tensor) else tensor_of(value)
        except TypeError as error:
            problems.append(f"tensor {name}: {error}")
    if problems:
        raise InputError("; ".join(problems))
    return found


def tensor_of(values: Any) -> Tensor:
    """An array as a tensor; copied only where torch cannot share its memory.

    Raises:
        TypeError: it holds something else than numbers that torch knows.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiubc":
        raise TypeError(f"it holds {array.dtype}; expected numbers")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    shared = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return torch.from_numpy(array if shared else array.copy())


def _count(name: str, states: Sequence[State]) -> Tensor:
    return next((state[name] for state in states if name in state), torch.tensor(0))


def _completed(state: State, layout: Layout, counts: State, absent: Collection[str]) -> State:
    """A state without what is absent and with all counts, in the order of the layout; strange tensors stay."""
    missing = [name for name in counts if name not in state]
    dropped = [name for name in absent if name in state]
    if not missing and not dropped:
        return state
    known = {name: tensor for name, tensor in state.items() if name not in absent}
    known |= {name: counts[name].clone() for name in missing}
    first = [name for name in layout.tensors if name in known]
    return {name: known[name] for name in [*first, *(name for name in known if name not in layout.tensors)]}
