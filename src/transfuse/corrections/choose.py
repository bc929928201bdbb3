"""The choice of a correction: by name, or the one that brings outputs nearest to the mean of the parents' outputs.

In: a fused network, its parents, and inputs without labels. Out: a corrected copy, and a record of what was done and
why. Which corrections there are stands in `table`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from ..activations import Batches, observe
from ..arguments import FUNCTION, NETWORK, NETWORKS, PROGRESS, SWITCH, TEXT, WEIGHTS, check_arguments, optional
from ..errors import InputError, listing
from ..modules import alone, check_copies, live_tensors, shares_of, undisturbed, unwrapped
from ..progress import Progress, unwatched, watching
from ..renamed import OldAttribute
from ..types import Forward, Watch
from .affine import has_constant
from .batch_norm import norms_of
from .table import AUTO, CORRECTIONS, NONE
from .task import Carry, Task

SYNTHETIC_WEIGHT = 0.1  # what a synthetic sample counts beside one of data


@dataclass(frozen=True)
class Corrected:
    """What was done to a network to correct it, and why.

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
        """The correction, the figures by which it was chosen, and the note, in one line."""
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
    check_arguments(
        model=(model, NETWORK), parents=(parents, optional(NETWORKS)), method=(method, TEXT),
        weights=(weights, optional(WEIGHTS)), forward=(forward, optional(FUNCTION)), biases=(biases, SWITCH),
        progress=(progress, PROGRESS),
    )  # fmt: skip
    model, given = unwrapped(model), [unwrapped(parent) for parent in parents or ()]
    check_copies(model, "model")
    rows = _rows_to_try(method, model, given)
    batches = Batches.of(data, forward=forward)
    shares = shares_of(weights, len(given))
    with watching(progress, "correcting") as watch:
        result, done = best_of(rows, Uncorrected(model, given, shares, batches, biases), watch, forced=method != AUTO)
    result.correction, result.recalibration = done, OldAttribute(".recalibration")  # type: ignore[assignment]
    return result


@dataclass(frozen=True, eq=False)
class Uncorrected:
    """A network that is to be corrected, and what it is corrected by.

    Args:
        model: The fused network.
        parents: The networks that were fused, aligned.
        weights: Proportions of the parents, summing to 1.
        batches: Inputs.
        biases: Layers without a bias may get one.
        synthetic: Inputs beside the others, by which all corrections are judged and which those go by that they serve:
            a few samples of data say little of most weights, and less of which correction is best.
        carry: Carries what comes out at the sites of the parents to the order of the network; see `Task`.
    """

    model: nn.Module
    parents: Sequence[nn.Module]
    weights: Sequence[float]
    batches: Batches
    biases: bool = False
    synthetic: Batches | None = None
    carry: Carry = ()

    def batches_for(self, row: str) -> Batches:
        """The inputs that a correction goes by."""
        return self.supported if CORRECTIONS[row].for_synthetic else self.batches

    @property
    def supported(self) -> Batches:
        """All inputs, those that are synthetic counting less."""
        if self.synthetic is None:
            return self.batches
        return self.batches.supported_by(self.synthetic, weight=SYNTHETIC_WEIGHT)


@alone()
def best_of(
    rows: Sequence[str], start: Uncorrected, watch: Watch = unwatched, *, forced: bool = False
) -> tuple[nn.Module, Corrected]:
    """The network with the correction that makes its outputs nearest to the parents' mean, and what was done.

    Args:
        rows: Names of the corrections to try.
        start: What is to be corrected.
        watch: Is told of each correction.
        forced: Whether the correction is made even if the network was better without.
    """
    own = copy.deepcopy(start.model)
    with undisturbed(own, *start.parents):
        task = Task(own, start.parents, start.weights, start.batches, carry=start.carry)
        if start.biases:
            _add_biases(task)
        tried = {} if forced else {NONE: own}
        for number, name in enumerate(rows):
            tried[name] = copy.deepcopy(own)
            step = _stage(watch, name, number, len(rows))
            own_task = replace(task, network=tried[name], batches=start.batches_for(name), step=step)
            CORRECTIONS[name].apply(own_task)
        watch(rows[-1], len(rows), len(rows))
        judging = replace(task, batches=start.supported)
        scores = {name: judging.disagreement(each) for name, each in tried.items()} if start.parents else {}
        chosen = min(tried, key=lambda name: scores.get(name, 0.0))
        left = task.left_out() if chosen != NONE and CORRECTIONS[chosen].needs_parents else []
    result = tried[chosen]
    for module, before in zip(result.modules(), start.model.modules(), strict=True):
        module.training = before.training
    return result, Corrected(chosen, scores, _told_left_out(left))


