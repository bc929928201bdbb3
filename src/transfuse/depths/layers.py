"""The layers of a network in the order in which it runs them: what is put beside the layers of another one.

A layer is a linear or convolution layer with the norm that follows it, a residual block as a whole, or any other module
with tensors of its own. Residual blocks are found by a trial: with all its parameters 0, such a block gives back what
it is given. What stands in no module that is run (a class token, say) is in no layer and goes by its name.

In: a module and inputs. Out: `Layer` records. Not here: which of them belong together (`alignment`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..activations import Batch
from ..modules import tensors_in, undisturbed

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
CHAINED = (nn.Linear, *CONVOLUTIONS)  # what can be an identity by itself
NORMS = (nn.modules.batchnorm._BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
CHOSEN = "only modules that take a tensor and give one are chosen"
SAME = 1e-4  # of the largest number, by which what a block gives back may differ from what it is given


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer of a network, as it was seen in a run.

    Args:
        parts: Names of its modules: one, or a linear or convolution layer and its norm.
        kind: What must be equal for two layers to stand beside each other: types, names of tensors, kernels, strides.
        entering: The shape of what goes in, without the samples.
        leaving: The shape of what comes out, without the samples.
        residual: Whether it is a residual block, which with all its parameters 0 gives back what it is given.
        chained: Whether it is a linear or convolution layer that can be an identity by itself.
        gram: Products [samples, samples] of what comes out for each two samples, centred; nothing if it was not asked
            for.
    """

    parts: tuple[str, ...]
    kind: tuple[Any, ...]
    entering: tuple[int, ...]
    leaving: tuple[int, ...]
    residual: bool
    chained: bool
    gram: Tensor | None = None

    @property
    def name(self) -> str:
        """The name of its first module."""
        return self.parts[0]

    @property
    def places(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of what goes in and comes out without their units: pixels of an image, steps of a sequence."""
        return self._without_units(self.entering), self._without_units(self.leaving)

    @property
    def units(self) -> tuple[int, int]:
        """How many units go in and come out."""
        return tuple(shape[self._axis(shape)] if shape else 1 for shape in (self.entering, self.leaving))  # type: ignore[return-value]

    def tensors(self, state: Iterable[str]) -> list[str]:
        """The names in a state that are its tensors."""
        return [name for name in state if any(name.startswith(f"{part}.") for part in self.parts)]

    def _axis(self, shape: tuple[int, ...]) -> int:
        return 0 if len(shape) > 2 or "Conv1d" in str(self.kind) else -1

    def _without_units(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        axis = self._axis(shape)
        return shape[1:] if axis == 0 else shape[:-1]


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a module: when it began, what it was given and what it gave."""

    number: int
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any
    times: int = 1

    @property
    def tensors(self) -> tuple[Tensor, Tensor] | None:
        """The tensor that was given and the tensor that came of it, if there is one of each that counts."""
        given = tensors_in((self.args, dict(self.kwargs)))
        return (given[0], self.result) if given and isinstance(self.result, Tensor) else None


def layers_of(model: nn.Module, batch: Batch) -> list[Layer]:
    """The layers of a network in the order in which it runs them, on one batch."""
    with undisturbed(model):
        calls = calls_of(model, batch.run)
        blocks = _blocks(model, calls)
        chosen = [name for name in _chosen(model, "", blocks) if name in calls and calls[name].tensors]
        ordered = sorted(chosen, key=lambda name: calls[name].number)
        found: list[Layer] = []
        for name in ordered:
            found = _joined(model, calls, found, name) or [*found, _layer(model, calls, (name,), blocks)]
    return found


def calls_of(model: nn.Module, run: Callable[[nn.Module], Any]) -> dict[str, Call]:
    """What every module below the network was given and gave in one run; of several calls the first."""
    calls: dict[str, Call] = {}
    begun: dict[str, tuple[int, Any, Any]] = {}

    def before(name: str) -> Callable[..., None]:
        """A hook that notes what a module is given, copied, since the network may change it in place."""

        def note(module: nn.Module, args: Any, kwargs: Any) -> None:
            if name not in begun:
                begun[name] = (len(begun), *_copied(args, kwargs))

        return note

    def after(name: str) -> Callable[..., None]:
        """A hook that notes what a module gave."""

        def note(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
            known = calls.get(name)
            calls[name] = replace(known, times=known.times + 1) if known else Call(*begun[name], _copied(result)[0])

        return note

    handles = []
    for name, module in model.named_modules():
        if name and not isinstance(module, torch.jit.ScriptModule):
            handles.append(module.register_forward_pre_hook(before(name), with_kwargs=True))
            handles.append(module.register_forward_hook(after(name), with_kwargs=True))
    try:
        run(model)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def _copied(*values: Any) -> tuple[Any, ...]:
    """Values with every tensor in them copied."""
    return tuple(pytree.tree_map_only(Tensor, torch.clone, value) for value in values)


def _blocks(model: nn.Module, calls: Mapping[str, Call]) -> dict[str, bool]:
    """Names of residual blocks, and of modules of their types that change shapes; whether each is residual."""
    composite = {
        name: module
        for name, module in model.named_modules()
        if name in calls and calls[name].times == 1 and type(module) not in CONTAINERS
        and any(any(True for _ in child.parameters()) for child in module.children())
    }  # fmt: skip
    residual: list[str] = []
    for name in sorted(composite, key=lambda name: -name.count(".")):
        inside = any(other.startswith(f"{name}.") for other in residual)
        if not inside and gives_back(composite[name], calls[name], zeros_of(composite[name])):
            residual.append(name)
    types = {type(composite[name]) for name in residual}
    alike = [name for name in composite if type(composite[name]) in types]
    return {name: name in residual for name in alike if not any(o.startswith(f"{name}.") for o in residual)}


def zeros_of(module: nn.Module) -> dict[str, Tensor]:
    """All parameters of a module as zeros, by name."""
    return {name: torch.zeros_like(tensor) for name, tensor in module.named_parameters()}


def gives_back(module: nn.Module, call: Call, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a module with other tensors gives what it is given in a call."""
    if call.tensors is None or call.tensors[0].shape != call.tensors[1].shape:
        return False
    given = call.tensors[0]
    args, kwargs = _copied(call.args, dict(call.kwargs))
    result = torch.func.functional_call(module, dict(tensors), args, kwargs)
    if not isinstance(result, Tensor) or result.shape != given.shape or not given.is_floating_point():
        return False
    return bool((result - given).abs().max() <= SAME * given.abs().max())


def _chosen(module: nn.Module, name: str, blocks: Mapping[str, bool]) -> list[str]:
    """Names of the modules that are layers: blocks, and what has tensors of its own."""
    if not any(True for _ in (*module.parameters(), *module.buffers())):
        return []
    own = any(True for _ in (*module.parameters(recurse=False), *module.buffers(recurse=False)))
    if name and (name in blocks or own):
        return [name]
    return [
        found
        for child, each in module.named_children()
        for found in _chosen(each, f"{name}.{child}".lstrip("."), blocks)
    ]


def _layer(model: nn.Module, calls: Mapping[str, Call], parts: tuple[str, ...], blocks: Mapping[str, bool]) -> Layer:
    modules = [model.get_submodule(part) for part in parts]
    first, last = calls[parts[0]].tensors, calls[parts[-1]].tensors
    assert first is not None, CHOSEN
    assert last is not None, CHOSEN
    once = all(calls[part].times == 1 for part in parts)
    return Layer(
        parts,
        tuple(_kind(module) for module in modules),
        tuple(first[0].shape[1:]),
        tuple(last[1].shape[1:]),
        residual=blocks.get(parts[0], False) and once,
        chained=type(modules[0]) in CHAINED and getattr(modules[0], "groups", 1) == 1 and once,
        gram=_gram(last[1]),
    )


def _kind(module: nn.Module) -> tuple[Any, ...]:
    """What tells modules apart that cannot stand beside each other, whatever their widths are."""
    tensors = tuple((name, tensor.dim(), tuple(tensor.shape[2:])) for name, tensor in module.state_dict().items())
    steps = tuple((type(each).__name__, each.stride, each.dilation, each.padding, each.groups == 1)
                  for each in module.modules() if isinstance(each, CONVOLUTIONS))  # fmt: skip
    return type(module).__name__, tensors, steps


def _joined(model: nn.Module, calls: Mapping[str, Call], found: list[Layer], name: str) -> list[Layer] | None:
    """The layers found so far, the last of them with a norm that reads just what it gives; nothing if that is none."""
    if not found or len(found[-1].parts) > 1 or not found[-1].chained:
        return None
    if not isinstance(model.get_submodule(name), NORMS):
        return None
    before, own = calls[found[-1].name].tensors, calls[name].tensors
    assert before is not None, CHOSEN
    assert own is not None, CHOSEN
    if own[0].shape != before[1].shape or not torch.equal(own[0], before[1]):
        return None
    return [*found[:-1], _layer(model, calls, (found[-1].name, name), {})]


def _gram(output: Tensor) -> Tensor:
    """Products of what comes out for each two samples, after the mean is taken off."""
    flat = output.detach().flatten(1).double() if output.dim() > 1 else output.detach()[:, None].double()
    flat = flat - flat.mean(0)
    return flat @ flat.T
