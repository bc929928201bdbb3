"""Runs that hold a fusion to the networks it was made of: what is outside their states is the same, or it is an error.

A fused network is the first model with another state. That is right only if the first model, given the state of any
other one, computes what that one does; and an aligned network only if it computes what its model does. Both are tried
on example inputs of which half are disturbed: three passes for each model but the first, two for the first, and one
less where an aligned network has the very state of its model. What is compared, and how, is in `trials`.

In: modules and arguments. Out: a `Check`, or an error that says which model, by how much, and what differs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from ..errors import InputError, ProofError, listing
from ..modules import Arguments, first_line, model_state, undisturbed, with_state
from .comparing import differences
from .trials import Passes, Witness, tried

NOT_RUN = "nothing was run: what models have outside their states (activations, attributes, buffers) was not compared"
SAME = 3.0  # tremors by which outputs of one code may differ: mostly they are equal to the last bit
# Tremors by which outputs may differ if units stand in another order and scale, so that sums are rounded anew; 0.7 is
# the most that was seen.
ALIGNED = 30.0


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
class Verified:
    """Models that are alike outside their states, with what they gave: aligned networks are held to that later."""

    models: Sequence[nn.Module] = ()
    trials: Sequence[Witness | None] = ()  # none of a model that cannot be checked
    check: Check = field(default_factory=Check)
    passes: Passes = field(default_factory=Passes)

    def held_to(self, aligned: Sequence[nn.Module | None]) -> Check:
        """The check, after networks in the common order were run too; those that merge units are left out.

        Raises:
            ProofError: an aligned network does not compute what its model does.
        """
        if not self.trials:
            return self.check
        started = time.perf_counter()
        found = [self._held(number, network) for number, network in enumerate(aligned, start=1)]
        notes = filter(None, [self.check.note, *(note for _, note in found)])
        return replace(
            self.check, aligned=tuple(share for share, _ in found), passes=self.passes.count,
            seconds=self.check.seconds + time.perf_counter() - started, note="; ".join(notes),
        )  # fmt: skip

    def _held(self, number: int, network: nn.Module | None) -> tuple[float | None, str]:
        """By which share the outputs of an aligned network differ from its model's; nothing, and why, if it is unknown.

        A copy of a model that has its very state computes the same, so it is not run.
        """
        model, trial = self.models[number - 1], self.trials[number - 1]
        if network is None or trial is None:
            return None, ""
        if _same_state(model, network):
            return 0.0, ""
        with undisturbed(network, briefly=True):
            excess, share = trial.distance(self.passes(network, model_state(network), trial.inputs), ALIGNED)
        if excess <= ALIGNED:
            return share, ""
        if trial.objection:
            return None, f"model {number} cannot be checked: {trial.objection}"
        raise ProofError(
            f"model {number} in the common order computes something else: outputs differ by {share:.2g} (relative). "
            "The layout does not hold for this model: its forward pass takes another way than that of the model that "
            "was traced, or the layout was written by hand. Correct the layout or fix its spaces; check=False leaves "
            "out this check"
        )


def _same_state(model: nn.Module, network: nn.Module) -> bool:
    """Whether a copy of a model has the same tensors, to the last bit."""
    own, other = model_state(model), model_state(network)
    return own.keys() == other.keys() and all(torch.equal(own[name], other[name]) for name in own)


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
    passes = Passes()
    notes: list[str] = []
    with undisturbed(*models, briefly=True):
        # The first model runs by itself before it gets other states: what it keeps at its first call is its own then.
        trials: list[Witness | None] = [_tried(models[0], inputs, 1, passes)]
        for number, model in enumerate(models[1:], start=2):
            trial = _tried(model, inputs, number, passes)
            note, checked = _compared(models[0], trial, number)
            notes += [note] if note else []
            trials.append(trial if checked else None)
    check = Check((), passes.count, time.perf_counter() - started, "; ".join(notes))
    return Verified(models, trials, check, passes)


def _unrun(models: Sequence[nn.Module]) -> str:
    """That nothing was run, and what differs."""
    found = [text for number, each in enumerate(models[1:], start=2)
             for text in differences(models[0], each, ("model 1", f"model {number}"))]  # fmt: skip
    return "no example inputs, so " + NOT_RUN + "".join(f"; {text}" for text in found[:1])


def _tried(model: nn.Module, inputs: Arguments, number: int, passes: Passes) -> Witness:
    """What a model gives for the example inputs.

    Raises:
        InputError: it does not run on them.
    """
    try:
        return tried(model, inputs, passes)
    except Exception as error:  # the model's own code runs here, and may raise anything
        raise InputError(
            f"model {number} ({type(model).__name__}) does not run on the example inputs: {first_line(error)}. "
            "Models of one architecture take the same inputs; check=False leaves out this check"
        ) from error


def _compared(first: nn.Module, trial: Witness, number: int) -> tuple[str, bool]:
    """What could not be compared of the first model with the state of another one, and whether that one can be at all.

    Raises:
        InputError: the first model computes something else with that state.
    """
    model, state, own = trial.model, model_state(trial.model), model_state(first)
    if any(own[name].shape != tensor.shape for name, tensor in state.items() if name in own):
        try:
            first = with_state(first, {name: tensor.detach() for name, tensor in state.items()}).eval()
            found = trial.run(first, model_state(first), trial.inputs)
        except Exception as error:  # layers that cannot be rebuilt, or a forward pass in which sizes stand
            return f"model {number} has other widths, in which model 1 cannot be run ({first_line(error)})", True
    else:
        try:
            found = trial.run(first, state, trial.inputs)
        except Exception as error:  # the model's own code runs here, and may raise anything
            raise InputError(_unlike(first, model, number, f"it raises {first_line(error)}")) from error
    excess, share = trial.distance(found, SAME)
    if excess <= SAME:
        return "", True
    if trial.objection:
        return f"model {number} cannot be checked: {trial.objection}", False
    raise InputError(_unlike(first, model, number, f"the outputs differ by {share:.2g} (relative)"))


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
