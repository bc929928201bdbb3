"""What every correction works on: a network of its own to change, its aligned parents, and batches of inputs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..activations import Batch, Batches, Runs, Seen, observe, replayed, together
from ..errors import InputError
from ..layout.moving import mixed_along
from ..modules import live_tensors, numbers_in, tensors_in
from ..types import State
from .aims import AIMS, AUTO_AIM, EVIDENCE, MEAN, answers
from .units import Units

MEMORY = 2**30  # bytes of activations that may be kept in memory; beyond that they are computed again
MOST_SCORES = 2**25  # of tokens at places: a fit by what a softmax makes of more takes too long
Carry = Sequence[State]  # for each parent, by name of a weight: a matrix [network's rows, parent's rows]
Means = Mapping[str, Sequence[Tensor]]  # by site: the mean of the parents' pre-activations at each application


@dataclass(frozen=True, eq=False)
class Sample:
    """What one batch shows of a site.

    Args:
        own: The site in the network that is corrected; of what comes out of a layer only the shape is known.
        target: The mean of the parents' pre-activations there.
        batch: The batch.
    """

    own: Seen
    target: Tensor
    batch: Batch


@dataclass(frozen=True, eq=False)
class Given:
    """What networks that do not change give on batches: each is run once on each, however often it is asked for.

    Args:
        kept: By network and number of a batch, the outputs.
        shown: By the same, the sites with what comes out of them; none where they are too much to keep.
        runs: What the networks give at their layers.
    """

    kept: dict[tuple[nn.Module, int], list[Tensor]] = field(default_factory=dict)
    shown: dict[tuple[nn.Module, int], list[Seen] | None] = field(default_factory=dict)
    runs: Runs = field(default_factory=Runs)

    def by(self, model: nn.Module, number: int, batch: Batch) -> list[Tensor]:
        """The outputs of a network on the batch of some number; computed again where they are too much to keep."""
        if (model, number) not in self.kept:
            result = replayed(model, batch.run, self.runs.of(model, number))
            found = [tensor.clone() for tensor in tensors_in(result)]  # it may write to them again
            if sum(x.nbytes for each in (*self.kept.values(), found) for x in each) > MEMORY:
                return found
            self.kept[model, number] = found
        return self.kept[model, number]

    def sights(self, model: nn.Module, number: int, batch: Batch) -> list[Seen]:
        """The sites of a network on the batch of some number, with what goes in."""
        found = observe(model, batch.run, replay=self.runs.of(model, number))
        if (model, number) not in self.shown:
            without = [seen if seen.recurrence else seen.without_inputs() for seen in found]
            whole = [*(each for kept in self.shown.values() for each in kept or ()), *without]
            fits = sum(each.inputs.nbytes + each.output.nbytes for each in whole) <= MEMORY
            self.shown[model, number] = without if fits else None
        return found

    def sites(self, model: nn.Module, number: int, batch: Batch) -> list[Seen] | None:
        """The sites of a network on the batch of some number, with what comes out; nothing if that is too much."""
        if (model, number) not in self.shown:
            self.sights(model, number, batch)
        return self.shown[model, number]


@dataclass(frozen=True, eq=False)
class Task:
    """A correction to make: the network to change, the parents to go by, and inputs.

    Args:
        network: A copy of the fused network that may be changed, in evaluation mode.
        parents: The networks that were fused, aligned, of the same widths, in evaluation mode.
        weights: Proportions of the parents, summing to 1.
        batches: Inputs without labels.
        step: Called with the number of sites that are done and of all, for progress.
        carry: For each parent and site, a matrix [network's rows, parent's rows] that carries what comes out there;
            none where parents have the order and the widths of the network.
        units: How units of the parents become units of the network; none where no layout is known.
        aim: What is aimed at: a row of `AIMS`.
        temperature: Of evidence, where that is the aim.
        order: Of `entmax`, by which scores of the network itself are read, where evidence is the aim.
        ends: Names of the weights whose sites give the outputs, where the aim is another than the mean.
        given: What the parents give on the batches.
        runs: What the network gave at its layers on the batches, so that only what has changed is computed again.
        seed: For what is random.
    """

    network: nn.Module
    parents: Sequence[nn.Module]
    weights: Sequence[float]
    batches: Batches
    step: Callable[[int, int], None] = lambda done, total: None
    carry: Carry = ()
    units: Units | None = None
    aim: str = MEAN
    temperature: float = 1.0
    order: float = 1.0
    ends: frozenset[str] = frozenset()
    given: Given = field(default_factory=Given)
    runs: Runs = field(default_factory=Runs)
    seed: int = 0

    @cached_property
    def look(self) -> list[Seen]:
        """The sites of the network on the first batch, as shapes alone: values change while it is corrected."""
        shapes = [(seen.without_values(), seen.output.to("meta")) for seen in self.first_sights()]
        return [replace(seen, output=output) for seen, output in shapes]

    def sites(self) -> dict[str, int]:
        """Names of the weights in the order in which the network applies them, and how often it does.

        A site is left out if one of its tensors is used in another way, or by another site: it cannot be changed alone.
        """
        found = self.look
        users = Counter(tensor for _, tensors in {(seen.name, seen.tensors) for seen in found} for tensor in tensors)
        alone = [seen for seen in found if not seen.shared and all(users[tensor] == 1 for tensor in seen.tensors)]
        return dict(Counter(seen.name for seen in alone))

    def first_sights(self) -> list[Seen]:
        """The sites of the network on the first batch, in the order in which it makes them."""
        return self.sights(0, next(iter(self.batches)))

    def sights(
        self, number: int, batch: Batch, *, only: str | None = None, calls: int | None = None,
        forced: Sequence[Tensor] = (), blank: bool = False,
    ) -> list[Seen]:  # fmt: skip
        """The sites of the network, as it is now, on the batch of some number: all, or some calls of one.

        What is forced comes out of the one, call by call, in place of what it gives; see `observe`.
        """
        replay = self.runs.of(self.network, number)
        return observe(self.network, batch.run, only=only, calls=calls, replay=replay, forced=forced, blank=blank)

    def parents_sights(self, number: int, batch: Batch) -> list[list[Seen]]:
        """The sites of each parent on the batch of some number."""
        return [self.given.sights(parent, number, batch) for parent in self.parents]

    def outputs(self) -> frozenset[str]:
        """Names of the weights whose sites give the outputs of the network; empty if something follows them all."""
        first, sites = next(iter(self.batches)), self.sites()
        results = tensors_in(replayed(self.network, first.run, self.runs.of(self.network, 0)))
        seen = [each for each in self.first_sights() if each.name in sites]
        return frozenset(each.name for each in seen if any(torch.equal(each.output, result) for result in results))

    def bent(self) -> set[str]:
        """Names of the weights of sites whose pre-activations are used only through a nonlinearity that is known."""
        found = self.look
        straight = {seen.name for seen in found if not seen.bent}
        return {seen.name for seen in found} - straight | self.token_scores(MOST_SCORES)

    def token_scores(self, most: float = math.inf) -> frozenset[str]:
        """Names of the weights whose sites give a score for every token at every place, as language models do.

        What is used of them is their softmax.

        Args:
            most: Sites that give more scores than that, in all batches, are left out.
        """
        tokens = {each.num_embeddings for each in self.network.modules() if isinstance(each, nn.Embedding)}
        ends = self.outputs() if tokens and self.aim == MEAN else frozenset()
        seen = [each for each in self.look if each.name in ends and each.output.dim() > 2]
        few = [each for each in seen if self.batches.count * each.output.numel() <= most]
        return frozenset(each.name for each in few if each.output.shape[-1] in tokens)

    def left_out(self) -> list[str]:
        """Names of the weights that no correction of sites changes."""
        sites = self.sites()
        changed = {tensor for seen in self.look if seen.name in sites for tensor in seen.tensors}
        return [name for name, tensor in self.network.named_parameters() if tensor.dim() > 1 and name not in changed]

    def means_of(self, each: Sequence[list[Seen]]) -> Means:
        """The mean pre-activations of the parents, from the sites that each of them showed on one batch."""
        means: dict[str, list[Tensor]] = {}
        for seen in together(each):
            means.setdefault(seen[0].name, []).append(self._mean_of(seen))
        return means

    def targets(self, name: str, calls: int, number: int, batch: Batch) -> list[Tensor]:
        """The mean pre-activations of the parents at each application of a weight, on the batch of some number."""
        shown = [self.given.sites(parent, number, batch) for parent in self.parents]
        each = [sites for sites in shown if sites is not None]
        if len(each) < len(shown):
            runs = [(parent, self.given.runs.of(parent, number)) for parent in self.parents]
            each = [observe(parent, batch.run, only=name, calls=calls, replay=run) for parent, run in runs]
        return [self._mean_of(seen) for seen in together(each) if seen[0].name == name]

    def _mean_of(self, seen: Sequence[Seen]) -> Tensor:
        """The mean pre-activation of the parents at one site."""
        if self.carry and seen[0].recurrence:
            return self._mean_gates(seen)
        values = (self._carried(number, each) for number, each in enumerate(seen))
        return self.mean([self.compared(seen[0].name, value) for value in values])

    def _carried(self, parent: int, seen: Seen) -> Tensor:
        """Pre-activations of a parent, in the order of the network."""
        if not self.carry:
            return seen.pre_activations
        return mixed_along(self.carry[parent][seen.name].to(seen.output), seen.output, -1 - len(seen.kernel))

    def _mean_gates(self, seen: Sequence[Seen]) -> Tensor:
        """What the gates of a recurrent layer see, carried from the parents: of each, for the units that come from it.

        Pre-activations are linear in the weights, so these are carried: there are many more of those.
        """
        total: Tensor | None = None
        for each, weight, carry in zip(seen, self.weights, self.carry, strict=True):
            layer = each.recurrence
            assert layer is not None
            matrix = carry[each.name].to(each.output).unflatten(0, (len(layer.weights[0]) // each.output.shape[-1], -1))
            units = matrix.any(2).any(0).nonzero()[:, 0]
            if not len(units):
                continue
            rows = weight * matrix[:, units].flatten(0, 1)
            own = tuple(mixed_along(rows, tensor, -tensor.dim()) for tensor in layer.weights)
            found = (
                replace(layer, weights=own).pre_activations(each.inputs, each.output).unflatten(-1, (-1, len(units)))
            )
            total = found.new_zeros(*found.shape[:-1], matrix.shape[1]) if total is None else total
            total.index_add_(-1, units, found)
        assert total is not None, "the units of a network come from somewhere"
        return total.flatten(-2)

    def parents_outputs(self) -> Iterator[tuple[Batch, list[list[Tensor]]]]:
        """All batches, each with what every parent gives on it."""
        for number, batch in enumerate(self.batches):
            yield batch, [self.given.by(parent, number, batch) for parent in self.parents]

    def samples(
        self, name: str, calls: int, *, which: Callable[[Batch], bool] = lambda batch: True
    ) -> Iterator[Sample]:
        """What all batches, or some, show of one site, the network being as it is now.

        A weight that is applied several times may read, in a loop of the network's own, what it gave before: it sees
        what its targets lead to, as a recurrent layer does, for errors would add up over the loop. A batch on which the
        networks apply the weight a different number of times, or to different numbers of rows, shows nothing.
        """
        for number, batch in enumerate(self.batches):
            if not which(batch):
                continue
            targets = self.targets(name, calls, number, batch)
            own = self.sights(number, batch, only=name, calls=calls, forced=targets if calls > 1 else (), blank=True)
            fits = all(
                each.recurrence or each.output.shape == target.shape for each, target in zip(own, targets, strict=False)
            )
            if fits and len(own) == len(targets):
                yield from (Sample(each, target, batch) for each, target in zip(own, targets, strict=True))

    def aimed(self, outputs: Tensor, *, own: bool = False) -> Tensor:
        """What outputs of a parent, or the network's own, become before they are compared."""
        return AIMS[self.aim].of(outputs, self.temperature, self.order if own else 1.0)

    def compared(self, name: str, value: Tensor, *, own: bool = False) -> Tensor:
        """What comes out of a site, as it is compared: an output as the aim takes it, all else as it is."""
        return self.aimed(value, own=own) if name in self.ends else value

    def softened(self, name: str) -> bool:
        """Whether a site gives class scores of which only their evidence is compared."""
        return name in self.ends and AIMS[self.aim].needs_classes

    def mean(self, values: Sequence[Tensor]) -> Tensor:
        """The mean of values of the parents by their proportions."""
        total = self.weights[0] * values[0]
        for weight, value in zip(self.weights[1:], values[1:], strict=True):
            total = torch.add(total, value, alpha=weight)
        return total

    @property
    def state(self) -> dict[str, Tensor]:
        """All tensors of the network by name, without gradients; what is written to them changes the network."""
        return {name: tensor.detach() for name, tensor in live_tensors(self.network).items()}

    def write(self, tensors: Mapping[str, Tensor]) -> None:
        """Write new values into tensors of the network, by name."""
        state = self.state
        for name, tensor in tensors.items():
            state[name].copy_(tensor)

    def disagreement(self, model: nn.Module) -> float:
        """How far the outputs of a network are from what is aimed at, on the batches that judge.

        That is the mean of its parents' outputs, or what it holds for each class from the mean of what they hold. The
        squared distance, relative to the square of that mean. No labels enter: it is what corrections are chosen by.
        """
        distance = size = 0.0
        with torch.no_grad():
            for number, batch in enumerate(self.batches):
                if batch.judges:
                    own = self._numbers(replayed(model, batch.run, self.runs.of(model, number)), own=True)
                    outputs = (self.given.by(parent, number, batch) for parent in self.parents)
                    mean = self.mean([self._numbers(each) for each in outputs])
                    distance += batch.weight * float((own - mean).square().sum())
                    size += batch.weight * float(mean.square().sum())
        return distance / size if size else float(distance > 0)

    def _numbers(self, result: Any, *, own: bool = False) -> Tensor:
        """All numbers of what a parent, or the network itself, gives, as they are compared."""
        return numbers_in([self.aimed(each, own=own) for each in tensors_in(result)] or result)


