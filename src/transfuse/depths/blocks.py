"""Residual blocks of a network, found by a trial: with all its parameters 0, such a block changes nothing.

It gives what it is given; or 0, where the network itself adds to it what it reads. A post-norm block, as BERT has them,
ends in a norm: with gains of 1 and all else 0 it normalises what it is given, and no more. Modules of the same type
that change shapes are blocks as well, though not such ones.

In: a module and its calls. Out: names of blocks, and what each is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..modules import tensors_in
from .calls import Call, calls_of, copied

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.modules.batchnorm._BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
# What a module of the type of residual blocks is: one whose sum is inside, one whose sum is outside, one whose sums are
# normalised, or none of these, since it changes shapes.
SUMMED, ADDED, NORMED, RIGID = "summed", "added", "normed", "rigid"
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
        if leaves_alone(composite[name], calls[name], plainest(composite[name], SUMMED), SUMMED):
            summed.append(name)
    types = {type(composite[name]) for name in summed}
    alike = [name for name in composite if type(composite[name]) in types and not _around(name, summed)]
    found = {name: SUMMED if name in summed else RIGID for name in alike}
    listed = [name for name in composite if isinstance(_parent(model, name), nn.ModuleList) and name not in found
              and not _around(name, alike) and not any(name.startswith(f"{other}.") for other in alike)]  # fmt: skip
    found |= _added(model, listed, calls, run)
    repeated = [name for name in composite if isinstance(_parent(model, name), CONTAINERS) and name not in found
                and not _around(name, found) and not any(name.startswith(f"{other}.") for other in found)]  # fmt: skip
    return found | _normed(model, repeated, calls)


def _normed(model: nn.Module, repeated: Sequence[str], calls: Mapping[str, Call]) -> dict[str, str]:
    """Of modules in containers the innermost that can do nothing but normalise what they are given."""
    found: dict[str, str] = {}
    for name in sorted(repeated, key=lambda name: -name.count(".")):
        module = model.get_submodule(name)
        if type(module) in CONTAINERS or isinstance(module, NORMS) or _around(name, found):
            continue
        if leaves_alone(module, calls[name], plainest(module, NORMED), NORMED):
            found[name] = NORMED
    return found


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
        plain = plainest(model.get_submodule(name), ADDED)
        zeros = {f"{name}.{key}": tensor for key, tensor in plain.items()}
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


def plainest(module: nn.Module, what: str) -> dict[str, Tensor]:
    """The parameters with which a block of some sort does nothing, by name: zeros, in post-norm blocks gains of 1."""
    gains = {f"{name}.weight".lstrip(".") for name, each in module.named_modules()
             if isinstance(each, NORMS) and what == NORMED}  # fmt: skip
    return {name: torch.full_like(tensor, float(name in gains)) for name, tensor in module.named_parameters()}


def leaves_alone(module: nn.Module, call: Call, tensors: Mapping[str, Tensor], what: str) -> bool:
    """Whether a module with other tensors changes nothing, as a block of some sort does.

    It gives what it is given, or 0 if the sum is outside, or what it is given, normalised, if it is a post-norm block.
    """
    if call.tensors is None or call.tensors[0].shape != call.tensors[1].shape:
        return False
    given = call.tensors[0]
    args, kwargs = copied(call.args, dict(call.kwargs))
    result = tensors_in(torch.func.functional_call(module, dict(tensors), args, kwargs))[0]
    if result.shape != given.shape or not given.is_floating_point():
        return False
    expected = {SUMMED: given, ADDED: torch.zeros_like(given), NORMED: F.layer_norm(given, given.shape[-1:])}[what]
    return bool((result - expected).abs().max() <= SAME * given.abs().max())


def kind_of(module: nn.Module) -> tuple[Any, ...]:
    """What tells modules apart that cannot stand beside each other, whatever their widths are."""
    tensors = tuple((name, tensor.dim(), tuple(tensor.shape[2:])) for name, tensor in module.state_dict().items())
    steps = tuple((type(each).__name__, each.stride, each.dilation, each.padding, each.groups == 1)
                  for each in module.modules() if isinstance(each, CONVOLUTIONS))  # fmt: skip
    return type(module).__name__, tensors, steps
