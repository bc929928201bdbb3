"""The layers of a network in the order in which it runs them: what is put beside the layers of another one.

A layer is a linear or convolution layer with the norm that follows it, a residual block as a whole, or any other module
with tensors of its own. What stands in no module that is run (a class token, say) is in no layer and goes by its name.

In: a module and inputs. Out: `Layer` records. Not here: which of them belong together (`alignment`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..activations import Batch
from ..modules import undisturbed
from .blocks import CONVOLUTIONS, NORMED, NORMS, RIGID, blocks_of, kind_of
from .calls import Call, calls_of

CHAINED = (nn.Linear, *CONVOLUTIONS)  # what can be an identity by itself
CHOSEN = "only modules that take a tensor and give one are chosen"


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer of a network, as it was seen in a run.

    Args:
        parts: Names of its modules: one, or a linear or convolution layer and its norm.
        kind: What must be equal for two layers to stand beside each other: types, names of tensors, kernels, strides.
        entering: The shape of what goes in, without the samples.
        leaving: The shape of what comes out, without the samples.
        block: What sort of residual block it is, of those in `blocks`; `RIGID` if it is none that can do nothing.
        chained: Whether it is a linear or convolution layer that can be an identity by itself.
        grams: Products [samples, samples] for each two samples, centred, of what goes in and of what comes out.
        weights: Its parameters, each by the number of its module in `parts` and the name in that.
    """

    parts: tuple[str, ...]
    kind: tuple[Any, ...]
    entering: tuple[int, ...]
    leaving: tuple[int, ...]
    block: str
    chained: bool
    grams: tuple[Tensor, Tensor]
    weights: Mapping[str, Tensor]

    @property
    def name(self) -> str:
        """The name of its first module."""
        return self.parts[0]

    @property
    def residual(self) -> bool:
        """Whether it is a residual block that can do nothing."""
        return self.block != RIGID

    @property
    def ends_in_norm(self) -> bool:
        """Whether what it gives comes out of a layer norm, whose gains and biases a post-norm block can take over."""
        return self.block == NORMED or self.kind[-1][0] == nn.LayerNorm.__name__

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


def layers_of(model: nn.Module, batch: Batch) -> list[Layer]:
    """The layers of a network in the order in which it runs them, on one batch."""
    with undisturbed(model):
        calls = calls_of(model, batch.run)
        blocks = blocks_of(model, calls, batch.run)
        chosen = [name for name in _chosen(model, "", blocks) if name in calls and calls[name].tensors]
        ordered = sorted(chosen, key=lambda name: calls[name].number)
        found: list[Layer] = []
        for name in ordered:
            found = _joined(model, calls, found, name) or [*found, _layer(model, calls, (name,), blocks)]
    return found


def _chosen(module: nn.Module, name: str, blocks: Mapping[str, str]) -> list[str]:
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


def _layer(model: nn.Module, calls: Mapping[str, Call], parts: tuple[str, ...], blocks: Mapping[str, str]) -> Layer:
    modules = [model.get_submodule(part) for part in parts]
    first, last = calls[parts[0]].tensors, calls[parts[-1]].tensors
    assert first is not None, CHOSEN
    assert last is not None, CHOSEN
    once = all(calls[part].times == 1 for part in parts)
    return Layer(
        parts,
        tuple(kind_of(module) for module in modules),
        tuple(first[0].shape[1:]),
        tuple(last[1].shape[1:]),
        block=blocks.get(parts[0], RIGID) if once else RIGID,
        chained=type(modules[0]) in CHAINED and getattr(modules[0], "groups", 1) == 1 and once,
        grams=(_gram(first[0]), _gram(last[1])),
        weights={f"{number}.{name}": tensor.detach() for number, module in enumerate(modules)
                 for name, tensor in module.named_parameters()},
    )  # fmt: skip


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
