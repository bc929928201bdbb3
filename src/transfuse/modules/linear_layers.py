"""Linear layers that have their weight the other way round, [inputs, outputs]: made the usual way, and back.

`Conv1D` of `transformers`, of which GPT-2 is made, is such a layer. It is known by its name, so that `transformers`
need not be there.

In: a module. Out: a copy in which such layers are `nn.Linear`, under the same names; states of the one for the other.
"""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor, nn

from ..types import State
from .copying import twin_of


def transposed_weights(model: nn.Module) -> frozenset[str]:
    """Names of the weights of all layers that have them as [inputs, outputs]."""
    layers = model.named_modules(remove_duplicate=False)
    return frozenset(f"{name}.weight" for name, layer in layers if _is_transposed(layer))


def with_linear_layers(model: nn.Module) -> nn.Module:
    """A copy of a network in which these layers are `nn.Linear`, with transposed weights; it computes the same."""
    twin = twin_of(model)
    made: dict[int, nn.Linear] = {}
    for layer in list(twin.modules()):
        for name, child in list(layer.named_children()):
            if _is_transposed(child):
                made.setdefault(id(child), _linear(child))
                setattr(layer, name, made[id(child)])
    return twin


def with_transposed(state: State, names: Collection[str]) -> dict[str, Tensor]:
    """A state in which some matrices are transposed."""
    return {name: tensor.T.contiguous() if name in names else tensor for name, tensor in state.items()}


def _is_transposed(layer: nn.Module) -> bool:
    """Whether a layer is `Conv1D` of `transformers`; a class of that name from elsewhere may be anything."""
    return (type(layer).__module__, type(layer).__name__) == ("transformers.pytorch_utils", "Conv1D")


def _linear(layer: nn.Module) -> nn.Linear:
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor), "such a layer has a weight"
    assert isinstance(bias, Tensor), "such a layer has a bias"
    inputs, outputs = weight.shape
    linear = nn.Linear(inputs, outputs, device=weight.device, dtype=weight.dtype)
    linear.weight.data, linear.bias.data = weight.detach().T.contiguous(), bias.detach().clone()
    return linear.train(layer.training)
