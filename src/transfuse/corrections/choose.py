"""`correct`: a fused network corrected by inputs without labels; a copy that says what was done and why."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from ..activations import Batches, Forward, observe
from ..errors import InputError, listing
from ..modules.running import undisturbed
from ..progress import Progress, Watch, watching
from .affine import has_constant
from .batch_norm import norms_of
from .table import CORRECTIONS
from .task import Carry, Task, tensors_of

NONE = "none"
NOISE = 0.1  # what a sample of noise counts beside one of data


@dataclass(frozen=True)
class Corrected:
    """What was done to a network.

    Args:
        method: The correction that was made; `none` if none was better.
        disagreement: For each correction that was tried, how far the outputs are from the mean of the parents' outputs
            on held-out inputs (squared, relative); `none` is the network as it was.
        note: What else there is to say.
    """

    method: str
    disagreement: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    def __str__(self) -> str:
        """One line."""
        tried = ", ".join(f"{name} {value:.3g}" for name, value in self.disagreement.items())
        why = f": distance of outputs to the parents' mean, on held-out inputs: {tried}" if tried else ""
        return f"{self.method}{why}{'; ' if self.note else ''}{self.note}"


def correct(  # noqa: PLR0913
    model: nn.Module, data: Any, parents: Sequence[nn.Module] | None = None, *, method: str = "auto",
    weights: Sequence[float] | None = None, forward: Forward | None = None, biases: bool = False,
    progress: Progress = False,
) -> nn.Module:  # fmt: skip
    """A copy of a fused network, corrected by inputs without labels.

    Args:
        model: The fused network.
        data: Inputs: tensors (samples along the first dimension), an iterable of batches, or a `DataLoader`; of a tuple
            the first element counts, a dict holds keyword arguments.
        parents: The networks that were fused, in the common order and of the same widths: `fusion.aligned`.
        method: A row of `transfuse.CORRECTIONS`, or `auto`: the one whose outputs, on held-out inputs, are nearest to
            the mean of the parents' outputs.
        weights: Proportions of the parents; default: equal.
        forward: Runs a model on a batch, where batches are of another kind.
        biases: Layers without a bias may get one.
        progress: Show how far it is, as in `fuse`.

    Returns:
        A copy in the model's mode; its attribute `correction` says what was done and why.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
        >>> correct(net, torch.randn(50, 3), method="batchnorm").correction.method
        'batchnorm'
    """
    given = list(parents or ())
    rows = _rows(method, model, given)
    batches = Batches.of(data, forward=forward)
    shares = _shares(weights, len(given))
    with watching(progress, "correcting") as watcher:
        result, done = best_of(rows, Start(model, given, shares, batches, biases), watcher, forced=method != "auto")
    result.correction = done  # type: ignore[assignment]
    return result


@dataclass(frozen=True, eq=False)
class Start:
    """What is to be corrected, and by what.

    Args:
        model: The fused network.
        parents: Its aligned parents.
        weights: Their proportions.
        batches: Inputs.
        biases: Layers without a bias may get one.
        noise: Inputs beside the others, which a refit goes by and all are judged by: a few samples say little of most
            weights, and less of which correction is best.
        carry: Carries what comes out at the sites of the parents to the order of the network; see `Task`.
    """

    model: nn.Module
    parents: Sequence[nn.Module]
    weights: Sequence[float]
    batches: Batches
    biases: bool = False
    noise: Batches | None = None
    carry: Carry = ()

    def batches_for(self, row: str) -> Batches:
        """The inputs that a correction goes by."""
        return self.supported if CORRECTIONS[row].noise else self.batches

    @property
    def supported(self) -> Batches:
        """All inputs, noise counting less."""
        return self.batches if self.noise is None else self.batches.supported_by(self.noise, weight=NOISE)


def best_of(
    rows: Sequence[str], start: Start, watcher: Watch = lambda stage, done, total: None, *, forced: bool = False
) -> tuple[nn.Module, Corrected]:
    """The network with the correction that makes its outputs nearest to the parents' mean, and what was done.

    Args:
        rows: Names of the corrections to try.
        start: What is to be corrected.
        watcher: Is told of each correction.
        forced: Make the correction, be it better or not.
    """
    with ExitStack() as stack:
        for parent in start.parents:
            stack.enter_context(undisturbed(parent))
        own = copy.deepcopy(start.model)
        stack.enter_context(undisturbed(own))
        task = Task(own, start.parents, start.weights, start.batches, carry=start.carry)
        if start.biases:
            _add_biases(task)
        tried = {} if forced else {NONE: own}
        for number, name in enumerate(rows):
            tried[name] = copy.deepcopy(own)
            step = _stage(watcher, name, number, len(rows))
            own_task = replace(task, network=tried[name], batches=start.batches_for(name), step=step)
            CORRECTIONS[name].apply(own_task)
        watcher(rows[-1], len(rows), len(rows))
        judging = replace(task, batches=start.supported)
        scores = {name: judging.disagreement(each) for name, each in tried.items()} if start.parents else {}
        chosen = min(tried, key=lambda name: scores.get(name, 0.0))
        left = task.left_out() if chosen != NONE and CORRECTIONS[chosen].parents else []
    result = tried[chosen]
    for module, before in zip(result.modules(), start.model.modules(), strict=True):
        module.training = before.training
    return result, Corrected(chosen, scores, _left(left))


def _stage(watcher: Watch, name: str, number: int, total: int) -> Callable[[int, int], None]:
    """Tells a watcher of the sites of one correction."""
    watcher(name, number, total)
    return lambda done, sites: watcher(f"{name}, site {done + 1} of {sites}", number, total)


def _left(names: Sequence[str]) -> str:
    """What to say of weights that a correction does not reach."""
    if not names:
        return ""
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"left as they are, being used in other ways too or inside other functions: {listed}"


def candidates(model: nn.Module, *, data: bool = True) -> list[str]:
    """The corrections that `auto` tries: by noise only a refit, whose targets are the parents' and not the noise's."""
    if not data:
        return ["refit"]
    return [name for name in CORRECTIONS if name != "batchnorm" or norms_of(model)]


def _rows(method: str, model: nn.Module, parents: Sequence[nn.Module]) -> list[str]:
    """The corrections to try.

    Raises:
        InputError: there is no such correction, or it needs what is not given.
    """
    if method not in ("auto", *CORRECTIONS):
        raise InputError(f"no correction is called {method!r}; there are: auto, {', '.join(CORRECTIONS)}")
    if method == "auto" and not parents:
        raise InputError("auto compares with the parents; pass parents=fusion.aligned, or method='batchnorm'")
    names = [method] if method != "auto" else candidates(model)
    if not parents and (needy := [name for name in names if CORRECTIONS[name].parents]):
        raise InputError(f"{', '.join(needy)} needs the networks that were fused; pass parents=fusion.aligned")
    if method == "batchnorm" and not norms_of(model):
        raise InputError("the model has no batch norm with running statistics; other corrections: repair, refit")
    if problems := [text for number, parent in enumerate(parents, start=1) for text in _unlike(model, parent, number)]:
        raise InputError(listing("parents must be aligned, of the widths of the model:", problems))
    return names


def _unlike(model: nn.Module, parent: nn.Module, number: int) -> list[str]:
    """How the tensors of a parent differ from those of a model, in names and shapes."""
    own, theirs = ({name: tuple(x.shape) for name, x in tensors_of(each).items()} for each in (model, parent))
    return [f"parent {number}: {name} is {theirs.get(name)}, in the model {shape}" for name, shape in own.items()
            if theirs.get(name) != shape]  # fmt: skip


def _shares(weights: Sequence[float] | None, count: int) -> list[float]:
    given = [1.0] * count if weights is None else [float(weight) for weight in weights]
    if len(given) != count or (count and (min(given) < 0 or not 0 < sum(given) < float("inf"))):
        raise InputError(f"weights are {given}; expected a non-negative number for each of {count} parents, not all 0")
    return [weight / sum(given) for weight in given]


def _add_biases(task: Task) -> None:
    """Give layers without a bias one of zeros, unless a norm follows."""
    for seen in observe(task.network, next(iter(task.batches)).run):
        owner, _, leaf = seen.name.rpartition(".")
        layer = task.network.get_submodule(owner)
        if (
            leaf == "weight"
            and not has_constant(seen)
            and isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d)
        ):
            layer.bias = nn.Parameter(layer.weight.new_zeros(len(layer.weight)))
