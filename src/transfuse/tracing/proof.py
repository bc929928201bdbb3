"""The proof: moving units at random, by the layout, leaves what the network computes as it was.

It runs on the network's own weights and on disturbed ones, in which no two numbers are equal (a norm whose weights are
all one would hide that they must move). In float64 where the network can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import ProofError, listing
from ..layout import Action, Layout, permute, random_actions
from .recording import Arguments, run

_TOLERANCE = {torch.float64: 1e-7, torch.float32: 2e-3}


@dataclass(frozen=True)
class _Bench:
    """A network with states to try and inputs, all in one precision."""

    model: nn.Module
    states: tuple[dict[str, Tensor], ...]
    inputs: Arguments
    dtype: torch.dtype


def prove(model: nn.Module, state: Mapping[str, Tensor], inputs: Arguments, layout: Layout, *, seed: int = 0) -> None:
    """Move units at random by the layout and compare the outputs.

    Raises:
        ProofError: naming the spaces whose units cannot be moved as the layout says, and by how much outputs differ.
    """
    rng = np.random.default_rng(seed)
    bench = _bench(model, state, inputs, rng)
    actions = random_actions(layout, layout.widths(state), rng)
    if not actions or max(_change(bench, layout, actions)) <= _TOLERANCE[bench.dtype]:
        return
    blamed = []
    for name, action in actions.items():
        change = max(_change(bench, layout, {name: action}))
        if change > _TOLERANCE[bench.dtype]:
            still = Action(action.order)
            kind = "moved" if max(_change(bench, layout, {name: still})) > _TOLERANCE[bench.dtype] else "negated or scaled"
            blamed.append(f"space {name}: outputs change by {change:.2g} (relative) when its units are {kind}")
    raise ProofError(
        listing("the layout does not describe this network:", blamed or ["all spaces together"])
        + "\nA rule for one of its operations is wrong, or the layout was edited: correct it, or fix these spaces"
    )


def _bench(model: nn.Module, state: Mapping[str, Tensor], inputs: Arguments, rng: np.random.Generator) -> _Bench:
    """The highest precision in which the network runs."""
    for dtype in (torch.float64, torch.float32):
        own = {name: _cast(tensor.detach(), dtype) for name, tensor in state.items()}
        cast = inputs.map(lambda tensor, dtype=dtype: _cast(tensor, dtype))
        try:
            run(model, own, cast)
        except Exception:
            if dtype is torch.float32:
                raise
            continue
        return _Bench(model, (own, _disturbed(own, rng)), cast, dtype)
    raise AssertionError("unreachable: the last precision raises")


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _disturbed(state: Mapping[str, Tensor], rng: np.random.Generator) -> dict[str, Tensor]:
    """A state without equal numbers, of about the same size; what was positive stays positive."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    result = {}
    for name, tensor in state.items():
        if not tensor.is_floating_point() or tensor.numel() == 0:
            result[name] = tensor
            continue
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor)
        spread = tensor.std() if tensor.numel() > 1 else tensor.abs().mean()
        shift = 0.1 * (spread if float(spread) > 0 else torch.ones_like(spread)) * noise
        grown = tensor * torch.exp(0.2 * noise.flip(0))
        result[name] = grown + (shift.abs() if bool((tensor >= 0).all()) else shift)
    return result


def _change(bench: _Bench, layout: Layout, actions: Mapping[str, Action]) -> list[float]:
    """By how much outputs change, for each state: the largest difference relative to the largest value."""
    changes = []
    for state in bench.states:
        before = run(bench.model, state, bench.inputs)
        after = run(bench.model, permute(state, layout, actions), bench.inputs)
        changes.append(max(_difference(a, b) for a, b in zip(before, after, strict=True)))
    return changes


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
    return float(gap.nan_to_num(nan=float("inf")).max()) / max(size, 1e-12)
