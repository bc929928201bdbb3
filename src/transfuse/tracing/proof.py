"""The proof: moving units at random, by the layout, leaves what the network computes as it was.

It runs on the network's own weights and on disturbed ones, in which no two numbers are equal (a norm whose weights are
all one would hide that they must move). In float64 where the network can. What an output may change by is measured
against what disturbing the weights does to it, for each place along each axis of it: neither an offset nor a large
neighbour hides a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import ProofError, listing
from ..layout import Framed, Layout, Permutation, Reversible, Rotation, permute, random_elements
from ..modules import Arguments, is_mask, run
from .differences import Change, Limits, Scale, difference, is_number

# For each precision (None: the network's own): a change of weights and inputs for the second trial, one of the weights
# that is well above rounding, and by how many times what the latter does to the outputs moving units may change them.
# Some networks round to float32 inside.
_DISTURBANCE = 0.2
_SCALES = {
    torch.float64: Scale(_DISTURBANCE, 1e-8, 300.0),
    torch.float32: Scale(_DISTURBANCE, 1e-6, 300.0),
    None: Scale(_DISTURBANCE, 1e-3, 30.0),
}
_CONCLUSIVE = 0.1  # a wrong layout changes outputs by more than this; a network with more noise proves nothing


@dataclass(frozen=True)
class _Trial:
    """A network with a state, inputs, what it gives for them, and by how much that may change."""

    model: nn.Module
    state: dict[str, Tensor]
    inputs: Arguments
    outputs: list[Tensor]
    limits: tuple[Limits, ...] = ()


Trials = tuple[_Trial, _Trial]  # the network as it is, and disturbed, in one precision


def verify(model: nn.Module, state: Mapping[str, Tensor], inputs: Arguments, layout: Layout, *, seed: int = 0) -> None:
    """Move units at random by the layout and compare the outputs.

    Raises:
        ProofError: naming the spaces whose units cannot be moved as the layout says, and by how much outputs differ.
    """
    rng = np.random.default_rng(seed)
    trials = _measured_trials(model, state, inputs, rng)
    elements = random_elements(layout, layout.widths(state), rng)
    if not elements or (change := _change(trials, layout, elements)).excess <= 1:
        return
    blamed = [text for name, element in elements.items() if (text := _blame(trials, layout, name, element))]
    raise ProofError(
        listing("the layout does not describe this network:", blamed or [f"all spaces together: {change.relative:.2g}"])
        + "\nA rule for one of its operations is wrong, or the layout was edited: correct it, or fix these spaces"
    )


def _blame(trials: Trials, layout: Layout, name: str, element: Reversible) -> str:
    """What goes wrong with one space, if anything does."""
    change = _change(trials, layout, {name: element})
    if change.excess <= 1:
        return ""
    kind = _kind(trials, layout, name, element)
    return f"space {name}: outputs change by {change.relative:.2g} (relative) when its units are {kind}"


def _kind(trials: Trials, layout: Layout, name: str, element: Reversible) -> str:
    """What units of a space must not be: rotated; moved, or only negated or scaled, or only mixed inside."""
    if isinstance(element, Rotation):
        return "rotated"
    if isinstance(element, Framed):
        plain = element.permutation
        wrong = _change(trials, layout, {name: plain}).excess > 1
        return _kind(trials, layout, name, plain) if wrong else "mixed inside"
    moved = _change(trials, layout, {name: Permutation(element.order)}).excess > 1
    return "moved" if moved else "negated or scaled"


def _measured_trials(
    model: nn.Module, state: Mapping[str, Tensor], inputs: Arguments, rng: np.random.Generator
) -> Trials:
    """Trials in the highest precision in which the network runs, with how much its outputs tremble in it."""
    masks = frozenset(name for name, tensor in state.items() if is_mask(tensor))
    for dtype in (torch.float64, torch.float32, None):
        own = {name: _cast(tensor.detach(), dtype) for name, tensor in state.items()}
        cast = inputs.map(partial(_cast, dtype=dtype))
        try:
            trials = _trials(model, own, cast, rng, masks)
        except Exception:
            if dtype is None:
                raise
            continue
        return _measured(trials, rng, dtype, masks)
    raise AssertionError("unreachable: the last precision raises")


def _measured(trials: Trials, rng: np.random.Generator, dtype: torch.dtype | None, masks: frozenset[str]) -> Trials:
    """The trials with what their outputs may change by: some times what a small change of the weights does.

    Raises:
        ProofError: that is so much that a wrong layout would not show.
    """
    first, last = trials
    scale = _SCALES[dtype]
    nudged = run(last.model, _disturbed(last.state, rng, scale.nudge, masks), last.inputs)
    outputs = list(zip(first.outputs, last.outputs, nudged, strict=True))
    limits = tuple(Limits.of(a, b, c, scale) for a, b, c in outputs)
    own = tuple(
        known if a.shape == b.shape else Limits.of(b, b, c, scale)
        for known, (a, b, c) in zip(limits, outputs, strict=True)
    )
    noise = max((each.noise for each in own), default=0.0)
    if not scale.amplified * noise <= _CONCLUSIVE:
        raise ProofError(
            f"the layout cannot be proved: a change of {scale.nudge:.0e} of the weights changes the outputs of this "
            f"network by {noise:.1e}; let it run in higher precision, pass example inputs on which it is less "
            "sensitive, or proof=False"
        )
    return replace(first, limits=limits), replace(last, limits=own)


def _trials(
    model: nn.Module, state: dict[str, Tensor], inputs: Arguments, rng: np.random.Generator, masks: frozenset[str]
) -> Trials:
    """The network as it is, and with disturbed weights and inputs (if it takes such inputs)."""
    first = _Trial(model, state, inputs, run(model, state, inputs))
    disturbed = _disturbed(state, rng, _DISTURBANCE, masks)
    shaken = inputs.map(
        lambda tensor: (
            _shaken(tensor, rng, _DISTURBANCE) if is_number(tensor) and bool(tensor.isfinite().all()) else tensor
        )
    )
    for tried in (shaken, inputs):
        try:
            second = _Trial(model, disturbed, tried, run(model, disturbed, tried))
        except Exception:
            if tried is inputs:
                raise
            continue
        if all(bool(tensor.isfinite().all()) for tensor in second.outputs):
            break
    return first, second


def _cast(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    if dtype is None:
        return tensor
    if tensor.is_complex():
        return tensor.to(torch.complex128 if dtype is torch.float64 else torch.complex64)
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _disturbed(
    state: Mapping[str, Tensor], rng: np.random.Generator, amount: float, masks: frozenset[str]
) -> dict[str, Tensor]:
    """A state without equal numbers, changed by about that amount; what was positive stays positive, masks stay.

    Every axis (those of a kernel are one) has its own random factors and shifts: cheap for large tensors, and no two
    positions stay alike.
    """
    return {
        name: _shaken(tensor, rng, amount) if is_number(tensor) and name not in masks else tensor
        for name, tensor in state.items()
    }


def _shaken(tensor: Tensor, rng: np.random.Generator, amount: float) -> Tensor:
    spread = float(tensor.std()) if tensor.numel() > 1 else float(tensor.abs().mean())
    positive = tensor.is_floating_point() and bool((tensor >= 0).all())
    result = own = tensor.flatten(2) if tensor.dim() > 2 else tensor
    for axis, length in enumerate(own.shape):
        view = [-1 if axis == other else 1 for other in range(own.dim())]
        factor, shift = (torch.from_numpy(rng.standard_normal(length)).to(own).view(view) for _ in range(2))
        shift = shift * amount / 2 * (spread or 1.0)
        shift = shift.abs() if positive else shift
        result = torch.addcmul(shift, result, torch.exp(amount * factor), out=None if result is own else result)
    return result.view(tensor.shape)


def _change(trials: Trials, layout: Layout, elements: Mapping[str, Reversible]) -> Change:
    """By how much outputs change, in the worse of the trials."""
    return max(
        (
            difference(*compared)
            for trial in trials
            for compared in zip(
                trial.outputs,
                run(trial.model, permute(trial.state, layout, elements), trial.inputs),
                trial.limits,
                strict=True,
            )
        ),
        default=Change(),
    )
