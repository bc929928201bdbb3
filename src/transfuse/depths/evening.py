"""Networks of other depths, each brought to the depth of one of them, or of another network: then they can be fused.

In: modules, a module of the depth that comes out, example inputs, and inputs on which layers are compared. Out: modules
of one architecture, and a `Depths` that says what was grown and what was lost. Networks that have the tensors of the
target already stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from ..activations import Batch, Batches
from ..errors import InputError
from ..modules import state_of
from .alignment import aligned_layers
from .growing import EXACT, grown_by
from .layers import Layer, layers_of
from .likeness import LIKENESSES, Likeness
from .losing import shortened_by
from .pairs import Pairs

HOPELESS = 0.5  # relative difference of outputs beyond which a network is not what it was


@dataclass(frozen=True)
class Change:
    """What was done to bring one network to another depth.

    Args:
        layers: How many layers it had, and how many it has now.
        beside: Names of its layers, each with the name of the layer of the target that it stands beside.
        grown: Names of layers of the target that were grown; they change nothing.
        lost: Names of its layers that were left out.
        difference: By how much its outputs differ from what they were, relative to these, on the inputs.
        blocks: Names of the tensors of grown residual blocks.
        free: Those of them that do not matter to it, whatever they are.
    """

    layers: tuple[int, int]
    beside: tuple[tuple[str, str], ...]
    grown: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    difference: float = 0.0
    blocks: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """What was grown or lost, and what that changed, in a line."""
        done = f"grew {', '.join(self.grown)}" if self.grown else f"lost {', '.join(self.lost)}"
        near = "about the same" if self.difference <= HOPELESS else "something else"
        kept = f"computes {'the same' if self.difference <= EXACT else near}"
        counts = f"{self.layers[0]} layers became {self.layers[1]}"
        return f"{counts}: it {done} and {kept} (outputs differ by {self.difference:.1g})"


@dataclass(frozen=True)
class Depths:
    """What was done to networks of other depths before they were fused: for each a change, or None for none."""

    changes: tuple[Change | None, ...]

    @property
    def apart(self) -> frozenset[str]:
        """Names of the tensors of all residual blocks that were grown: they say nothing about scales."""
        return frozenset().union(*(change.blocks for change in self.changes if change))

    def __str__(self) -> str:
        """What was done to each network that was changed, in a line."""
        return "; ".join(f"model {number}: {each}" for number, each in enumerate(self.changes, start=1) if each)


def brought_to(
    target: nn.Module, models: Sequence[nn.Module], batches: Batches, *, likeness: str = "activations"
) -> tuple[list[nn.Module], Depths]:
    """Networks in the depth of a target: shallower ones grow layers that change nothing, deeper ones lose layers.

    Args:
        target: A network of the depth that comes out.
        models: Networks of other depths, or of this one.
        batches: Inputs on which layers are compared and fitted.
        likeness: What layers are put beside each other by: a row of `LIKENESSES`.

    Raises:
        InputError: the layers of a network cannot be put beside those of the target, or it is not what it was then.
    """
    compared = next(iter(batches))  # a hundred samples tell layers apart
    names = state_of(target).keys()
    layers: list[Layer] = []
    found: list[tuple[nn.Module, Change | None]] = []
    for number, model in enumerate(models, start=1):
        if state_of(model).keys() == names:
            found.append((model, None))
            continue
        layers = layers or _layers(target, compared, "the target")
        try:
            own = _layers(model, compared, "it")
            found.append(_changed(model, own, target, layers, batches, LIKENESSES[likeness]))
        except InputError as error:
            raise InputError(f"model {number} cannot be brought to the depth of the result: {error}") from error
    return [model for model, _ in found], Depths(tuple(change for _, change in found))


def _layers(model: nn.Module, batch: Batch, name: str) -> list[Layer]:
    """The layers of a network.

    Raises:
        InputError: it has none that could be seen.
    """
    found = layers_of(model, batch)
    if not found:
        raise InputError(
            f"no layers were found in {name} ({type(model).__name__}): none of its modules with tensors was called as "
            "a module, on tensors; call layers as modules, or fuse networks of one depth"
        )
    return found


def _changed(
    model: nn.Module, own: list[Layer], target: nn.Module, wanted: list[Layer], batches: Batches, likeness: Likeness
) -> tuple[nn.Module, Change]:
    """A network in the depth of a target, and what was done to it."""
    if len(own) <= len(wanted):
        pairs = Pairs(model, target, own, wanted, aligned_layers(own, wanted, likeness))
        grown = grown_by(pairs, batches)
        change = Change((len(own), len(wanted)), _beside(pairs), grown=_alone(pairs), difference=grown.difference)
        change, result = replace(change, blocks=_in_blocks(pairs), free=grown.free), grown.model
    else:
        pairs = Pairs(target, model, wanted, own, aligned_layers(wanted, own, likeness))
        short = shortened_by(pairs, batches)
        turned = tuple((above, below) for below, above in _beside(pairs))
        change = Change((len(own), len(wanted)), turned, lost=_alone(pairs), difference=short.difference)
        result = short.model
    if not change.difference <= HOPELESS and change.grown:
        raise InputError(
            f"it would compute something else with {', '.join(change.grown)} grown (outputs differ by "
            f"{change.difference:.2g}, relative): what stands between its layers is not what stands between those of "
            "the deeper network, or no layer there can do nothing"
        )
    return result, change


def _beside(pairs: Pairs) -> tuple[tuple[str, str], ...]:
    return tuple((own.name, pairs.above[number].name) for own, number in zip(pairs.below, pairs.beside, strict=True))


def _in_blocks(pairs: Pairs) -> frozenset[str]:
    names, blocks = state_of(pairs.deep), [pairs.above[number] for number in pairs.single]
    return frozenset(name for layer in blocks if layer.residual for name in layer.tensors(names))


def _alone(pairs: Pairs) -> tuple[str, ...]:
    return tuple(pairs.above[number].name for number in pairs.single)
