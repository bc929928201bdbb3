"""The choice of a correction: by name, or the one that brings outputs nearest to the mean of the parents' outputs.

In: a fused network, its parents, and inputs without labels. Out: a corrected copy, and a record of what was done and
why. Which corrections there are stands in `table`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from ..activations import Batches, Runs
from ..arguments import FUNCTION, NETWORK, NETWORKS, PROGRESS, SEED, SWITCH, TEXT, WEIGHTS, check_arguments, optional
from ..errors import InputError, listing
from ..layout import LAYOUT, Layout
from ..modules import alone, check_copies, live_tensors, shares_of, twin_of, undisturbed, unwrapped
from ..progress import Progress, unwatched, watching
from ..renamed import OldAttribute
from ..types import Forward, Watch
from .affine import has_constant
from .aims import AUTO_AIM, checked_aim
from .batch_norm import norms_of
from .common_start import LEFT, NEAR, apart
from .control import nearest_control
from .corrected import Corrected, told_left_out, told_spaces, warn_of_collapse
from .selection import Selection
from .table import AUTO, CORRECTIONS, NONE
from .task import Task, aiming
from .units import Units

SYNTHETIC_WEIGHT = 0.1  # what a synthetic sample counts beside one of data
# Of the distance before: where a correction leaves no more, `auto` tries no further ones. It goes from the last row of
# the table to the first, by how often one was the nearest: of 110 groups of networks where selection left no more,
# refit was nearer on 8, by a sixth at most. Not so beside streams that are averaged: deep networks with batch norm were
# up to four points better by a refit.
CLEAR = 0.25
# The same where all inputs are drawn images: what is learnt from those need not hold for others, and a selection, which
# makes every weight anew, was up to five points worse than a refit on deep networks without norms. Not so on inputs of
# other kinds: GRUs were 0.2 to 1.1 points worse by a refit that came as near.
CLEAR_OF_DRAWN = 0.1


def correct(  # noqa: PLR0913
    model: nn.Module, data: Any, parents: Sequence[nn.Module] | None = None, *, method: str = "auto",
    weights: Sequence[float] | None = None, layout: Layout | None = None, forward: Forward | None = None,
    biases: bool = False, aim: str = AUTO_AIM, seed: int = 0, progress: Progress = False,
) -> nn.Module:  # fmt: skip
    """A copy of a fused network, corrected by inputs without labels.

    Args:
        model: The fused network.
        data: Inputs: tensors (samples along the first dimension), an iterable of batches, or a `DataLoader`; of a tuple
            the first element counts, a dict holds keyword arguments.
        parents: The networks that were fused, in the common order and of the same widths: `fusion.aligned`.
        method: A row of `transfuse.CORRECTIONS`, or `auto`: the one whose outputs, on held-out inputs, are nearest to
            the mean of the parents' outputs; none where parents come from a common start.
        weights: Proportions of the parents; default: equal.
        layout: Which axes move together: `fusion.layout`. Selection needs it, and `auto` tries it only with it.
        forward: Runs a model on a batch, where batches are of another kind.
        biases: Layers without a bias may get one.
        aim: What is aimed at: `mean`, the mean of the parents' outputs; `evidence`, the mean of what they hold for each
            class; or `auto`: evidence where some classes are named by some of the parents only.
        seed: For a correction that has something random, as distillation has.
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
        weights=(weights, optional(WEIGHTS)), layout=(layout, optional(LAYOUT)), forward=(forward, optional(FUNCTION)),
        biases=(biases, SWITCH), aim=(aim, TEXT), seed=(seed, SEED), progress=(progress, PROGRESS),
    )  # fmt: skip
    model, given = unwrapped(model), [unwrapped(parent) for parent in parents or ()]
    check_copies(model, "model")
    units = Units(layout, given) if layout else None
    rows = _rows_to_try(method, model, given, units=units is not None)
    batches = Batches.of(data, forward=forward)
    shares = shares_of(weights, len(given))
    with watching(progress, "correcting") as watch:
        start = Uncorrected(model, given, shares, batches, biases, units=units, aim=checked_aim(aim), seed=seed)
        result, done = best_of(rows, start, watch, forced=method != AUTO)
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
        units: How units of the parents become units of the network; none where no layout is known.
        carried: Whether what comes out at the sites of the parents must be carried to these units first.
        aim: What is aimed at: a row of `AIMS`, or `auto`: by whether the parents name the same classes.
        seed: For what is random.
        drawn: Whether all inputs are images that were drawn, and none is data.
    """

    model: nn.Module
    parents: Sequence[nn.Module]
    weights: Sequence[float]
    batches: Batches
    biases: bool = False
    synthetic: Batches | None = None
    units: Units | None = None
    carried: bool = False
    aim: str = AUTO_AIM
    seed: int = 0
    drawn: bool = False

    def task(self, network: nn.Module) -> Task:
        """The task of changing a network, which may be changed."""
        carry = self.units.made(self.weights, network).carry() if self.units and self.carried else ()
        return Task(network, self.parents, self.weights, self.batches, carry=carry, units=self.units, seed=self.seed)

    def batches_for(self, row: str) -> Batches:
        """The inputs that a correction goes by."""
        return self.supported if CORRECTIONS[row].for_synthetic else self.batches

    @property
    def apart(self) -> float:
        """How far apart the parents lie; 1 where they cannot be compared, of other widths or one alone."""
        return 1.0 if self.carried or len(self.parents) < 2 else apart(self.parents, self.weights)

    @property
    def supported(self) -> Batches:
        """All inputs, those that are synthetic counting less."""
        if self.synthetic is None:
            return self.batches
        return self.batches.supported_by(self.synthetic, weight=SYNTHETIC_WEIGHT)


@dataclass(frozen=True, eq=False)
class _Trials:
    """Corrections that were made, each to a network of its own, from what they start with.

    Args:
        task: What to correct, with its aim.
        start: What is to be corrected, and by which inputs.
        networks: By correction, the network that it made.
        selections: By correction, what its network was made of, where units were selected.
        began: By correction, the one that it went on from, where it did.
        known: By correction, how far the outputs of its network are from what is aimed at, once that was asked for.
    """

    task: Task
    start: Uncorrected
    networks: dict[str, nn.Module]
    selections: dict[str, Selection | None] = field(default_factory=dict)
    began: dict[str, str] = field(default_factory=dict)
    known: dict[str, float] = field(default_factory=dict)

    def make(self, name: str, step: Callable[[int, int], None]) -> None:
        """Make one more correction; one that goes on from others begins with the best of those that were made."""
        row, before, task = CORRECTIONS[name], NONE, self.task
        if earlier := [each for each in row.after if each in self.networks]:
            scores = self.scores()
            before = self.began[name] = min(earlier, key=lambda each: scores[each])
        selection = self.selections.get(before)
        if selection is not None and self.start.units is not None:
            task = replace(task, parents=self.start.units.parents, carry=selection.carry)
        self.networks[name] = twin_of(self.networks[before])
        own = self.networks[name]
        task = replace(task, network=own, batches=self.start.batches_for(name), step=step, runs=Runs())
        self.selections[name] = row.apply(task) or selection
        if self.start.parents:  # now, while it is known what most of the network gives
            self.known[name] = self._judged(own, task.runs)

    def scores(self) -> dict[str, float]:
        """How far the outputs of each network are from what is aimed at."""
        if NONE not in self.known:
            self.known[NONE] = self._judged(self.networks[NONE], self.task.runs)
        return {name: self.known[name] for name in self.networks}

    def _judged(self, network: nn.Module, runs: Runs) -> float:
        """How far the outputs of a network are from what is aimed at, given what it gave in earlier runs."""
        return replace(self.task, batches=self.start.supported, runs=runs).disagreement(network)

    def make_all(self, rows: Sequence[str], watch: Watch, *, forced: bool) -> None:
        """Make corrections, from the last to the first, until one leaves little; then the one that is forced."""
        tried = rows[-2::-1] if forced else rows[::-1]
        for number, name in enumerate(tried):
            if number and self._clear:
                break
            self.make(name, _stage(watch, name, number, len(rows)))
        if forced:
            self.make(rows[-1], _stage(watch, rows[-1], len(tried), len(rows)))
        watch(rows[-1], len(rows), len(rows))

    @property
    def _clear(self) -> bool:
        """Whether one of the corrections leaves so little of the distance that no more need be tried.

        A selection beside streams that are averaged is compared with one more.
        """
        scores = self.scores()
        averaged = any(each and each.averaged for each in self.selections.values())
        little = (CLEAR_OF_DRAWN if self.start.drawn else CLEAR) * scores[NONE]
        return min(scores.values()) <= little and (not averaged or len(self.selections) > 1)

    def told_start(self, name: str) -> str:
        """What a correction that goes on from others does, and from which it went on; empty for any other."""
        return f"{CORRECTIONS[name].summary}: {self.began[name]}" if name in self.began else ""


@alone()
def best_of(
    rows: Sequence[str], start: Uncorrected, watch: Watch = unwatched, *, forced: bool = False
) -> tuple[nn.Module, Corrected]:
    """The network with the correction that makes its outputs nearest to the parents' mean, and what was done.

    Args:
        rows: Names of the corrections to try.
        start: What is to be corrected.
        watch: Is told of each correction.
        forced: Whether the last correction is made even if the network was better without, and all that go before it.
    """
    own = twin_of(start.model)
    if not forced and (distance := start.apart) <= NEAR:
        return own, Corrected(NONE, note=LEFT.format(apart=distance))
    wide = start.units.parents if start.units else ()  # maybe others: parents of their own widths
    with undisturbed(own, *start.parents, *(each for each in wide if each not in start.parents)):
        if start.biases:
            _add_biases(start.task(own))
        task, why = aiming(start.task(own), start.aim)
        trials = _Trials(task, start, {NONE: own})
        trials.make_all(rows, watch, forced=forced)
        scores = trials.scores() if start.parents else {}
        if forced:
            scores.pop(NONE, None)
        chosen = rows[-1] if forced else min(trials.networks, key=lambda name: scores.get(name, 0.0))
        row = CORRECTIONS.get(chosen)  # one that knows units, or goes on from others, makes all weights anew
        left = task.left_out() if row and row.needs_parents and not row.needs_units and not row.after else []
        compared = not forced and len(start.parents) > 1
        control = (
            nearest_control(start.parents, start.weights, start.supported, task.aim, task.given) if compared else None
        )
    result = trials.networks[chosen]
    for module, before in zip(result.modules(), start.model.modules(), strict=True):
        module.training = before.training
    selection = trials.selections.get(chosen)
    kept = selection.kept if selection else {}
    warn_of_collapse(kept, start.weights)
    told = "; ".join(filter(None, [trials.told_start(chosen), told_left_out(left) or told_spaces(selection)]))
    return result, Corrected(
        chosen, scores, told, kept, aim=task.aim, why_aim=why,
        control=control.disagreement if control else None, kept_model=control.number if control else None,
    )  # fmt: skip


def _stage(watch: Watch, name: str, number: int, total: int) -> Callable[[int, int], None]:
    """Tells of the start of a correction; what is given back tells of each of its sites, or steps of a training."""
    watch(name, number, total)
    part = "step" if CORRECTIONS[name].after else "site"
    return lambda done, parts: watch(f"{name}, {part} {done + 1} of {parts}", number, total)


def candidates(model: nn.Module, *, data: bool = True, units: bool = True) -> list[str]:
    """Names of the corrections that `auto` tries: without data only those that synthetic inputs serve.

    Args:
        model: The network that is to be corrected.
        data: Whether there is data.
        units: Whether the layout is known.
    """
    rows = {name: row for name, row in CORRECTIONS.items() if row.automatic and (data or row.for_synthetic)}
    rows = {name: row for name, row in rows.items() if units or not row.needs_units}
    return [name for name, row in rows.items() if not row.needs_batch_norm or norms_of(model)]


def prepared(name: str, possible: Sequence[str]) -> list[str]:
    """A correction, and before it those of the possible ones that it may go on from."""
    return [*(each for each in CORRECTIONS[name].after if each in possible), name]


def _rows_to_try(method: str, model: nn.Module, parents: Sequence[nn.Module], *, units: bool) -> list[str]:
    """Names of the corrections to try: the one that was asked for, or all that can be made.

    Raises:
        InputError: there is no such correction, or it needs what is not given.
    """
    if method not in (AUTO, *CORRECTIONS):
        raise InputError(f"no correction is called {method!r}; there are: {AUTO}, {', '.join(CORRECTIONS)}")
    if method == AUTO and not parents:
        alone = " or ".join(repr(name) for name, row in CORRECTIONS.items() if not row.needs_parents)
        raise InputError(f"{AUTO} compares with the parents; pass parents=fusion.aligned, or method={alone}")
    possible = candidates(model, units=units)
    names = prepared(method, possible) if method != AUTO else possible
    if not units and (needy := [name for name in names if CORRECTIONS[name].needs_units]):
        raise InputError(f"{', '.join(needy)} needs to know which axes move together; pass layout=fusion.layout")
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
    for seen in task.first_sights():
        owner, _, leaf = seen.name.rpartition(".")
        layer = task.network.get_submodule(owner)
        if (
            leaf == "weight"
            and not has_constant(seen)
            and isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d)
        ):
            layer.bias = nn.Parameter(layer.weight.new_zeros(len(layer.weight)))
