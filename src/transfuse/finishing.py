"""What data adds to a fusion: activations to match units by, and a correction of the result; by noise if there is none.

In: modules, batches or example inputs. Out: terms of the objective; a corrected network and what was done to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import nn

from .activations import Batches, Terms, activation_terms, watch
from .activations import synthetic as noise
from .errors import InputError
from .layout import Layout
from .progress import Progress, watching
from .recalibration import CORRECTIONS, NONE, Recalibration, Start, best_of, candidates, numbers_in
from .tracing.recording import Arguments, undisturbed

TermsName = Literal["weights", "activations", "both"]


@dataclass(frozen=True, eq=False)
class Activations:
    """Activations to match units by, beside the weights or instead of them."""

    terms: Terms
    weights: bool


def seen_activations(
    models: Sequence[nn.Module], layout: Layout, batches: Batches | None, terms: str
) -> Activations | None:
    """Activations of models on data, if they count.

    Raises:
        InputError: there is no data, or no such kind of terms.
    """
    if terms not in get_args(TermsName):
        raise InputError(f"terms is {terms!r}; expected one of {', '.join(get_args(TermsName))}")
    if terms == "weights":
        return None
    if batches is None:
        raise InputError(f"terms is {terms!r}, but there is no data to see activations on; pass data=")
    with _evaluated(models):
        return Activations(activation_terms(models, layout, batches), weights=terms == "both")


def synthetic_inputs(models: Sequence[nn.Module], example_inputs: Any, *, samples: int = 500, seed: int = 0) -> Batches:
    """Inputs made of noise, like the example, for networks of one architecture: to be passed as `data`.

    Args:
        models: The networks; the covariance of the noise comes from their first weights.
        example_inputs: A tensor, a tuple of positional arguments, or a dict of keyword arguments.
        samples: How many.
        seed: For the noise.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        >>> synthetic_inputs([net], torch.randn(2, 3)).count
        5
    """
    with _evaluated(models):
        return noise(models, Arguments.of(example_inputs), samples=samples, seed=seed)


@dataclass(frozen=True, eq=False)
class Finish:
    """How a fusion ends.

    Args:
        method: A row of `CORRECTIONS`, `auto` or `none`.
        data: Inputs without labels.
        example: Inputs that noise shall be like: in place of data, and beside it.
        seed: For the noise.
        progress: Who is told how far it is.
    """

    method: str
    data: Batches | None
    example: Arguments | None
    seed: int
    progress: Progress = False

    def __post_init__(self) -> None:
        """Refuse what is not there."""
        if self.method not in ("auto", NONE, *CORRECTIONS):
            raise InputError(f"finish is {self.method!r}; expected auto, none, {', '.join(CORRECTIONS)}")
        if self.method in CORRECTIONS and self.data is None and self.example is None:
            raise InputError(f"finish is {self.method!r}, but there are no inputs; pass data= or example_inputs")


def finished(
    finish: Finish,
    fused: nn.Module,
    aligned: Sequence[nn.Module],
    weights: Sequence[float],
    models: Sequence[nn.Module],
) -> tuple[nn.Module, Recalibration]:
    """The fused network, corrected, and what was done to it.

    Args:
        finish: How.
        fused: The network.
        aligned: Its parents in the common order.
        weights: Their proportions.
        models: Its parents as they were given.
    """
    if finish.method == NONE or (finish.data is None and finish.example is None):
        return fused, Recalibration(NONE)
    if obstacle := _obstacle(fused, len(models)):
        return fused, Recalibration(NONE, note=obstacle)
    drawn, why_not = _noise(finish, aligned)
    if finish.data is not None:
        return _corrected(finish, Start(fused, aligned, weights, finish.data, noise=drawn), models)
    if drawn is None:
        return fused, Recalibration(NONE, note=why_not)
    try:
        result, done = _corrected(finish, Start(fused, aligned, weights, drawn), models)
    except Exception as error:  # the fusion itself stands, whatever noise does to a network
        return fused, Recalibration(NONE, note=f"no correction by noise: {error}")
    return result, replace(done, note="; ".join(filter(None, ["judged by inputs made of noise", done.note])))


def _noise(finish: Finish, aligned: Sequence[nn.Module]) -> tuple[Batches | None, str]:
    """Inputs made of noise, or why there are none."""
    if finish.example is None:
        return None, "there are no inputs that noise could be like"
    try:
        with _evaluated(aligned):
            drawn = noise(aligned, finish.example, seed=finish.seed)
            if _convolves(aligned[0], drawn) and (finish.data or finish.method == "auto"):
                return None, "noise is no stand-in for images: it was found to harm convolutions; pass data"
    except Exception as error:
        return None, f"no correction by noise: {error}"
    return drawn, ""


def _obstacle(fused: nn.Module, models: int) -> str:
    """Why a network cannot be corrected; nothing if it can."""
    if models == 1:
        return "one model has no mean to come nearer to"
    if any(tensor.dtype in (torch.float16, torch.bfloat16) for tensor in fused.parameters()):
        return "corrections are made in float32 and float64 only"
    return ""


def _corrected(finish: Finish, start: Start, models: Sequence[nn.Module]) -> tuple[nn.Module, Recalibration]:
    """The network with the correction that was asked for, or the best."""
    with _evaluated([*models, *start.parents]):
        same = _same_function(models, start.parents, start.batches)
    if not same:
        note = "units were merged, so the aligned networks do not compute what the models do"
        return start.model, Recalibration(NONE, note=note)
    forced = finish.method in CORRECTIONS
    rows = [finish.method] if forced else candidates(start.model, data=finish.data is not None)
    with watching(finish.progress, "finish") as watcher:
        return best_of(rows, start, watcher, forced=forced)


@contextmanager
def _evaluated(models: Sequence[nn.Module]) -> Iterator[None]:
    """Models in evaluation mode, as they were afterwards."""
    with ExitStack() as stack:
        for model in models:
            stack.enter_context(undisturbed(model))
        yield


def _convolves(model: nn.Module, batches: Batches) -> bool:
    """Whether a network has convolutions."""
    return any(seen.kernel for seen in watch(model, next(iter(batches)).run))


def _same_function(models: Sequence[nn.Module], aligned: Sequence[nn.Module], batches: Batches) -> bool:
    """Whether the aligned networks compute what the models do: not so where units were merged."""
    batch = next(iter(batches))
    for model, twin in zip(models, aligned, strict=True):
        one, other = (numbers_in(batch.run(each)) for each in (model, twin))
        if one.shape != other.shape or float((one - other).abs().max()) > 1e-2 * float(one.abs().max()):
            return False
    return True
