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
from torch.utils.flop_counter import FlopCounterMode

from .activations import DREAM_STEPS, Batches, Terms, activation_terms, dreamt, watch
from .activations import synthetic as noise
from .barycenter import Coupling, Pair, carried
from .errors import InputError
from .layout import Layout, balanced
from .progress import Progress, watching
from .rebuilding import with_state
from .recalibration import CORRECTIONS, NONE, Recalibration, Start, best_of, candidates, norms_of, numbers_in
from .tracing.recording import Arguments, tensors_in, undisturbed

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


NO_CLASSES = (
    "noise in which no classes are seen harms convolutions: there are none, or it would take long to make networks see "
    "them; pass data, or transfuse.synthetic_inputs(models, example_inputs, samples=...) as data"
)
SAMPLES = {True: 200, False: 500}  # of noise, for networks with convolutions, which see many places of each, and others
FEWEST = 50  # samples of noise that are worth moving
EFFORT = {"cpu": 2e13}  # floating-point operations that moving noise may take: minutes
MORE_EFFORT = 2e15  # on other devices


def synthetic_inputs(
    models: Sequence[nn.Module], example_inputs: Any, *, samples: int | None = None, seed: int = 0
) -> Batches:
    """Inputs made of noise, like the example, for networks of one architecture: to be passed as `data`.

    Where the networks tell classes apart, noise is moved until they see every class in turn.

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
    with _evaluated(models):
        return _imagined(models, Arguments.of(example_inputs), samples, seed)[0]


def _imagined(
    models: Sequence[nn.Module], example: Arguments, samples: int | None, seed: int, progress: Progress = False
) -> tuple[Batches, bool]:
    """Inputs made of noise, and whether networks were made to see classes in them.

    If no number of samples is given, there are fewer where moving them would take too long, and none is moved where
    that would leave too few. It is operations that count, not time: results do not depend on the machine.
    """
    usual = SAMPLES[_convolves(models[0], example)] if samples is None else samples
    count = usual if samples is not None else min(usual, int(_effort(models[0]) / _operations(models, example)))
    drawn = noise(models, example, samples=usual if count < FEWEST else count, seed=seed)
    if samples is None and count < FEWEST:
        return drawn, False
    with watching(progress, "inputs") as watcher:
        dreams = dreamt(models, drawn, watcher)
    return (drawn, False) if dreams is None else (dreams, True)


def _effort(model: nn.Module) -> float:
    device = next((tensor.device.type for tensor in model.parameters()), "cpu")
    return EFFORT.get(device, MORE_EFFORT)


def _operations(models: Sequence[nn.Module], example: Arguments) -> float:
    """Floating-point operations of moving one sample: so many runs of each network, forth and twice that back."""
    first = next((each for each in tensors_in((example.args, dict(example.kwargs))) if each.dim()), None)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        models[0](*example.args, **example.kwargs)
    each: float = max(counter.get_total_flops(), 1) / (len(first) if first is not None else 1)
    return 3 * DREAM_STEPS * len(models) * each


@dataclass(frozen=True, eq=False)
class StandIn:
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
        models: Sequence[nn.Module], example: Arguments | None, finish: str, *, data: bool, seed: int,
        progress: Progress = False,
    ) -> StandIn:  # fmt: skip
        """For networks of one architecture.

        Args:
            models: The networks.
            example: What the inputs shall be like; none: there are no such inputs.
            finish: The correction that is made.
            data: Whether there is data.
            seed: For the noise.
            progress: Who is told how far it is.
        """
        if example is None:
            return StandIn()
        try:
            with _evaluated(models):
                convolves = _convolves(models[0], example)
                if finish == NONE or (convolves and data):
                    return StandIn(why_not="none was wanted")
                batches, classes = _imagined(models, example, None, seed, progress)
                if convolves and not classes and finish == "auto":
                    return StandIn(why_not=NO_CLASSES)
                for batch in batches:
                    for model in models:
                        numbers_in(batch.run(model))
        except Exception as error:  # the fusion itself stands, whatever noise does to a network
            return StandIn(why_not=f"no correction by noise: {error}")
        return StandIn(batches, matches=convolves and classes)


@dataclass(frozen=True, eq=False)
class Finish:
    """How a fusion ends.

    Args:
        method: A row of `CORRECTIONS`, `auto` or `none`.
        data: Inputs without labels.
        noise: Inputs in place of data, and beside it.
        progress: Who is told how far it is.
    """

    method: str
    data: Batches | None
    noise: StandIn
    progress: Progress = False


def check_finish(method: str, model: nn.Module, *, inputs: bool) -> None:
    """Refuse a correction that does not exist, has no inputs to go by, or is none of this network.

    Raises:
        InputError: in these cases.
    """
    if method not in ("auto", NONE, *CORRECTIONS):
        raise InputError(f"finish is {method!r}; expected auto, none, {', '.join(CORRECTIONS)}")
    if method in CORRECTIONS and not inputs:
        raise InputError(f"finish is {method!r}, but there are no inputs; pass data= or example_inputs")
    if method == "batchnorm" and not norms_of(model):
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
    if finish.method == NONE:
        return fused, Recalibration(NONE)
    if any(tensor.dtype in (torch.float16, torch.bfloat16) for tensor in fused.parameters()):
        return fused, Recalibration(NONE, note="corrections are made in float32 and float64 only")
    if finish.data is not None:
        return _corrected(finish, fused, parents, finish.data, finish.noise.batches)
    if finish.noise.batches is None:
        return fused, Recalibration(NONE, note=finish.noise.why_not)
    try:
        result, done = _corrected(finish, fused, parents, finish.noise.batches)
    except Exception as error:  # the fusion itself stands, whatever noise does to a network
        return fused, Recalibration(NONE, note=f"no correction by noise: {error}")
    return result, replace(done, note="; ".join(filter(None, ["judged by inputs made of noise", done.note])))


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


def _convolves(model: nn.Module, example: Arguments) -> bool:
    """Whether a network has convolutions."""
    return any(seen.kernel for seen in watch(model, lambda each: each(*example.args, **example.kwargs)))
