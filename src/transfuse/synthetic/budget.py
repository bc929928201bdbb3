"""Inputs made of noise, in place of data or beside it: drawn like an example, and moved until networks see classes.

In: networks and example inputs. Out: `Batches`, or why there are none. The drawing and the moving are in `activations`;
here it is decided how many, whether, and what for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ..activations import Batches, observe
from ..corrections import NONE, numbers_in
from ..modules.running import Arguments, tensors_in, undisturbed
from ..progress import Progress, watching
from .inversion import STEPS as INVERSION_STEPS
from .inversion import inverted_inputs
from .noise import drawn_inputs

NO_CLASSES = (
    "noise in which no classes are seen harms convolutions: there are none, or it would take long to make networks see "
    "them; pass data, or transfuse.synthetic_inputs(models, example_inputs) as data, however long it takes"
)
SAMPLES = {True: 200, False: 500}  # of noise, for networks with convolutions, which see many places of each, and others
FEWEST = 50  # samples of noise that are worth moving
EFFORT = {"cpu": 2e13}  # floating-point operations that moving noise may take: minutes
MORE_EFFORT = 2e15  # on other devices


def synthetic_inputs(
    models: Sequence[nn.Module], example_inputs: Any, *, samples: int | None = None, seed: int = 0
) -> Batches:
    """Inputs made of noise, like the example, for networks of one architecture: to be passed as `data`.

    Where the networks tell classes apart, noise is moved until they see every class in turn, however long it takes.

    Args:
        models: The networks; the covariance of the noise comes from their first weights.
        example_inputs: A tensor, a tuple of positional arguments, or a dict of keyword arguments.
        samples: How many; default: 200 for networks with convolutions, 500 for others.
        seed: For the noise.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        >>> synthetic_inputs([net], torch.randn(2, 3)).count
        5
    """
    example = Arguments.of(example_inputs)
    with evaluated(models):
        drawn = drawn_inputs(models, example, samples=samples or SAMPLES[_convolves(models[0], example)], seed=seed)
        return inverted_inputs(models, drawn) or drawn


@dataclass(frozen=True)
class Budget:
    """How much noise a fusion makes.

    Args:
        samples: How many.
        moved: Whether they are moved until networks see classes in them. If that would take too long, they are not.
        convolutions: Whether the networks have some: then noise that is not moved is of no use.
    """

    samples: int
    moved: bool
    convolutions: bool

    @staticmethod
    def of(model: nn.Module, example: Arguments, *, models: int) -> Budget:
        """For so many networks like this one. Operations count, not time: results do not depend on the machine."""
        convolutions = _convolves(model, example)
        device = next((tensor.device.type for tensor in model.parameters()), "cpu")
        affordable = int(EFFORT.get(device, MORE_EFFORT) / (models * _operations(model, example)))
        samples = min(SAMPLES[convolutions], affordable)
        moved = samples >= FEWEST
        return Budget(samples if moved else SAMPLES[convolutions], moved, convolutions)


def _operations(model: nn.Module, example: Arguments) -> float:
    """Floating-point operations of moving one sample: so many runs of a network, forth and twice that back."""
    first = next((each for each in tensors_in((example.args, dict(example.kwargs))) if each.dim()), None)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*example.args, **example.kwargs)
    each: float = max(counter.get_total_flops(), 1) / (len(first) if first is not None else 1)
    return 3 * INVERSION_STEPS * each


@dataclass(frozen=True, eq=False)
class SyntheticInputs:
    """Inputs made of noise, in place of data or beside it.

    Args:
        batches: The inputs, if there are any.
        why_not: Why there are none.
        matches: Units are matched by them too. Found to pay for convolutions, and to make no difference for others.
    """

    batches: Batches | None = None
    why_not: str = ""
    matches: bool = False

    @staticmethod
    def of(
        models: Sequence[nn.Module], example: Arguments | None, correct: str, *, data: bool, seed: int,
        progress: Progress = False,
    ) -> SyntheticInputs:  # fmt: skip
        """For networks of one architecture.

        Args:
            models: The networks.
            example: What the inputs shall be like; none: there are no such inputs.
            correct: The correction that is made.
            data: Whether there is data.
            seed: For the noise.
            progress: Who is told how far it is.
        """
        if example is None or correct == NONE or is_half(models[0]):
            return SyntheticInputs()
        try:
            with evaluated(models):
                budget = Budget.of(models[0], example, models=len(models))
                if budget.convolutions and data:
                    return SyntheticInputs()  # not found to help
                drawn = drawn_inputs(models, example, samples=budget.samples, seed=seed)
                with watching(progress, "inputs") as watcher:
                    inverted = inverted_inputs(models, drawn, watcher) if budget.moved else None
                if budget.convolutions and inverted is None and correct == "auto":
                    return SyntheticInputs(why_not=NO_CLASSES)
                batches = inverted or drawn
                for batch in batches:
                    for model in models:
                        numbers_in(batch.run(model))
        except Exception as error:  # the fusion itself stands, whatever noise does to a network
            return SyntheticInputs(why_not=f"no correction by noise: {error}")
        return SyntheticInputs(batches, matches=budget.convolutions and inverted is not None)


def is_half(model: nn.Module) -> bool:
    """Whether a network has numbers of half precision, in which no correction is made."""
    return any(tensor.dtype in (torch.float16, torch.bfloat16) for tensor in model.parameters())


@contextmanager
def evaluated(models: Sequence[nn.Module]) -> Iterator[None]:
    """Models in evaluation mode, as they were afterwards."""
    with ExitStack() as stack:
        for model in models:
            stack.enter_context(undisturbed(model))
        yield


def _convolves(model: nn.Module, example: Arguments) -> bool:
    """Whether a network has convolutions."""
    return any(seen.kernel for seen in observe(model, lambda each: each(*example.args, **example.kwargs)))
