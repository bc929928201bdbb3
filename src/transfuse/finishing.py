"""What data adds to a fusion: activations to match units by, and a correction of the result; by noise if there is none.

In: modules, batches or example inputs. Out: terms of the objective; a corrected network and what was done to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from .activations import Batches, Terms, activation_terms, watch
from .activations import synthetic as noise
from .barycenter import Coupling, Pair, carried
from .errors import InputError
from .layout import Layout, balanced
from .progress import Progress, watching
from .rebuilding import with_state
from .recalibration import CORRECTIONS, NONE, Recalibration, Start, best_of, candidates, norms_of, numbers_in
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

    def check(self, model: nn.Module) -> None:
        """Refuse what is no correction of this network."""
        if self.method == "batchnorm" and not norms_of(model):
            raise InputError("finish is 'batchnorm', but the models have no batch norm with running statistics")


@dataclass(frozen=True, eq=False)
class Parents:
    """The networks that were fused.

    Args:
        models: As they were given.
        aligned: In the common order.
        weights: Their proportions.
        layout: Which axes move together.
        couplings: For each model {space: matrix [target units, model units]}.
        balance: Whether the models were brought to a canonical scale before they were coupled.
    """

    models: Sequence[nn.Module]
    aligned: Sequence[nn.Module]
    weights: Sequence[float]
    layout: Layout
    couplings: Sequence[Mapping[str, Tensor]]
    balance: bool

    def keep_their_functions(self, batches: Batches) -> bool:
        """Whether the aligned networks compute what the models do: not so where units were merged."""
        batch = next(iter(batches))
        with _evaluated([*self.models, *self.aligned]):
            for model, twin in zip(self.models, self.aligned, strict=True):
                one, other = (numbers_in(batch.run(each)) for each in (model, twin))
                if one.shape != other.shape or float((one - other).abs().max()) > 1e-2 * float(one.abs().max()):
                    return False
        return True

    def scaled(self) -> list[nn.Module]:
        """The models, in the scale in which they were coupled."""
        if not self.balance:
            return list(self.models)
        return [with_state(model, balanced(model.state_dict(), self.layout)) for model in self.models]

    def carry(self, fused: nn.Module) -> list[dict[str, Tensor]]:
        """For each model and weight, a matrix that carries what comes out there to the units of the fused network.

        Where units are merged, the mean of what they give.
        """
        target = self.layout.blocks(self.layout.widths(fused.state_dict()))
        found = []
        for model, signed in zip(self.models, self.couplings, strict=True):
            state = model.state_dict()
            couplings = {name: _soft(matrix.float().cpu()) for name, matrix in signed.items()}
            pairs: dict[str, list[Pair]] = {}
            for there, here in zip(target, self.layout.blocks(self.layout.widths(state)), strict=True):
                if there.axis == 0 and there.side == "produces":
                    pairs.setdefault(there.tensor, []).append(Pair(there, (here,)))
            weights = {name: torch.eye(len(tensor)) for name, tensor in state.items() if tensor.dim() > 1}
            found.append(
                {name: carried(rows, {0: pairs.get(name, ())}, 0, couplings) for name, rows in weights.items()}
            )
        return found


def _soft(signed: Tensor) -> Coupling:
    return Coupling(soft=torch.stack([signed, signed.abs()]))


def finished(finish: Finish, fused: nn.Module, parents: Parents) -> tuple[nn.Module, Recalibration]:
    """The fused network, corrected, and what was done to it."""
    if finish.method == NONE or (finish.data is None and finish.example is None):
        return fused, Recalibration(NONE)
    if any(tensor.dtype in (torch.float16, torch.bfloat16) for tensor in fused.parameters()):
        return fused, Recalibration(NONE, note="corrections are made in float32 and float64 only")
    drawn, why_not = _noise(finish, parents.aligned)
    if finish.data is not None:
        return _corrected(finish, fused, parents, finish.data, drawn)
    if drawn is None:
        return fused, Recalibration(NONE, note=why_not)
    try:
        result, done = _corrected(finish, fused, parents, drawn)
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
            for batch in drawn:
                for model in aligned:
                    numbers_in(batch.run(model))
    except Exception as error:
        return None, f"no correction by noise: {error}"
    return drawn, ""


def _corrected(
    finish: Finish, fused: nn.Module, parents: Parents, batches: Batches, noise: Batches | None = None
) -> tuple[nn.Module, Recalibration]:
    """The network with the correction that was asked for, or the best."""
    forced = finish.method in CORRECTIONS
    if parents.keep_their_functions(batches):
        if len(parents.models) == 1:
            return fused, Recalibration(NONE, note="one model has no mean to come nearer to")
        rows = [finish.method] if forced else candidates(fused, data=finish.data is not None)
        start = Start(fused, parents.aligned, parents.weights, batches, noise=noise)
    elif norms_of(fused) or finish.method not in ("auto", "refit"):
        note = (
            "units were merged, and the aligned networks do not compute what the models do; only a refit of a network"
        )
        note += " without batch norms is possible then"
        return fused, Recalibration(NONE, note=note)
    else:
        rows = ["refit"]
        start = Start(fused, parents.scaled(), parents.weights, batches, noise=noise, carry=parents.carry(fused))
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
