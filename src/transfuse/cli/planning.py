"""What a fusion will take, before it is done: sizes, time and memory. The estimates are rough, and meant to be."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

import torch
from torch import nn

from ..checkpoints import size_told
from ..lazy import entries_of
from ..methods import Method
from ..modules import Arguments, undisturbed
from ..synthetic import INVERSION_STEPS
from ..synthetic.budget import Budget
from .working import Job

# As measured on one core of a common machine; an estimate needs no more than the order of magnitude.
ASSIGNMENT = 1.5e-11  # seconds per cubed number of units: an exact assignment is cubic
TOUCHED = 12  # times that a tensor is copied, carried or compared in one pass
MEMORY_SPEED = 1.5e9  # bytes per second of such copies
_BATCH = 16  # samples at a time when the network is timed: enough to see what one more costs


def estimate(job: Job, method: Method, out_bytes: int, *, low_memory: bool, correct: bool = False) -> dict[str, Any]:
    """Seconds and bytes that a fusion will roughly take, with a correction by synthetic inputs if there is one."""
    entries = entries_of(job.like.tensors)
    inputs = sum(checkpoint.bytes for checkpoint in job.checkpoints)
    working = sum(
        max(4, entry.dtype.itemsize) * torch.Size(entry.shape).numel()
        for checkpoint in job.checkpoints
        for entry in entries_of(checkpoint.tensors).values()
    )
    widths = job.widths(job.like.tensors)
    operations = sum(
        2.0 * torch.Size(entries[tensor].shape).numel() * widths[space]
        for tensor, axes in job.layout.tensors.items()
        for axis in axes
        for space in axis.spaces
    )
    others = max(len(job.checkpoints) - 1, 1)
    passes = method.passes * others
    one_pass = (
        operations / _speed()
        + TOUCHED * working / MEMORY_SPEED
        + ASSIGNMENT * sum(width**3 for width in widths.values())
    )
    largest = max((entry.bytes for entry in entries.values()), default=0)
    kept = 0 if low_memory else working
    return {
        "input_bytes": inputs,
        "output_bytes": out_bytes,
        "seconds": round(
            passes * one_pass + 3 * inputs / MEMORY_SPEED + (_correcting(job) if correct and job.build else 0.0), 1
        ),
        "memory_bytes": int(_peak() + kept + out_bytes + 6 * largest),
        "widths": widths,
    }


def _correcting(job: Job) -> float:
    """Seconds of inverting synthetic inputs and of a refit by them: a number of runs of all networks, forth or back."""
    model, inputs = cast("Callable[[], nn.Module]", job.build)(), Arguments.of(job.inputs)
    with undisturbed(model):
        budget = Budget.of(model, inputs, models=len(job.checkpoints))
        if budget.convolutions and not budget.inverted:
            return 0.0
        layers = sum(tensor.dim() > 1 for tensor in model.parameters())
        runs = layers + (3 * INVERSION_STEPS if budget.inverted else 0)
        return (budget.images or budget.samples) * len(job.checkpoints) * runs * _seconds_of_a_run(model, inputs)


def _seconds_of_a_run(model: nn.Module, inputs: Arguments) -> float:
    """Seconds that the network takes for one sample, in a batch if it takes a larger one than the example."""
    first, *others = (*inputs.args, *inputs.kwargs.values())
    if not isinstance(first, torch.Tensor) or not first.dim():
        return _seconds(model, inputs)
    if not others:
        batch = torch.cat([first] * -(-_BATCH // len(first)))
        larger = Arguments((batch,) if inputs.args else (), dict.fromkeys(inputs.kwargs, batch))
        # a network that is made for one size of batch says so by one of these; the example is timed then
        with suppress(RuntimeError, ValueError, IndexError, AssertionError):
            return _seconds(model, larger) / len(batch)
    return _seconds(model, inputs) / len(first)


def _seconds(model: nn.Module, inputs: Arguments) -> float:
    """CPU seconds of one run of a network; the first one is not counted, for it prepares things."""
    with torch.no_grad():
        model(*inputs.args, **inputs.kwargs)
        started = time.process_time()
        model(*inputs.args, **inputs.kwargs)
    return time.process_time() - started


def _peak() -> float:
    """The most memory that this process has had: the interpreter, and what tracing and its proof took."""
    try:
        import resource
    except ImportError:  # Windows
        return 300e6
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _speed() -> float:
    """Floating-point operations per second of a product of matrices here."""
    a = torch.randn(384, 384)
    a @ a
    started = time.perf_counter()
    for _ in range(4):
        a @ a
    return 4 * 2 * 384**3 / (time.perf_counter() - started)


def told_plan(plan: Mapping[str, Any]) -> str:
    """An estimate in a few lines of text."""
    spaces = ", ".join(f"{name} {width}" for name, width in plan["widths"].items()) or "none"
    minutes = plan["seconds"] / 60
    took = f"{minutes:.0f} min" if minutes > 2 else f"{max(plan['seconds'], 1):.0f} s"
    return (
        f"spaces: {spaces}\n"
        f"sizes:  {size_told(plan['input_bytes'])} in, {size_told(plan['output_bytes'])} out\n"
        f"takes roughly {took} and {size_told(plan['memory_bytes'])} of memory"
    )
