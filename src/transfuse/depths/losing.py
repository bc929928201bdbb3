"""Losing: a deeper network as a copy of a shallower one, without the layers that have no partner there.

Layers that stand beside each other hold the tensors of the deeper network. What the others did is made good, as far as
it can be, by those that follow: each is fitted, by least squares on inputs, to what it gives in the deeper network, one
after the other.

In: a module, the shallower one, their layers, and inputs. Out: a module of the depth of the shallower one, and how far
its outputs are from those of the deeper one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from ..activations import Batches, observe
from ..modules import evaluating, state_of, undisturbed, with_state
from .fitting import difference, fit_to
from .pairs import Pairs


@dataclass(frozen=True, eq=False)
class Shortened:
    """A network that lost layers: the module, and how far its outputs are off."""

    model: nn.Module
    difference: float


def shortened_by(pairs: Pairs, batches: Batches) -> Shortened:
    """The deeper network with as many layers as the shallower one has, fitted to what it gave before."""
    names = {below: above for above, below in pairs.names().items()}
    above = state_of(pairs.deep)
    state = {below: above[name] for below, name in names.items()} | _narrowed(pairs, above)
    model = with_state(pairs.shallow, {name: state[name] for name in state_of(pairs.shallow)})
    with undisturbed(pairs.deep), evaluating(model):
        for weight in _after_the_first_loss(pairs, model, batches):
            fit_to(model, weight, pairs.deep, names[weight], batches)
        left = difference(pairs.deep, model, batches)
    return Shortened(model, left)


def _narrowed(pairs: Pairs, above: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of layers that read another number of units than they did, since the layer before them is another one.

    They are 0, to be fitted: nothing says which of the units that they read are which.
    """
    found = {}
    for place in range(1, len(pairs.beside)):
        here, before = pairs.beside[place], pairs.beside[place - 1]
        layer = pairs.above[here]
        was, now = pairs.above[here - 1].units[1], pairs.above[before].units[1]
        if layer.chained and was != now:
            weight = above[f"{layer.name}.weight"]
            shape = (weight.shape[0], weight.shape[1] * now // was, *weight.shape[2:])
            found[f"{pairs.below[place].name}.weight"] = weight.new_zeros(shape)
    return found


def _after_the_first_loss(pairs: Pairs, model: nn.Module, batches: Batches) -> list[str]:
    """Names of the weights that are applied after the first layer that was lost, in order."""
    lost = min(pairs.single)
    kept = [layer.name for layer, beside in zip(pairs.below, pairs.beside, strict=True) if beside > lost]
    seen = [each.name for each in observe(model, next(iter(batches)).run)]
    return [name for name in dict.fromkeys(seen) if any(name.startswith(f"{layer}.") for layer in kept)]