def aiming(task: Task, aim: str) -> tuple[Task, str]:
    """A task with an aim, and why it has that one.

    Args:
        task: A task without an aim.
        aim: A row of `AIMS`, or `auto`: by whether the parents know different things.

    Raises:
        InputError: an aim that needs class scores is asked for, and the outputs are none.
    """
    if aim == MEAN or len(task.parents) < 2:
        return task, ""
    ends = task.outputs()
    found = answers(outputs for _, outputs in task.parents_outputs()) if ends else None
    asked = aim != AUTO_AIM
    if not asked and (found is None or not found.differ):
        return task, ""
    aim = aim if asked else EVIDENCE
    if found is None and AIMS[aim].needs_classes:
        raise InputError(f"aim is {aim!r}, but outputs are no class scores of a last layer; use {MEAN}")
    own = replace(task, aim=aim, ends=ends)
    if found is not None:
        own = replace(own, temperature=found.temperature, order=found.order)
    return own, "as asked for" if asked else str(found)


def check_numbers(name: str, *sums: Tensor) -> None:
    """Refuse sums over what was seen at a site if something there was no number.

    Raises:
        InputError: naming the site.
    """
    if not all(bool(each.isfinite().all()) for each in sums):
        raise InputError(f"NaN or infinity at {name} on the data; check the inputs and the weights")
