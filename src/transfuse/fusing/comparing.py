"""What differs between two modules outside their states: classes, attributes, hooks, ties, tensors that are not saved.

In: two modules. Out: sentences, one for each difference, the first ones first. Nothing is run. Not here: whether a
difference matters, which only a run can tell (`verifying`): dropout of another rate does nothing in evaluation mode.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..corrections import Corrected
from ..modules import live_tensors, ties_of
from ..renamed import OldAttribute

SHOWN = 5  # differences that a message tells: the first ones lead to the others
LONGEST = 60  # characters of a value in a message
DEPTH = 6  # of containers and objects in attributes that are looked into

# What every module keeps for itself; tensors, parts and hooks are compared on their own.
_INTERNAL = frozenset(vars(nn.Module())) | {"_flat_weights", "_is_hf_initialized", "_backward_compatibility_gradients"}
_TOLD = (Corrected, OldAttribute)  # what `correct` says on a module, which no forward pass reads
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def differences(one: nn.Module, other: nn.Module, names: tuple[str, str] = ("model 1", "model 2")) -> list[str]:
    """The first differences between two modules outside the tensors that both save.

    Example:
        >>> relu, leaky = (nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(slope)) for slope in (0.1, 0.2))
        >>> differences(relu, leaky)
        ['1.negative_slope is 0.1 in model 1 and 0.2 in model 2']
    """
    return list(islice(_all(one, other, names), SHOWN))


def _all(one: nn.Module, other: nn.Module, names: tuple[str, str]) -> Iterator[str]:
    """All differences between two modules, lazily, for only the first ones are told."""
    ours, theirs = (dict(each.named_modules(remove_duplicate=False)) for each in (one, other))
    for path in [*ours, *(path for path in theirs if path not in ours)]:
        if path not in ours or path not in theirs:
            having, lacking = names if path in ours else names[::-1]
            yield f"{having} has a module {path}, which {lacking} has not"
        else:
            yield from _of_modules(path, ours[path], theirs[path], names)
    yield from _of_ties(one, other, names)
    yield from _of_unsaved(one, other, names)


def _of_modules(path: str, one: nn.Module, other: nn.Module, names: tuple[str, str]) -> Iterator[str]:
    """Differences between two modules at the same place, their parts left out."""
    if type(one) is not type(other):
        yield _told(path or "the network", _class(one), _class(other), names)
    prefix = f"{path}." if path else ""
    attributes = [
        {key: value for key, value in vars(each).items() if key not in _INTERNAL and not isinstance(value, _TOLD)}
        for each in (one, other)
    ]
    for key in dict.fromkeys([*attributes[0], *attributes[1]]):
        values = [each.get(key, "missing") for each in attributes]
        if not _same(*values):
            yield _told(prefix + key, _short(values[0]), _short(values[1]), names)
    for key in _HOOKS:
        hooks = [[_name(hook) for hook in getattr(each, key).values()] for each in (one, other)]
        if hooks[0] != hooks[1]:
            kind = key.strip("_").replace("_", " ")
            yield _told(f"{kind} of {path or 'the network'}", _listed(hooks[0]), _listed(hooks[1]), names)


def _of_ties(one: nn.Module, other: nn.Module, names: tuple[str, str]) -> Iterator[str]:
    ours, theirs = (ties_of(live_tensors(each)) for each in (one, other))
    for name in sorted(ours.keys() ^ theirs.keys()):
        tied, free = names if name in ours else names[::-1]
        yield f"{name} is the same tensor as {(ours | theirs)[name]} in {tied}, and one of its own in {free}"


def _of_unsaved(one: nn.Module, other: nn.Module, names: tuple[str, str]) -> Iterator[str]:
    """Parameters and buffers that are not in `state_dict()`: they are not fused, so they must be equal."""
    ours, theirs = live_tensors(one), live_tensors(other)
    saved = one.state_dict().keys() & other.state_dict().keys()
    for name in ours:
        if name not in saved and name in theirs and not _same(ours[name], theirs[name]):
            yield f"{name}, which is not in state_dict(), has other values in {names[0]} than in {names[1]}"


def _told(what: str, one: str, other: str, names: tuple[str, str]) -> str:
    return f"{what} is {one} in {names[0]} and {other} in {names[1]}"


def _class(module: nn.Module) -> str:
    return type(module).__name__


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _short(value: Any) -> str:
    """A value as a message shows it."""
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} of norm {float(value.detach().double().norm()):.6g}"
    if isinstance(value, nn.Module):
        return f"a {_class(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _same(one: Any, other: Any, depth: int = DEPTH) -> bool:  # noqa: PLR0911
    """Whether two values are alike, as far as one can see; objects that cannot be compared are taken to be."""
    if one is other or depth == 0:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor | np.ndarray):
        pair = [torch.as_tensor(each).detach().cpu() for each in (one, other)]
        return pair[0].shape == pair[1].shape and bool(torch.equal(*pair))
    if isinstance(one, nn.Module):
        ours, theirs = one.state_dict(), other.state_dict()
        return _same(dict(ours), dict(theirs), depth - 1) and not differences(one, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(_same(a, b, depth - 1) for a, b in zip(one, other, strict=True))
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(_same(one[key], other[key], depth - 1) for key in one)
    if isinstance(one, types.FunctionType | types.MethodType):
        return _same_function(one, other, depth)
    return _same_object(one, other, depth)


def _same_function(one: Any, other: Any, depth: int) -> bool:
    codes = [getattr(each, "__code__", None) for each in (one, other)]
    cells = [[cell.cell_contents for cell in getattr(each, "__closure__", None) or ()] for each in (one, other)]
    return bool(codes[0] == codes[1]) and _same(cells[0], cells[1], depth - 1)


def _same_object(one: Any, other: Any, depth: int) -> bool:
    """Whether two objects are equal or hold equal attributes; what cannot be compared counts as equal."""
    try:
        if bool(one == other):
            return True
    except (TypeError, ValueError, RuntimeError):  # objects without an order of their own, arrays in disguise
        return True
    inside = getattr(one, "__dict__", None), getattr(other, "__dict__", None)
    return None not in inside and bool(inside[0]) and _same(*inside, depth - 1)
