"""States whose tensors are made when they are asked for: read from a file, converted, carried, averaged.

In: what is known of each tensor, and a function that makes one. Out: a plain mapping, so that everything that takes a
state takes a lazy one. Not here: files and formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .errors import InputError
from .types import State


@dataclass(frozen=True)
class Entry:
    """What is known about a tensor without making or reading it."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size of the tensor in bytes, in memory as on disk."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize


class LazyState(Mapping[str, Tensor]):
    """A state whose tensors are made when they are asked for, each time anew.

    Args:
        entries: What there is, in the order of the state.
        read: Makes the tensor of an entry.
    """

    def __init__(self, entries: Sequence[Entry], read: Callable[[Entry], Tensor]) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self._read = read

    def __getitem__(self, name: str) -> Tensor:
        return self._read(self.entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def entries_of(state: State) -> dict[str, Entry]:
    """The entry of every tensor of a state; tensors of a lazy state are not made for it."""
    if isinstance(state, LazyState):
        return state.entries
    return {name: Entry(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in state.items()}


def with_names(state: State, sources: Mapping[str, str]) -> LazyState:
    """The tensors of a state under other names: `sources` maps each new name to the one in `state`."""
    known = entries_of(state)
    entries = [Entry(new, known[old].dtype, known[old].shape) for new, old in sources.items()]
    return LazyState(entries, lambda entry: state[sources[entry.name]])


def as_lazy(state: State) -> LazyState:
    """A state as a lazy one, whose tensors are taken from it when they are asked for."""
    return state if isinstance(state, LazyState) else transformed(state, lambda name, tensor: tensor)


def transformed(state: State, change: Callable[[str, Tensor], Tensor]) -> LazyState:
    """A state whose tensors are changed when they are asked for; `change(name, tensor)` keeps type and shape."""
    return LazyState(list(entries_of(state).values()), lambda entry: change(entry.name, state[entry.name]))


def working_type(states: Sequence[State]) -> torch.dtype:
    """The type in which sums of products of tensors of some states are safe: float64 if any has it, else float32."""
    kinds = {entry.dtype for state in states for entry in entries_of(state).values()}
    return torch.float64 if {torch.float64, torch.complex128} & kinds else torch.float32


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


def _as_infinite(given: Tensor, new: Tensor) -> bool:
    """Whether a tensor is infinite where one that was given is, in the same way, and nowhere else."""
    if given.shape != new.shape or not torch.equal(new.isfinite(), given.isfinite()):
        return False
    return bool((new.isfinite() | (new == given.to(new))).all())


def in_type(name: str, tensor: Tensor, kind: torch.dtype, given: State | None = None) -> Tensor:
    """A tensor of a result in the type in which it is given back.

    Args:
        name: Of the tensor.
        tensor: In the type in which it was computed.
        kind: The type that is wanted.
        given: What the result was made of: a tensor may hold infinity where this one does, as causal masks do.

    Raises:
        InputError: it would hold NaN or infinity there, naming the tensor and the type.

    Example:
        >>> in_type("0.weight", torch.tensor([7e4]), torch.bfloat16)
        tensor([70144.], dtype=torch.bfloat16)
    """
    new = tensor.to(kind)
    if _finite(new) or (given is not None and name in given and _as_infinite(given[name], new)):
        return new
    if not _finite(tensor):
        raise InputError(
            f"tensor {name} of the result holds NaN or infinity: sums of its numbers are too large for {tensor.dtype}; "
            "use models in float64"
        )
    raise InputError(
        f"tensor {name} of the result reaches {float(tensor.abs().max()):.3g}, but {kind} ends at "
        f"{torch.finfo(kind).max:.3g}; ask for float32 or bfloat16, or bring the models to float32 first (`.float()`)"
    )


def _finite(tensor: Tensor) -> bool:
    """Whether all numbers of a tensor are finite; in one pass and without a copy, where least and largest tell it."""
    if not tensor.numel() or not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    numbers = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    if numbers.itemsize == 1:  # of 8 bits: these cannot be compared
        return bool(numbers.float().isfinite().all())
    return all(bool(each.isfinite()) for each in torch.aminmax(numbers))
