"""Synthetic inputs for a fusion: how many are made, whether they are inverted, and what they are for.

In: networks and example inputs. Out: `Batches`, or why there are none. How inputs are drawn stands in `noise`, how
they are inverted in `inversion`. Not here: the corrections that they serve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ..activations import Batches, observe
from ..arguments import NETWORKS, SEED, check_arguments, count, optional
from ..errors import InputError
from ..modules import Arguments, cause_of, is_half, numbers_in, tensors_in, undisturbed, unwrapped
from ..progress import Progress, watching
from .inversion import INVERSION_STEPS, Inverted, inverted_inputs
from .noise import drawn_inputs

# How many samples are made, by whether networks convolve: a convolution sees many places of each sample.
SAMPLES = {True: 200, False: 500}
FEWEST = 50  # samples: fewer of them are not worth inverting
EFFORT = {"cpu": 2e13}  # floating-point operations that inverting may take, by device: minutes
EFFORT_ELSEWHERE = 2e15  # the same on devices that are not listed, which are faster

WITHOUT = "no correction by synthetic inputs: {cause}"  # the fusion itself goes on: it does not need them
ONLY_INVERTED = (
    "networks with convolutions are corrected by synthetic inputs only if they see classes in them, since inputs "
    "that are merely drawn harm them, and here {why}; pass data=, inputs without labels, or ask for a correction by "
    "its name"
)
TOO_LONG = (
    "it would take too long to invert as few as {fewest} samples (more than {effort:.0e} floating-point operations; "
    "data=transfuse.synthetic_inputs(models, example_inputs) takes as long as it takes)"
)


def synthetic_inputs(
    models: Sequence[nn.Module], example_inputs: Any, *, samples: int | None = None, seed: int = 0
) -> Batches:
    """Inputs like the example, made without data, for networks of one architecture: to be passed as `data`.

    They are drawn at random. Where the networks tell classes apart, they are inverted too: moved until the networks see
    every class in turn (as in DeepInversion, Yin et al. 2020, arXiv:1912.08795), however long it takes.

    Args:
        models: The networks; the covariance of what is drawn comes from their first weights.
        example_inputs: A tensor, a tuple of positional arguments, or a dict of keyword arguments.
        samples: How many; default: 200 for networks with convolutions, 500 for others.
        seed: Seed of the random numbers.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        >>> synthetic_inputs([net], torch.randn(2, 3)).count
        5
    """
    check_arguments(models=(models, NETWORKS), samples=(samples, optional(count(1))), seed=(seed, SEED))
    if not len(models):
        raise InputError("models is empty; expected a list of one or more torch.nn.Module: [a, b]")
    models, example = [unwrapped(model) for model in models], Arguments.of(example_inputs)
    with undisturbed(*models):
        drawn = drawn_inputs(models, example, samples=samples or SAMPLES[_convolves(models[0], example)], seed=seed)
        return inverted_inputs(models, drawn).batches or drawn


@dataclass(frozen=True)
class Budget:
    """How many synthetic inputs a fusion makes, and whether it can afford to invert them.

    Args:
        samples: How many.
        inverted: Whether they are inverted; not so if that would take too long.
        convolutions: Whether the networks have some: inputs that are not inverted are of no use to them.
    """

    samples: int
    inverted: bool
    convolutions: bool

    @staticmethod
    def of(model: nn.Module, example: Arguments, *, models: int) -> Budget:
        """The budget for a number of networks like this one.

        Operations are counted, not seconds, so that every machine makes the same inputs.
        """
        convolutions = _convolves(model, example)
        affordable = int(_effort(model) / (models * _operations(model, example)))
        samples = min(SAMPLES[convolutions], affordable)
        inverted = samples >= FEWEST
        return Budget(samples if inverted else SAMPLES[convolutions], inverted, convolutions)


def _effort(model: nn.Module) -> float:
    """Floating-point operations that inverting may take on the device of a network."""
    device = next((tensor.device.type for tensor in model.parameters()), "cpu")
    return EFFORT.get(device, EFFORT_ELSEWHERE)


def _operations(model: nn.Module, example: Arguments) -> float:
    """Floating-point operations of inverting one sample: in each step a run of a network, and twice that backwards."""
    first = next((each for each in tensors_in((example.args, dict(example.kwargs))) if each.dim()), None)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*example.args, **example.kwargs)
    each: float = max(counter.get_total_flops(), 1) / (len(first) if first is not None else 1)
    return 3 * INVERSION_STEPS * each


@dataclass(frozen=True, eq=False)
class SyntheticInputs:
    """Synthetic inputs of a fusion, in place of data or beside it.

    Args:
        batches: The inputs, if there are any.
        why_not: Why there are none, for the user to read.
        matches: Units are matched by them too. That was found to pay for convolutions, and to make no difference for
            other networks.
    """

    batches: Batches | None = None
    why_not: str = ""
    matches: bool = False

    @staticmethod
    def of(
        models: Sequence[nn.Module], example: Arguments | None, *, plain: bool, data: bool, seed: int,
        progress: Progress = False,
    ) -> SyntheticInputs:  # fmt: skip
        """Synthetic inputs for networks of one architecture, or why there are none.

        Args:
            models: The networks.
            example: What the inputs shall be like; none: there are no such inputs.
            plain: Networks with convolutions get inputs that are not inverted too, if there are no others.
            data: Whether there is data.
            seed: Seed of the random numbers.
            progress: Who is told how far it is.
        """
        if example is None or is_half(models[0]):
            return SyntheticInputs()
        with undisturbed(*models):
            try:
                budget = Budget.of(models[0], example, models=len(models))
                if budget.convolutions and data:
                    return SyntheticInputs()  # beside data they were not found to help
                drawn = drawn_inputs(models, example, samples=budget.samples, seed=seed)
            except Exception as error:  # the networks' own code runs here, and may raise anything: it is told
                return SyntheticInputs(why_not=WITHOUT.format(cause=cause_of(error)))
            inverted = Inverted(why_not=TOO_LONG.format(fewest=FEWEST, effort=_effort(models[0])))
            if budget.inverted:
                with watching(progress, "inputs") as watch:
                    inverted = inverted_inputs(models, drawn, watch)
            if budget.convolutions and inverted.batches is None and not plain:
                return SyntheticInputs(why_not=ONLY_INVERTED.format(why=inverted.why_not))
            batches = inverted.batches or drawn
            why_not = _unusable(models, batches)
        return SyntheticInputs(
            None if why_not else batches, why_not, matches=budget.convolutions and inverted.batches is not None
        )


def _unusable(models: Sequence[nn.Module], batches: Batches) -> str:
    """Why networks give no numbers on inputs; empty if they do."""
    try:
        for batch in batches:
            for model in models:
                numbers_in(batch.run(model))
    except InputError as error:  # whatever a network raises comes as one
        return WITHOUT.format(cause=error)
    return ""


def _convolves(model: nn.Module, example: Arguments) -> bool:
    """Whether a network has convolutions."""
    return any(seen.kernel for seen in observe(model, lambda each: each(*example.args, **example.kwargs)))
