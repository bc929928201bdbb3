"""Trials: what a model gives for some inputs, and how far the outputs of another network are from that.

A difference is measured in tremors: by how much an output differs if the weights are changed by a few roundings. In:
modules and arguments. Out: outputs, distances. Not here: which networks are compared, and what is said (`verifying`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from ..modules import Arguments, model_state, run, undisturbed
from ..types import State

# A change of weights, by their type: a few roundings, so that what it does to outputs is what rounding may do.
NUDGE = {torch.float64: 1e-8, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
DISTURBANCE = 0.2  # of inputs, in their standard deviations: other branches and other units answer
ROUNDINGS = 8  # of the largest number in a column of an output: by so much the column may always differ
CONCLUSIVE = 0.1  # where rounding alone changes outputs by a larger share than this, nothing can be told
FLIPS = 0.02  # share of whole numbers in an output (classes, positions) that may differ: ties are broken by rounding

_log = logging.getLogger(__name__)


@dataclass
class Passes:
    """Runs networks, and counts how often."""

    count: int = 0

    def __call__(self, model: nn.Module, state: State, inputs: Arguments) -> list[Tensor]:
        """The tensors in the output of a model that runs with another state."""
        self.count += 1
        return run(model, state, inputs)


@dataclass(frozen=True, eq=False)
class Witness:
    """What a model gives for some inputs, and by how much each output trembles if the weights do.

    The latter takes a run, which is made only where rounding of the outputs themselves does not explain a difference.
    """

    model: nn.Module
    inputs: Arguments
    outputs: list[Tensor]
    run: Passes

    def distance(self, found: Sequence[Tensor], allowed: float) -> tuple[float, float]:
        """How far outputs are from those of the model: in tremors of the worst column, and as a share of their size.

        What is allowed, in tremors, is allowed for certain if it is by the least tremor that there can be.
        """
        least = _distance(self.outputs, found, list(map(_rounding, self.outputs)))
        return least if least[0] <= allowed else _distance(self.outputs, found, self.noise)

    @cached_property
    def noise(self) -> list[Tensor]:
        """By how much each column of each output may differ by rounding alone."""
        with undisturbed(self.model, briefly=True):
            others = self.run(self.model, _nudged(model_state(self.model)), self.inputs)
        return [_tremor(output, other) for output, other in zip(self.outputs, others, strict=False)]

    @property
    def objection(self) -> str:
        """Why nothing can be told from what the model gives; empty if something can."""
        for output, noise in zip(self.outputs, self.noise, strict=False):
            size = float(_rows(output).nan_to_num(0, 0, 0).abs().max()) if output.numel() else 0.0
            if output.is_floating_point() and size and float(noise.median()) > CONCLUSIVE * size:
                return f"rounding of its weights changes its outputs by {float(noise.median()) / size:.1g}"
        return ""


def tried(model: nn.Module, inputs: Arguments, passes: Passes) -> Witness:
    """A model on inputs of which half are disturbed; on the inputs as they are, if it does not take others.

    One run tells as much as one on the inputs and one on disturbed ones: values that were chosen (zeros, whole numbers,
    the ends of a range) and values in between both reach every unit.
    """
    state = model_state(model)
    mixed = _half_disturbed(inputs)
    if mixed is not None:
        try:
            outputs = passes(model, state, mixed)
        except Exception as error:  # the model's own code runs here: it does not take them, so the example is tried
            _log.debug("%s takes no disturbed example inputs: %r", type(model).__name__, error)
        else:
            if all(bool(each.isfinite().all()) for each in outputs):
                return Witness(model, mixed, outputs, passes)
    return Witness(model, inputs, passes(model, state, inputs), passes)


def _half_disturbed(inputs: Arguments) -> Arguments | None:
    """Inputs within the range of the example, half of them near it and half as they are; none if all are fixed.

    Of several samples every other one is disturbed, of a single one every other number.
    """
    random = torch.Generator().manual_seed(0)
    changed = False

    def shaken(tensor: Tensor) -> Tensor:
        nonlocal changed
        if not tensor.is_floating_point() or not tensor.numel() or tensor.layout is not torch.strided:
            return tensor
        if not bool(tensor.isfinite().all()):
            return tensor
        changed = True
        spread = float(tensor.float().std()) if tensor.numel() > 1 else 0.0
        noise = torch.randn(tensor.shape, generator=random).to(tensor)
        near = (tensor + DISTURBANCE * (spread or 1.0) * noise).clamp(tensor.min(), tensor.max())
        return torch.where(_every_other(tensor), near, tensor)

    mixed = inputs.map(shaken)
    return mixed if changed else None


def _every_other(tensor: Tensor) -> Tensor:
    """Which numbers of an input are disturbed: the first, the third, ... sample, or number of a single sample."""
    if tensor.dim() and len(tensor) > 1:
        return (torch.arange(len(tensor), device=tensor.device) % 2 == 0).view(-1, *[1] * (tensor.dim() - 1))
    return (torch.arange(tensor.numel(), device=tensor.device) % 2 == 0).view(tensor.shape)


def _nudged(state: State) -> dict[str, Tensor]:
    """A state whose numbers are changed by a few roundings."""
    random = torch.Generator().manual_seed(0)

    def nudged(tensor: Tensor) -> Tensor:
        if tensor.dtype not in NUDGE:
            return tensor
        noise = torch.randn(tensor.shape[:1], generator=random).to(tensor).view(-1, *[1] * (tensor.dim() - 1))
        return tensor.detach() * (1 + NUDGE[tensor.dtype] * (noise if tensor.dim() else noise[0]))

    return {name: nudged(tensor) for name, tensor in state.items()}


def _rows(tensor: Tensor) -> Tensor:
    """An output as rows of columns, in float64: a column may be a million times as large as another."""
    flat = tensor.detach()
    flat = torch.view_as_real(flat).flatten(-2) if flat.is_complex() else flat
    return (flat.reshape(-1, flat.shape[-1]) if flat.dim() > 1 else flat.reshape(-1, 1)).double()


def _rounding(output: Tensor) -> Tensor:
    """By how much each column of an output may differ at least: a few of its last digits."""
    digits = torch.finfo(output.dtype).eps if output.is_floating_point() or output.is_complex() else 0.0
    if not output.numel():
        return torch.zeros(1, dtype=torch.float64)
    return ROUNDINGS * digits * _rows(output).nan_to_num(0, 0, 0).abs().amax(0)


def _tremor(output: Tensor, nudged: Tensor) -> Tensor:
    """By how much each column of an output may differ by rounding alone."""
    if output.shape != nudged.shape or not output.numel():
        return torch.full((1,), torch.inf, dtype=torch.float64)
    one, other = (_rows(each).nan_to_num(0, 0, 0) for each in (output, nudged))
    found = (one - other).abs().amax(0)
    # A column that happens not to move is taken to move as much as most others do.
    return torch.maximum(torch.maximum(found, found.median()), _rounding(output))


def _distance(outputs: Sequence[Tensor], found: Sequence[Tensor], noise: Sequence[Tensor]) -> tuple[float, float]:
    """How far outputs are from others: in tremors of the worst column, and as a share of their size."""
    if [tensor.shape for tensor in found] != [tensor.shape for tensor in outputs]:
        return torch.inf, torch.inf
    parts = [_one_distance(*each) for each in zip(outputs, found, noise, strict=True) if each[0].numel()]
    return max((each[0] for each in parts), default=0.0), max((each[1] for each in parts), default=0.0)


def _one_distance(output: Tensor, found: Tensor, noise: Tensor) -> tuple[float, float]:
    one, other = _rows(output), _rows(found)
    if not (output.is_floating_point() or output.is_complex()):
        share = float((one != other).double().mean())
        return (torch.inf if share > max(FLIPS, 2 * float((noise > 0).double().mean())) else 0.0), share
    gap = torch.where((one == other) | (one.isnan() & other.isnan()), 0.0, (one - other).abs())
    gap = torch.where(one.isfinite(), gap.nan_to_num(nan=torch.inf), 0.0)  # what is no number need not be the same
    tiny = torch.finfo(torch.float32).tiny
    size = float(one.nan_to_num(0, 0, 0).square().sum().sqrt())
    return float((gap.amax(0) / noise.clamp_min(tiny)).max()), float(gap.square().sum().sqrt()) / max(size, tiny)
