"""Runs that hold a fusion to the networks it was made of: what is outside their states is the same, or it is an error.

A fused network is the first model with another state. That is right only if the first model, given the state of any
other one, computes what that one does; and an aligned network only if it computes what its model does. Both are tried
on the example inputs and on disturbed ones, and compared with what a tiny change of the weights does to the outputs.

In: modules and arguments. Out: a `Check`, or an error that says which model, by how much, and what differs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from ..errors import InputError, ProofError, listing
from ..modules import Arguments, first_line, model_state, run, undisturbed, with_state
from ..types import State
from .comparing import differences

NOT_RUN = "nothing was run: what models have outside their states (activations, attributes, buffers) was not compared"
# A change of weights, by their type: a few roundings, so that what it does to outputs is what rounding may do.
NUDGE = {torch.float64: 1e-8, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
DISTURBANCE = 0.2  # of inputs, in their standard deviations: other branches and other units answer
SAME = 3.0  # by how many times that much outputs of one code may differ: mostly they are equal to the last bit
# By how many times that much outputs may differ if units stand in another order and scale, so that sums are rounded
# anew; 0.7 is the most that was seen.
ALIGNED = 30.0
CONCLUSIVE = 0.1  # where rounding alone changes outputs by a larger share than this, nothing can be told
FLIPS = 0.02  # share of whole numbers in an output (classes, positions) that may differ: ties are broken by rounding

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Check:
    """What was run to hold a fusion to its models.

    Args:
        aligned: For each model, by which share the outputs of its aligned network differ; nothing for a model that has
            other widths, or whose units were merged.
        passes: Forward passes that were made.
        seconds: How long they took.
        note: What was not run, and why; empty if everything was.
    """

    aligned: tuple[float | None, ...] = ()
    passes: int = 0
    seconds: float = 0.0
    note: str = NOT_RUN

    def __str__(self) -> str:
        """The runs and the largest difference, in one line."""
        if not self.passes:
            return self.note
        known = [each for each in self.aligned if each is not None]
        found = f"aligned networks compute what the models do, to {max(known):.1g}; " if known else ""
        return f"{found}{self.passes} forward passes in {self.seconds:.2g} s{'; ' if self.note else ''}{self.note}"


@dataclass(frozen=True, eq=False)
class Trial:
    """What a model gives for some inputs, and how much each output trembles if the weights do."""

    inputs: Arguments
    outputs: list[Tensor]
    noise: list[Tensor]


@dataclass(frozen=True, eq=False)
class Verified:
    """Models that are alike outside their states, with what they gave: aligned networks are held to that later."""

    trials: Sequence[Sequence[Trial]] = ()
    check: Check = field(default_factory=Check)

    def held_to(self, aligned: Sequence[nn.Module | None]) -> Check:
        """The check, after networks in the common order were run too; those that merge units are left out.

        Raises:
            ProofError: an aligned network does not compute what its model does.
        """
        started = time.perf_counter()
        pairs = list(zip(aligned, self.trials, strict=False))
        with undisturbed(*(network for network in aligned if network is not None)):
            shares = tuple(_held(number, *pair) for number, pair in enumerate(pairs, start=1))
        passes = sum(len(trials) for network, trials in pairs if network is not None)
        seconds = self.check.seconds + time.perf_counter() - started
        return replace(self.check, aligned=shares, passes=self.check.passes + passes, seconds=seconds)


def _held(number: int, network: nn.Module | None, trials: Sequence[Trial]) -> float | None:
    """By which share the outputs of an aligned network differ from its model's; nothing if it was not run.

    Raises:
        ProofError: it is too much for rounding.
    """
    if network is None or not trials:
        return None
    found = [_distance(trial, run(network, model_state(network), trial.inputs)) for trial in trials]
    excess, share = max(each[0] for each in found), max(each[1] for each in found)
    if excess > ALIGNED:
        raise ProofError(
            f"model {number} in the common order computes something else: outputs differ by {share:.2g} (relative). "
            "The layout does not hold for this model: its forward pass takes another way than that of the model that "
            "was traced, or the layout was written by hand. Correct the layout or fix its spaces; check=False leaves "
            "out this check"
        )
    return share


def verified(models: Sequence[nn.Module], inputs: Arguments | None) -> Verified:
    """Models, each of which the first one computes if it is given its state.

    Args:
        models: Of one architecture, of equal or different widths.
        inputs: On which all of them run; without, nothing is run, and what differs is only told.

    Raises:
        InputError: one differs from the first outside its state, and computes something else for that.
    """
    if inputs is None:
        return Verified(check=Check(note=_unrun(models)))
    started = time.perf_counter()
    every: list[list[Trial]] = []
    notes: list[str] = []
    with undisturbed(*models):
        tried = [inputs, *_disturbed(models[0], inputs)]
        for number, model in enumerate(models, start=1):
            every.append(_trials(model, tried, number))
            if noisy := _noisy(every[-1]):
                notes.append(f"model {number} cannot be checked: {noisy}")
                every[-1] = []
            elif number > 1 and (note := _compared(models[0], model, every[-1], number)):
                notes.append(note)
    # Each model on all inputs and once nudged, the first one with the states of the others, and on disturbed inputs.
    passes = len(models) * (len(tried) + 1) + (len(models) - 1) * len(tried) + 1
    return Verified(every, Check((), passes, time.perf_counter() - started, "; ".join(notes)))


def _unrun(models: Sequence[nn.Module]) -> str:
    """That nothing was run, and what differs."""
    found = [text for number, each in enumerate(models[1:], start=2)
             for text in differences(models[0], each, ("model 1", f"model {number}"))]  # fmt: skip
    return "no example inputs, so " + NOT_RUN + "".join(f"; {text}" for text in found[:1])


def _trials(model: nn.Module, tried: Sequence[Arguments], number: int) -> list[Trial]:
    """What a model gives for all inputs; its weights are nudged for the first of them, which the others are like."""
    state = model_state(model)
    found: list[Trial] = []
    for inputs in tried:
        try:
            outputs = run(model, state, inputs)
            others = [] if found else run(model, _nudged(state), inputs)
        except Exception as error:  # the model's own code runs here, and may raise anything
            raise InputError(
                f"model {number} ({type(model).__name__}) does not run on the example inputs: {first_line(error)}. "
                "Models of one architecture take the same inputs; check=False leaves out this check"
            ) from error
        noise = found[0].noise if found else [_tremor(a, b) for a, b in zip(outputs, others, strict=False)]
        found.append(Trial(inputs, outputs, noise))
    return found


def _compared(first: nn.Module, model: nn.Module, trials: Sequence[Trial], number: int) -> str:
    """Why the first model was not run with the state of another one; empty if it was, and they agree.

    Raises:
        InputError: they do not.
    """
    state, own = model_state(model), model_state(first)
    if any(own[name].shape != tensor.shape for name, tensor in state.items() if name in own):
        try:
            first = with_state(first, {name: tensor.detach() for name, tensor in state.items()}).eval()
            for trial in trials:
                run(first, model_state(first), trial.inputs)
        except Exception as error:  # layers that cannot be rebuilt, or a forward pass in which sizes stand
            return f"model {number} has other widths, in which model 1 cannot be run ({first_line(error)})"
        state = model_state(first)
    for trial in trials:
        try:
            excess, share = _distance(trial, run(first, state, trial.inputs))
        except Exception as error:  # the model's own code runs here, and may raise anything
            raise InputError(_unlike(first, model, number, f"it raises {first_line(error)}")) from error
        if excess > SAME:
            raise InputError(_unlike(first, model, number, f"the outputs differ by {share:.2g} (relative)"))
    return ""


def _unlike(first: nn.Module, model: nn.Module, number: int, what: str) -> str:
    """The message that a model differs from the first one outside its state, with what differs."""
    found = differences(first, model, ("model 1", f"model {number}"))
    return (
        listing(
            f"model {number} differs from model 1 outside its state: model 1 with the state of model {number} does not "
            f"compute what model {number} does: {what}. What differs, the first of it:",
            found or ["nothing that could be seen; look for what forward reads beside parameters and buffers"],
        )
        + "\nMake the models alike in this (or register what differs as a buffer); check=False leaves out this check"
    )


def _disturbed(model: nn.Module, inputs: Arguments) -> list[Arguments]:
    """Inputs near the example, within its range; none if nothing can be disturbed or the model does not take them."""
    random = torch.Generator().manual_seed(0)

    def shaken(tensor: Tensor) -> Tensor:
        """A tensor near another, within its range; whole numbers (tokens, masks) stay as they are."""
        if not tensor.is_floating_point() or not tensor.numel() or not bool(tensor.isfinite().all()):
            return tensor
        spread = float(tensor.float().std()) if tensor.numel() > 1 else 0.0
        noise = torch.randn(tensor.shape, generator=random).to(tensor)
        return (tensor + DISTURBANCE * (spread or 1.0) * noise).clamp(tensor.min(), tensor.max())

    other = inputs.map(shaken)
    try:
        found = run(model, model_state(model), other)
    except Exception as error:  # the model's own code runs here: it does not take them, so the example alone is tried
        _log.debug("%s takes no disturbed example inputs: %r", type(model).__name__, error)
        return []
    return [other] if all(bool(each.isfinite().all()) for each in found) else []


def _nudged(state: State) -> dict[str, Tensor]:
    """A state whose numbers are changed by a few roundings."""
    random = torch.Generator().manual_seed(0)

    def nudged(tensor: Tensor) -> Tensor:
        if tensor.dtype not in NUDGE:
            return tensor
        noise = torch.randn(tensor.shape[:1], generator=random).to(tensor).view(-1, *[1] * (tensor.dim() - 1))
        return tensor.detach() * (1 + NUDGE[tensor.dtype] * (noise if tensor.dim() else noise[0]))

    return {name: nudged(tensor) for name, tensor in state.items()}


def _noisy(trials: Sequence[Trial]) -> str:
    """Why nothing can be told from what a model gives; empty if something can."""
    for trial in trials:
        for output, noise in zip(trial.outputs, trial.noise, strict=False):
            size = float(_rows(output).nan_to_num(0, 0, 0).abs().max()) if output.numel() else 0.0
            if output.is_floating_point() and size and float(noise.median()) > CONCLUSIVE * size:
                return f"rounding of its weights changes its outputs by {float(noise.median()) / size:.1g}"
    return ""


def _rows(tensor: Tensor) -> Tensor:
    """An output as rows of columns, in float64: a column may be a million times as large as another."""
    flat = tensor.detach()
    flat = torch.view_as_real(flat).flatten(-2) if flat.is_complex() else flat
    return (flat.reshape(-1, flat.shape[-1]) if flat.dim() > 1 else flat.reshape(-1, 1)).double()


def _tremor(output: Tensor, nudged: Tensor) -> Tensor:
    """By how much each column of an output may differ by rounding alone."""
    if output.shape != nudged.shape or not output.numel():
        return torch.full((1,), torch.inf, dtype=torch.float64)
    one, other = (_rows(each).nan_to_num(0, 0, 0) for each in (output, nudged))
    found = (one - other).abs().amax(0)
    digits = torch.finfo(output.dtype).eps if output.is_floating_point() or output.is_complex() else 0.0
    # A column that happens not to move is taken to move as much as most others do.
    return torch.maximum(torch.maximum(found, found.median()), 8 * digits * one.abs().amax(0))


def _distance(trial: Trial, found: Sequence[Tensor]) -> tuple[float, float]:
    """How far outputs are from those of a trial: in tremors of the worst column, and as a share of their size."""
    if [tensor.shape for tensor in found] != [tensor.shape for tensor in trial.outputs]:
        return torch.inf, torch.inf
    parts = [_one_distance(*each) for each in zip(trial.outputs, found, trial.noise, strict=True) if each[0].numel()]
    return max((each[0] for each in parts), default=0.0), max((each[1] for each in parts), default=0.0)


def _one_distance(output: Tensor, found: Tensor, noise: Tensor) -> tuple[float, float]:
    """How far one output is from that of a trial: in tremors of the worst column, and as a share of its size."""
    one, other = _rows(output), _rows(found)
    if not (output.is_floating_point() or output.is_complex()):
        share = float((one != other).double().mean())
        return (torch.inf if share > max(FLIPS, 2 * float((noise > 0).double().mean())) else 0.0), share
    gap = torch.where((one == other) | (one.isnan() & other.isnan()), 0.0, (one - other).abs())
    gap = torch.where(one.isfinite(), gap.nan_to_num(nan=torch.inf), 0.0)  # what is no number need not be the same
    tiny = torch.finfo(torch.float32).tiny
    size = float(one.nan_to_num(0, 0, 0).square().sum().sqrt())
    return float((gap.amax(0) / noise.clamp_min(tiny)).max()), float(gap.square().sum().sqrt()) / max(size, tiny)
