"""Readers: the weights that read the units of a space, what they see of them and what they take from them.

Units can be selected where every reader is known, a linear, convolution or recurrent layer, and where the units are no
residual stream: what is added to a stream stays there, and no reader can make it good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..activations import Seen
from ..barycenter import Problem
from ..layout.moving import Pair, units_of
from ..types import State
from .affine import has_constant


@dataclass(frozen=True, eq=False)
class Reader:
    """A weight that reads the units of a space.

    Args:
        site: The site of the weight, as it was seen in a parent.
        pair: Where the space stands on the second axis of the weight, in the network and in each parent.
        whole: Whether the slots of a unit are different features, as the dimensions of a head are; else they show the
            same feature several times, as the pixels of a channel do.
    """

    site: Seen
    pair: Pair
    whole: bool = False

    @property
    def size(self) -> int:
        """How many features of a unit are read: each has weights of its own, and all are kept or none."""
        return self.pair.target.positions.shape[1] if self.whole else 1

    @property
    def tensor(self) -> str:
        """The name of the weight."""
        return self.pair.target.tensor

    @property
    def has_constant(self) -> bool:
        """Whether the reader has a constant, so that a shift of units costs nothing."""
        return has_constant(self.site)

    def values(self, inputs: Tensor, parent: int) -> Tensor:
        """What is read of the units, [samples, units x features], of inputs [..., features]."""
        positions = torch.from_numpy(self.pair.models[parent].positions).to(inputs.device)
        rows = inputs.reshape(-1, inputs.shape[-1])  # also of one sample without an axis of samples
        if self.whole:
            return rows[:, positions.reshape(-1)]
        return rows[:, positions.T.reshape(-1)].reshape(-1, len(positions))

    def weight(self, state: State) -> Tensor:
        """The weight in a state, its norm or scale included."""
        weight = state[self.tensor]
        if norm := self.site.norm:
            scale = state[norm.weight] / (state[norm.variance] + norm.epsilon).sqrt()
            weight = weight * scale.view(-1, *[1] * (weight.dim() - 1))
        if self.site.scale:
            weight = weight * state[self.site.scale].view(-1, 1)
        return weight

    def by_unit(self, weight: Tensor, parent: int) -> Tensor:
        """What a weight of a parent takes from each feature of each unit, [units x features, ...], in float64."""
        taken = units_of(weight.double(), self.pair.models[parent])
        return taken.reshape(self.size * len(taken), -1)


def inputs_of(seen: Seen) -> dict[str, Tensor]:
    """What each weight of a site is applied to, [..., features]."""
    if layer := seen.recurrence:
        return {layer.names[0]: seen.inputs, layer.names[1]: layer.previous(seen.output)}
    return {seen.name: seen.inputs.movedim(-1 - len(seen.kernel), -1)}


def readers_by_space(sites: Sequence[Seen], problem: Problem) -> dict[str, list[Reader]]:
    """The readers of each space whose units can be selected: of no residual stream.

    Args:
        sites: The sites of a parent, as it makes them.
        problem: The parents and the widths of the network.
    """
    reduced = problem.layout.reduced
    spaces = [space for space in problem.blocks_of if space not in reduced and not _is_stream(space, sites, problem)]
    return _known_readers(spaces, sites, problem)


def readers_of_wider_streams(sites: Sequence[Seen], problem: Problem) -> dict[str, list[Reader]]:
    """The readers of each residual stream that is wider in the network than in every parent, and that no norm reduces.

    Args:
        sites: The sites of a parent, as it makes them.
        problem: The parents and the widths of the network.
    """
    reduced, blocks = problem.layout.reduced, problem.blocks_of
    wider = [
        space
        for space, pairs in blocks.items()
        if problem.widths[space] > max(len(block.positions) for block in pairs[0].models)
    ]
    spaces = [space for space in wider if space not in reduced and _is_stream(space, sites, problem)]
    return _known_readers(spaces, sites, problem)


def _is_stream(space: str, sites: Sequence[Seen], problem: Problem) -> bool:
    """Whether a layer is seen to add to the units of a space.

    In a loop of the network's own, one that adds to what another layer gives makes states with it, step by step.
    """
    often = Counter(seen.name for seen in sites)
    adding = [seen for seen in sites if seen.rest is not None and not (seen.joint and often[seen.name] > 1)]
    written = {pair.target.tensor for pair in problem.blocks_of[space] if pair.target.side == "produces"}
    return any(written.intersection(seen.tensors) for seen in adding)


def _known_readers(spaces: Iterable[str], sites: Sequence[Seen], problem: Problem) -> dict[str, list[Reader]]:
    """The readers of each of some spaces of which all are known."""
    owners = {tensor: seen for seen in sites for tensor in seen.tensors}
    found = {}
    for space in spaces:
        pairs = problem.blocks_of[space]
        readers = [pair for pair in pairs if pair.target.side == "consumes"]
        if readers and all(_is_known(pair, owners) for pair in readers):
            whole = _made_apart(pairs)
            found[space] = [Reader(owners[pair.target.tensor], pair, whole) for pair in readers]
    return {space: by for space, by in found.items() if len({reader.size for reader in by}) == 1}


def _made_apart(pairs: Sequence[Pair]) -> bool:
    """Whether the slots of a unit are made by weights of their own, wherever it is made: so are those of a head."""
    return all(pair.target.positions.shape[1] > 1 for pair in pairs)


def _is_known(pair: Pair, owners: Mapping[str, Seen]) -> bool:
    """Whether a block stands where a layer reads: on the second axis of a weight that is applied to all units."""
    seen = owners.get(pair.target.tensor)
    return seen is not None and pair.target.axis == 1 and seen.how.get("groups", 1) == 1
