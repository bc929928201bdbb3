"""Tensors that a forward pass might write to: their numbers are put back afterwards.

`copied` copies them all beforehand. `watched` copies a tensor just before its memory, in whatever alias, meets a
function that might write to it; nearly all parameters only meet layers (`F.linear`, `F.conv2d`, ...), which read them,
and are not copied at all. That is cheaper for a few forward passes, and dearer where much is computed meanwhile.

In: tensors. Out: the same, with the memory and the numbers that they had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from ..errors import InputError

# Functions that only read what they are given, but for `out`. What shares memory with it (`detach`) is watched as well.
_READING = {
    F.linear, F.conv1d, F.conv2d, F.conv3d, F.layer_norm, F.group_norm, torch.conv1d, torch.conv2d, torch.conv3d,
    torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu, torch.layer_norm, torch.group_norm, torch.matmul, torch.add,
    torch.mul, Tensor.add, Tensor.mul, Tensor.matmul, Tensor.clone, Tensor.detach, Tensor.dim, Tensor.size,
}  # fmt: skip
_READING |= {getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "requires_grad", "is_cuda")}


@dataclass(eq=False)
class _Before:
    """A tensor, its memory, and the numbers in it, once they are kept."""

    tensor: Tensor
    memory: Tensor
    version: int | None  # none where writes are not counted, in inference mode
    numbers: Tensor | None = None

    @staticmethod
    def of(tensor: Tensor) -> _Before:
        """A tensor as it is, nothing of it copied."""
        return _Before(tensor, tensor.detach(), None if tensor.is_inference() else tensor._version)

    def keep(self) -> None:
        """Copy the numbers, if that has not been done."""
        if self.numbers is None:
            self.numbers = self.memory.clone()

    def put_back(self) -> None:
        """Give the tensor its memory again, and the memory its numbers.

        Raises:
            InputError: something has written to it that could not be watched, so they are lost.
        """
        unseen = self.numbers is None and self.memory._version != self.version
        if self.tensor.data_ptr() != self.memory.data_ptr():
            self.tensor.data = self.memory
        if self.numbers is not None and not torch.equal(self.memory, self.numbers):
            self.memory.data.copy_(self.numbers)
        if unseen:
            raise InputError(
                f"the forward pass has changed a parameter of shape {list(self.memory.shape)}, by code that cannot be "
                "watched (another thread, scripted or compiled code); load the network anew, and pass check=False"
            )


class _Watch(TorchFunctionMode):
    """Sees which functions are called, and keeps what they might write to."""

    def __init__(self, tensors: Sequence[_Before]) -> None:
        super().__init__()
        self.by_memory: dict[int, list[_Before]] = {}
        for before in tensors:
            place = None if before.version is None else _place(before.memory)
            if place is None:  # writes to it are not counted, or its memory cannot be told
                before.keep()
            else:
                self.by_memory.setdefault(place, []).append(before)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the function, after what it might write to was kept."""
        given = kwargs or {}
        if not _reads(func, args, given):
            self._keep([*args, *given.values()])
        return func(*args, **given)

    def _keep(self, values: Iterable[Any]) -> None:
        for value in values:
            if isinstance(value, Tensor):
                for before in self.by_memory.pop(_place(value), ()):  # type: ignore[arg-type]
                    before.keep()
            elif isinstance(value, list | tuple):
                self._keep(value)


def _reads(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a function writes to nothing that it is given; batch norm does not if it is not in training."""
    if func is F.batch_norm:
        return kwargs.get("training") is False
    if func is torch.batch_norm:
        return len(args) > 5 and args[5] is False
    return func in _READING and kwargs.get("out") is None


def _place(tensor: Tensor) -> int | None:
    """The memory of a tensor, whatever part of it the tensor is; nothing if it has none of its own."""
    try:
        with torch._C.DisableTorchFunction():
            return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


@contextmanager
def copied(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Tensors are put back afterwards, from copies that are made beforehand."""
    before = [_Before.of(tensor) for tensor in tensors]
    for each in before:
        each.keep()
    with _put_back(before):
        yield


@contextmanager
def watched(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Tensors are put back afterwards, from copies that are made when something might write to them."""
    before = [_Before.of(tensor) for tensor in tensors]
    with _put_back(before), _Watch(before):
        yield


@contextmanager
def _put_back(tensors: Sequence[_Before]) -> Iterator[None]:
    try:
        yield
    finally:
        for each in tensors:
            each.put_back()