def _stage(watch: Watch, name: str, number: int, total: int) -> Callable[[int, int], None]:
    """Tells of the start of a correction; what is given back tells of each of its sites."""
    watch(name, number, total)
    return lambda done, sites: watch(f"{name}, site {done + 1} of {sites}", number, total)


def _told_left_out(names: Sequence[str]) -> str:
    """A sentence about the weights that a correction does not reach; empty if there are none."""
    if not names:
        return ""
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"these weights were left as they are, since they are used in other ways too: {listed}"


def candidates(model: nn.Module, *, data: bool = True) -> list[str]:
    """Names of the corrections that `auto` tries: without data only those that synthetic inputs serve."""
    rows = {name: row for name, row in CORRECTIONS.items() if data or row.for_synthetic}
    return [name for name, row in rows.items() if not row.needs_batch_norm or norms_of(model)]


def _rows_to_try(method: str, model: nn.Module, parents: Sequence[nn.Module]) -> list[str]:
    """Names of the corrections to try: the one that was asked for, or all that can be made.

    Raises:
        InputError: there is no such correction, or it needs what is not given.
    """
    if method not in (AUTO, *CORRECTIONS):
        raise InputError(f"no correction is called {method!r}; there are: {AUTO}, {', '.join(CORRECTIONS)}")
    if method == AUTO and not parents:
        alone = " or ".join(repr(name) for name, row in CORRECTIONS.items() if not row.needs_parents)
        raise InputError(f"{AUTO} compares with the parents; pass parents=fusion.aligned, or method={alone}")
    names = [method] if method != AUTO else candidates(model)
    if not parents and (needy := [name for name in names if CORRECTIONS[name].needs_parents]):
        raise InputError(f"{', '.join(needy)} needs the networks that were fused; pass parents=fusion.aligned")
    if method != AUTO and CORRECTIONS[method].needs_batch_norm and not norms_of(model):
        others = ", ".join(name for name, row in CORRECTIONS.items() if not row.needs_batch_norm)
        raise InputError(
            f"{method} needs batch norms with running statistics, and the model has no batch norm; use {others}"
        )
    if problems := [text for number, parent in enumerate(parents, start=1) for text in _unlike(model, parent, number)]:
        raise InputError(listing("parents must be aligned, of the widths of the model:", problems))
    return names


def _unlike(model: nn.Module, parent: nn.Module, number: int) -> list[str]:
    """A sentence for each tensor of a model that a parent lacks or has in another shape."""
    own, theirs = ({name: tuple(x.shape) for name, x in live_tensors(each).items()} for each in (model, parent))
    return [f"parent {number}: {name} is {theirs.get(name)}, in the model {shape}" for name, shape in own.items()
            if theirs.get(name) != shape]  # fmt: skip


def _add_biases(task: Task) -> None:
    """Give each layer that has neither a bias nor a norm after it a bias of zeros."""
    for seen in observe(task.network, next(iter(task.batches)).run):
        owner, _, leaf = seen.name.rpartition(".")
        layer = task.network.get_submodule(owner)
        if (
            leaf == "weight"
            and not has_constant(seen)
            and isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d)
        ):
            layer.bias = nn.Parameter(layer.weight.new_zeros(len(layer.weight)))
