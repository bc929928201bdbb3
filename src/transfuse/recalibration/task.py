"""What every correction works on: a network of its own to change, its aligned parents, and batches of inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..activations import Batch, Batches, Seen, watch
from ..errors import InputError


@dataclass(frozen=True, eq=False)
class Sample:
    """What one batch shows of a site: in the network, and in each parent."""

    own: Seen
    parents: tuple[Seen, ...]
    batch: Batch


@dataclass(frozen=True, eq=False)
class Task:
    """A correction to make.

    Args:
        network: A copy that may be changed, in evaluation mode.
        parents: The networks that were fused, aligned, of the same widths, in evaluation mode.
        weights: Their proportions.
        batches: Inputs.
        step: Called after each batch, for progress.
    """

    network: nn.Module
    parents: Sequence[nn.Module]
    weights: Sequence[float]
    batches: Batches
    step: Callable[[], None] = lambda: None

    def sites(self) -> dict[str, int]:
        """Names of the weights in the order in which the network applies them, and how often it does."""
        first = next(iter(self.batches))
        return dict(Counter(seen.name for seen in watch(self.network, first.run)))

    def norms_at_sites(self) -> set[str]:
        """Names of the batch norms that belong to sites."""
        first = next(iter(self.batches))
        means = [seen.norm.mean for seen in watch(self.network, first.run) if seen.norm]
        return {name.rpartition(".")[0] for name in means}

    def samples(self, name: str, calls: int) -> Iterator[Sample]:
        """What all batches show of one site, the network being as it is now."""
        for batch in self.batches:
            theirs = [watch(parent, batch.run, only=name, calls=calls) for parent in self.parents]
            for own, *seen in zip(watch(self.network, batch.run, only=name, calls=calls), *theirs, strict=True):
                yield Sample(own, tuple(seen), batch)
            self.step()

    def mean(self, values: Sequence[Tensor]) -> Tensor:
        """The mean of values of the parents by their proportions."""
        return sum((w * value for w, value in zip(self.weights, values, strict=True)), torch.zeros_like(values[0]))

    @property
    def state(self) -> dict[str, Tensor]:
        """The tensors of the network, which are its own."""
        return {name: tensor.detach() for name, tensor in self.network.state_dict(keep_vars=True).items()}

    def write(self, tensors: Mapping[str, Tensor]) -> None:
        """Change tensors of the network."""
        state = self.state
        for name, tensor in tensors.items():
            state[name].copy_(tensor)

    def disagreement(self, model: nn.Module) -> float:
        """How far the outputs of a network are from the mean of its parents' outputs, on the batches that judge.

        The squared distance, relative to the square of that mean. No labels enter: it is what corrections are chosen
        by.
        """
        distance = size = 0.0
        with torch.no_grad():
            for batch in self.batches:
                if batch.judges:
                    outputs = [_floats(batch.run(each)) for each in (model, *self.parents)]
                    mean = self.mean(outputs[1:])
                    distance += float((outputs[0] - mean).square().sum())
                    size += float(mean.square().sum())
        return distance / size if size else float(distance > 0)


def _floats(outputs: Any) -> Tensor:
    """All numbers that a network gives."""
    found = [leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    if not found:
        raise InputError(f"the model gives no tensor of floats but {type(outputs).__name__}; pass forward= to get one")
    numbers = torch.cat([leaf.flatten().double() for leaf in found])
    if not bool(numbers.isfinite().all()):
        raise InputError("the model gives NaN or infinity on the data; check the inputs and the weights")
    return numbers
