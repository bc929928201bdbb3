"""Two networks whose layers stand beside each other, and the names of their tensors that do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from ..errors import InputError, listing
from ..modules import state_of
from .layers import Layer


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two networks whose layers stand beside each other.

    Args:
        shallow: The network of fewer layers.
        deep: The network of more layers.
        below: The layers of the shallower network.
        above: The layers of the deeper network.
        beside: For each layer of the shallower network the number of the layer of the deeper one.
    """

    shallow: nn.Module
    deep: nn.Module
    below: Sequence[Layer]
    above: Sequence[Layer]
    beside: Sequence[int]

    @property
    def single(self) -> list[int]:
        """Numbers of the layers of the deeper network that have no partner."""
        return [number for number in range(len(self.above)) if number not in self.beside]

    def before(self, number: int) -> Layer:
        """The last layer of the shallower network that stands beside one before a layer of the deeper network.

        Layers without parameters do not count: angles of positions, say, are made beside the stream.
        """
        before = [place for place, beside in enumerate(self.beside) if beside < number]
        return self.below[max((place for place in before if self.below[place].weights), default=max(before))]

    def names(self) -> dict[str, str]:
        """For tensors of the deeper network the names of the tensors of the shallower one that stand beside them.

        Raises:
            InputError: a tensor outside of all layers has no partner of its name.
        """
        below, above = state_of(self.shallow), state_of(self.deep)
        found: dict[str, str] = {}
        for layer, number in zip(self.below, self.beside, strict=True):
            for own, other in zip(layer.parts, self.above[number].parts, strict=True):
                names = [name for name in above if name.startswith(f"{other}.")]
                found |= {name: own + name.removeprefix(other) for name in names}
        inside = {name for layer in self.above for name in layer.tensors(above)}
        outside = [name for name in above if name not in inside]
        taken = {*found.values(), *outside}
        problems = [f"{name} of the deeper one has no partner" for name in outside if name not in below]
        problems += [f"{name} of the shallower one has no partner" for name in below if name not in taken]
        if problems:
            raise InputError(
                listing("the networks differ outside of their layers, in tensors that go by their names:", problems)
                + "\nFuse networks that are built alike and differ in the number of repeated layers or blocks"
            )
        return found | {name: name for name in outside}
