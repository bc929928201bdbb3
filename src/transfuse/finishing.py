"""What data adds to a fusion: activations to match units by, and a correction of the result; by noise if there is none.

In: modules, batches or example inputs. Out: terms of the objective; a corrected network and what was done to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from .activations import Batches, Terms, activation_terms
from .activations import synthetic as noise
from .errors import InputError
from .layout import Layout
from .recalibration import CORRECTIONS, NONE, Recalibration, Start, best_of, candidates
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
    with ExitStack() as stack:
        for model in models:
            stack.enter_context(undisturbed(model))
        return Activations(activation_terms(models, layout, batches), weights=terms == "both")


@dataclass(frozen=True, eq=False)
class Finish:
    """How a fusion ends.

    Args:
        method: A row of `CORRECTIONS`, `auto` or `none`.
        data: Inputs without labels.
        example: Inputs that noise shall be like, where there is no data.
        seed: For the noise.
    """

    method: str
    data: Batches | None
    example: Arguments | None
    seed: int

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
    if len(models) == 1:
        return fused, Recalibration(NONE, note="one model has no mean to come nearer to")
    if any(tensor.dtype in (torch.float16, torch.bfloat16) for tensor in fused.parameters()):
        return fused, Recalibration(NONE, note="corrections are made in float32 and float64 only")
    with ExitStack() as stack:
        for each in (*models, *aligned):
            stack.enter_context(undisturbed(each))
        batches = finish.data or noise(aligned, finish.example or Arguments(), seed=finish.seed)
        if not _same_function(models, aligned, batches):
            note = "units were merged, so the aligned networks do not compute what the models do"
            return fused, Recalibration(NONE, note=note)
    rows = [finish.method] if finish.method in CORRECTIONS else candidates(fused, data=finish.data is not None)
    result, done = best_of(rows, Start(fused, aligned, weights, batches), forced=finish.method in CORRECTIONS)
    return result, done if finish.data else replace(done, note="judged by inputs made of noise")


def _same_function(models: Sequence[nn.Module], aligned: Sequence[nn.Module], batches: Batches) -> bool:
    """Whether the aligned networks compute what the models do: not so where units were merged."""
    batch = next(iter(batches))
    for model, twin in zip(models, aligned, strict=True):
        one, other = (
            [leaf for leaf in pytree.tree_leaves(batch.run(each)) if isinstance(leaf, Tensor)] for each in (model, twin)
        )
        if not all(
            torch.allclose(a, b, rtol=1e-2, atol=1e-2 * float(a.abs().max())) for a, b in zip(one, other, strict=True)
        ):
            return False
    return True
