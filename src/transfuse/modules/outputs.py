"""Tensors in what a network returns: in containers, and in attributes of objects such as distributions.

In: any output. Out: its tensors, in an order that is the same for every run. What cannot be looked into is refused:
a tensor that is overlooked would count as one without effect.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import numbers
import re
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import InputError

_NO_TENSORS = (
    nn.Module, numbers.Number, str, bytes, bytearray, range, slice, enum.Enum, np.generic, np.dtype, type,
    types.NoneType, types.EllipsisType, types.ModuleType, types.FunctionType, types.MethodType,
    types.BuiltinFunctionType, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Generator,
    weakref.ref, datetime.date, datetime.time, datetime.timedelta, re.Pattern,
)  # fmt: skip


def tensors_in(output: Any) -> list[Tensor]:
    """All tensors in an output: nested tuples, lists, dicts, dataclasses, arrays, attributes of other objects.

    Modules are not looked into, nor functions, nor what was met on the way already; nor the caches of `transformers`,
    in which a network remembers what it has read: that is state, not a result.

    Raises:
        InputError: something in the output cannot be looked into, or gives its tensors in no certain order.

    Example:
        >>> policy = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
        >>> [tensor.tolist() for tensor in tensors_in((policy, {"value": torch.ones(1)}))]
        [[0.0, 0.0], [1.0, 1.0], [1.0]]
    """
    return list(_found(output, ()))


def _found(output: Any, above: tuple[int, ...]) -> Iterator[Tensor]:
    """The tensors in an output; `above` are the ids of the objects that hold it."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, np.ndarray):
        yield from _of_array(output, above)
    elif id(output) not in above and not isinstance(output, _NO_TENSORS) and not _is_cache(output):
        held = [tensor for part in _parts(output) for tensor in _found(part, (*above, id(output)))]
        if held and isinstance(output, Set):
            raise InputError("the network returns tensors in a set, which has no order; return a list or a dict")
        yield from held


def without_caches(output: Any) -> Any:
    """An output without the caches of `transformers` that stand in it, beside the results."""
    if isinstance(output, Mapping) and any(map(_is_cache, output.values())):
        return {name: part for name, part in output.items() if not _is_cache(part)}
    if isinstance(output, tuple) and any(map(_is_cache, output)):
        return tuple(part for part in output if not _is_cache(part))
    return output


def _is_cache(output: Any) -> bool:
    return any(kind.__module__ == "transformers.cache_utils" for kind in type(output).__mro__)


def _of_array(array: np.ndarray[Any, Any], above: tuple[int, ...]) -> Iterator[Tensor]:
    if array.dtype.kind in "biufc":
        yield torch.from_numpy(array.copy())
    elif array.dtype.kind == "O":
        for part in array.ravel().tolist():
            yield from _found(part, above)


def _parts(output: Any) -> Iterable[Any]:
    """What an object holds.

    Raises:
        InputError: that cannot be seen.
    """
    if isinstance(output, Mapping):
        return list(output.values())
    if isinstance(output, list | tuple | deque | Set):
        return list(output)
    if dataclasses.is_dataclass(output):
        return [getattr(output, field.name) for field in dataclasses.fields(output)]
    slots = [name for kind in type(output).__mro__ for name in _slots(kind)]
    if not slots and not hasattr(output, "__dict__") and type(output) is not object:
        raise InputError(
            f"the network returns {type(output).__name__}, in which tensors cannot be seen; return tensors, or "
            "containers of them, or pass outputs= to say where they are"
        )
    own = [getattr(output, name) for name in slots if hasattr(output, name)]
    return [*getattr(output, "__dict__", {}).values(), *own]


def _slots(kind: type) -> tuple[str, ...]:
    """The attributes that a class keeps without a dictionary."""
    names = kind.__dict__.get("__slots__", ())
    return tuple(name for name in ((names,) if isinstance(names, str) else names) if not name.startswith("__"))
