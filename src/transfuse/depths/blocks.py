"""Residual blocks of a network, found by a trial: with all its parameters 0, such a block changes nothing.

It gives what it is given; or 0, where the network itself adds to it what it reads. Modules of the same type that change
shapes are blocks as well, though not such ones.

In: a module and its calls. Out: names of blocks, and what each is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..modules import tensors_in
from .calls import Call, calls_of, copied

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
# What a module of the type of residual blocks is: one whose sum is inside, one whose sum is outside, or none of both,
# since it changes shapes.
SUMMED, ADDED, RIGID = "summed", "added", "rigid"
SAME = 1e-4  # of the largest number, by which what a block gives back may differ from what it is given


def blocks_of(model: nn.Module, calls: Mapping[str, Call], run: Callable[[nn.Module], Any]) -> dict[str, str]:
    """Names of residual blocks, and of modules of their types that change shapes, each with what it is."""
    composite = {
        name: module
        for name, module in model.named_modules()
        if name in calls and calls[name].times == 1
        and any(any(True for _ in child.parameters()) for child in module.children())
    }  # fmt: skip
    summed: list[str] = []
    for name in sorted(composite, key=lambda name: -name.count(".")):
        if type(composite[name]) in CONTAINERS or _around(name, summed):
            continue
        if leaves_alone(composite[name], calls[name], zeros_of(composite[name])):
            summed.append(name)
    types = {type(composite[name]) for name in summed}
    alike = [name for name in composite if type(composite[name]) in types and not _around(name, summed)]
    found = {name: SUMMED if name in summed else RIGID for name in alike}
    listed = [name for name in composite if isinstance(_parent(model, name), nn.ModuleList) and name not in found
              and not _around(name, alike) and not any(name.startswith(f"{other}.") for other in alike)]  # fmt: skip
    return found | _added(model, listed, calls, run)


def _around(name: str, others: Iterable[str]) -> bool:
    """Whether a module has one of some others inside."""
    return any(other.startswith(f"{name}.") for other in others)


def _parent(model: nn.Module, name: str) -> nn.Module:
    return model.get_submodule(name.rpartition(".")[0])


def _added(
    model: nn.Module, listed: Sequence[str], calls: Mapping[str, Call], run: Callable[[nn.Module], Any]
) -> dict[str, str]:
    """Of modules in lists those to whose outputs the network adds what they read: without them, the next reads that.

    The last one may be followed by something else: what one of a kind is, all of that kind are.
    """
    kinds = set()
    for name in listed:
        kind, own = kind_of(model.get_submodule(name)), calls[name].tensors
        after = [each for each in calls if calls[each].number > calls[name].number and not each.startswith(f"{name}.")]
        if kind in kinds or own is None or own[0].shape != own[1].shape or not after:
            continue
        zeros = {f"{name}.{key}": tensor for key, tensor in zeros_of(model.get_submodule(name)).items()}
        with _holding(model, zeros):
            seen = calls_of(model, run)[min(after, key=lambda each: calls[each].number)].tensors
        if seen is not None and seen[0].shape == own[0].shape and bool(torch.allclose(seen[0], own[0])):
            kinds.add(kind)
    return {name: ADDED for name in listed if kind_of(model.get_submodule(name)) in kinds}


@contextmanager
def _holding(model: nn.Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Parameters of a network with other values for a while."""
    kept = {name: model.get_parameter(name).detach().clone() for name in tensors}
    try:
        for name, tensor in tensors.items():
            model.get_parameter(name).data.copy_(tensor)
        yield
    finally:
        for name, tensor in kept.items():
            model.get_parameter(name).data.copy_(tensor)


def zeros_of(module: nn.Module) -> dict[str, Tensor]:
    """All parameters of a module as zeros, by name."""
    return {name: torch.zeros_like(tensor) for name, tensor in module.named_parameters()}


def leaves_alone(module: nn.Module, call: Call, tensors: Mapping[str, Tensor], *, added: bool = False) -> bool:
    """Whether a module with other tensors changes nothing: it gives what it is given, or 0 if the sum is outside."""
    if call.tensors is None or call.tensors[0].shape != call.tensors[1].shape:
        return False
    given = call.tensors[0]
    args, kwargs = copied(call.args, dict(call.kwargs))
    result = tensors_in(torch.func.functional_call(module, dict(tensors), args, kwargs))[0]
    if result.shape != given.shape or not given.is_floating_point():
        return False
    change = result if added else result - given
    return bool(change.abs().max() <= SAME * given.abs().max())


def kind_of(module: nn.Module) -> tuple[Any, ...]:
    """What tells modules apart that cannot stand beside each other, whatever their widths are."""
    tensors = tuple((name, tensor.dim(), tuple(tensor.shape[2:])) for name, tensor in module.state_dict().items())
    steps = tuple((type(each).__name__, each.stride, each.dilation, each.padding, each.groups == 1)
                  for each in module.modules() if isinstance(each, CONVOLUTIONS))  # fmt: skip
    return type(module).__name__, tensors, steps
