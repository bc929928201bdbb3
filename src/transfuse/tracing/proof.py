"""The proof: moving units at random, by the layout, leaves what the network computes as it was.

It runs on the network's own weights and on disturbed ones, in which no two numbers are equal (a norm whose weights are
all one would hide that they must move). In float64 where the network can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import ProofError, listing
from ..layout import Action, Layout, permute, random_actions
from .recording import Arguments, run

_NUDGE = {torch.float64: 1e-8, torch.float32: 1e-6}  # well above rounding; some models round to float32 inside
_AMPLIFIED = 300.0  # moving units may change outputs by this many times what a nudge of the weights does
_CONCLUSIVE = 0.02  # a wrong layout changes outputs by more than this; a network with more noise proves nothing


@dataclass(frozen=True)
class _Bench:
    """A network with states to try and inputs, all in one precision."""

    model: nn.Module
    states: tuple[dict[str, Tensor], ...]
    outputs: tuple[list[Tensor], ...]
    inputs: Arguments
    tolerance: float


def prove(model: nn.Module, state: Mapping[str, Tensor], inputs: Arguments, layout: Layout, *, seed: int = 0) -> None:
    """Move units at random by the layout and compare the outputs.

    Raises:
        ProofError: naming the spaces whose units cannot be moved as the layout says, and by how much outputs differ.
    """
    rng = np.random.default_rng(seed)
    bench = _bench(model, state, inputs, rng)
    actions = random_actions(layout, layout.widths(state), rng)
    if not actions or (change := _change(bench, layout, actions)) <= bench.tolerance:
        return
    blamed = [text for name, action in actions.items() if (text := _blame(bench, layout, name, action))]
    raise ProofError(
        listing("the layout does not describe this network:", blamed or [f"all spaces together: {change:.2g}"])
        + "\nA rule for one of its operations is wrong, or the layout was edited: correct it, or fix these spaces"
    )


def _blame(bench: _Bench, layout: Layout, name: str, action: Action) -> str:
    """What goes wrong with one space, if anything does."""
    change = _change(bench, layout, {name: action})
    if change <= bench.tolerance:
        return ""
    moved = _change(bench, layout, {name: Action(action.order)}) > bench.tolerance
    kind = "moved" if moved else "negated or scaled"
    return f"space {name}: outputs change by {change:.2g} (relative) when its units are {kind}"


def _bench(model: nn.Module, state: Mapping[str, Tensor], inputs: Arguments, rng: np.random.Generator) -> _Bench:
    """The highest precision in which the network runs, and how much its outputs tremble in it."""
    for dtype in (torch.float64, torch.float32):
        own = {name: _cast(tensor.detach(), dtype) for name, tensor in state.items()}
        cast = inputs.map(partial(_cast, dtype=dtype))
        states = own, _disturbed(own, rng, 0.2)
        try:
            outputs = tuple(run(model, state, cast) for state in states)
        except Exception:
            if dtype is torch.float32:
                raise
            continue
        nudged = run(model, _disturbed(states[-1], rng, _NUDGE[dtype]), cast)
        noise = _distance(outputs[-1], nudged)
        tolerance = _AMPLIFIED * max(noise, _NUDGE[dtype])
        if not tolerance <= _CONCLUSIVE:
            raise ProofError(
                f"the layout cannot be proved: a change of {_NUDGE[dtype]:.0e} of the weights changes the outputs of "
                f"this network by {noise:.1e}; pass example inputs on which it is less sensitive, or proof=False"
            )
        return _Bench(model, states, outputs, cast, tolerance)
    raise AssertionError("unreachable: the last precision raises")


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _disturbed(state: Mapping[str, Tensor], rng: np.random.Generator, amount: float) -> dict[str, Tensor]:
    """A state without equal numbers, changed by about that amount; what was positive stays positive.

    Every axis has its own random factors and shifts: cheap for large tensors, and no two positions stay alike.
    """
    return {
        name: _shaken(tensor, rng, amount) if tensor.is_floating_point() and tensor.numel() else tensor
        for name, tensor in state.items()
    }


def _shaken(tensor: Tensor, rng: np.random.Generator, amount: float) -> Tensor:
    spread = float(tensor.std()) if tensor.numel() > 1 else float(tensor.abs().mean())
    positive = bool((tensor >= 0).all())
    result = tensor.clone()
    for axis, length in enumerate(tensor.shape):
        view = [-1 if axis == other else 1 for other in range(tensor.dim())]
        factor, shift = (torch.from_numpy(rng.standard_normal(length)).to(tensor).view(view) for _ in range(2))
        shift = shift * amount / 2 * (spread or 1.0)
        result.mul_(torch.exp(amount * factor)).add_(shift.abs() if positive else shift)
    return result


def _change(bench: _Bench, layout: Layout, actions: Mapping[str, Action]) -> float:
    """By how much outputs change, in the worse of the states."""
    return max(
        _distance(before, run(bench.model, permute(state, layout, actions), bench.inputs))
        for state, before in zip(bench.states, bench.outputs, strict=True)
    )


def _distance(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    """The largest difference of outputs, relative to the largest value of each."""
    return max((_difference(a, b) for a, b in zip(before, after, strict=True)), default=0.0)


def _difference(before: Tensor, after: Tensor) -> float:
    if before.shape != after.shape:
        return float("inf")
    if before.numel() == 0:
        return 0.0
    a, b = before.detach(), after.detach()
    if not (a.is_floating_point() or a.is_complex()):
        return float((a != b).any())
    same = (a == b) | (a.isnan() & b.isnan())
    gap = torch.where(same, torch.zeros_like(a.abs()), (a - b).abs())
    finite = a.abs()[a.isfinite()]
    size = float(finite.max()) if finite.numel() else 0.0
    return float(gap.nan_to_num(nan=float("inf")).max()) / max(size, 1e-6)  # below: rounding around zero
