"""A copy of a module with another state, of other widths if need be.

Where shapes differ, parameters and buffers are replaced and the attributes in which layers keep their sizes are set
anew. Only layers whose sizes are known to follow from their tensors are rebuilt; for others pass a target module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from ..errors import InputError, listing
from ..types import State
from .copying import twin_of
from .states import EXTRA_STATE, extra_states, state_of

Sizes = Mapping[str, Any]


def _linear(layer: Any) -> Sizes:
    return {"out_features": layer.weight.shape[0], "in_features": layer.weight.shape[1]}


def _convolution(layer: Any) -> Sizes:
    first, second = layer.weight.shape[:2]
    if layer.groups > 1 and second == 1:  # depthwise: one group for each channel
        multiplier = layer.out_channels // layer.groups
        return {"out_channels": first, "in_channels": first // multiplier, "groups": first // multiplier}
    kernel = tuple(layer.weight.shape[2:])  # it grows where it spans an embedding
    return {"out_channels": first, "in_channels": second * layer.groups, "kernel_size": kernel}


def _transposed(layer: Any) -> Sizes:
    return {"in_channels": layer.weight.shape[0], "out_channels": layer.weight.shape[1] * layer.groups}


def _features(layer: Any) -> Sizes:
    tensor = layer.weight if layer.weight is not None else layer.running_mean
    return {"num_features": len(tensor)}


def _normalized(layer: Any) -> Sizes:
    return {"normalized_shape": tuple(layer.weight.shape)}


def _embedding(layer: Any) -> Sizes:
    return {"num_embeddings": layer.weight.shape[0], "embedding_dim": layer.weight.shape[1]}


def _bilinear(layer: Any) -> Sizes:
    outputs, first, second = layer.weight.shape
    return {"out_features": outputs, "in1_features": first, "in2_features": second}


def _cell(layer: Any) -> Sizes:
    return {"input_size": layer.weight_ih.shape[1], "hidden_size": layer.weight_hh.shape[1]}


def _recurrent(layer: Any) -> Sizes:
    layer._flat_weights = [getattr(layer, name) for name in layer._flat_weights_names]
    gates = {"LSTM": 4, "GRU": 3}.get(layer.mode, 1)
    return {
        "input_size": layer.weight_ih_l0.shape[1],
        "hidden_size": layer.weight_hh_l0.shape[0] // gates,
        "proj_size": layer.weight_hh_l0.shape[1] if layer.proj_size else 0,
    }


# The attributes in which a layer keeps its sizes, from the tensors that it has.
SIZES: dict[type[nn.Module], Callable[[Any], Sizes]] = {
    nn.Linear: _linear,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), _convolution),
    **dict.fromkeys((nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d), _transposed),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), _features),
    **dict.fromkeys((nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d), _features),
    **dict.fromkeys((nn.LayerNorm, nn.RMSNorm), _normalized),
    **dict.fromkeys((nn.Embedding, nn.EmbeddingBag), _embedding),
    nn.Bilinear: _bilinear,
    **dict.fromkeys((nn.RNNCell, nn.LSTMCell, nn.GRUCell), _cell),
    **dict.fromkeys((nn.RNN, nn.LSTM, nn.GRU), _recurrent),
    nn.PReLU: lambda layer: {"num_parameters": len(layer.weight)},
}


def with_state(model: nn.Module, state: State) -> nn.Module:
    """A copy of a module with another state; layers are rebuilt where widths differ.

    Raises:
        InputError: naming the layers that cannot be rebuilt.
    """
    twin = twin_of(model)
    own = state_of(twin)
    resized = {name for name, tensor in state.items() if tensor.shape != own[name].shape}
    if resized:
        _resize(twin, state, resized)
    _load(twin, state)
    return twin


def _load(model: nn.Module, state: State) -> None:
    """Put a state into a module; what the module itself leaves out of `state_dict()` stays as it is.

    Raises:
        InputError: the module takes another state than it gives.
    """
    given = model.state_dict().keys()
    try:
        left = model.load_state_dict({**extra_states(model), **state}, strict=False)
    except RuntimeError as error:
        raise InputError(f"{type(model).__name__}.load_state_dict refuses the state: {error}") from error
    wrong = [name for name in left.missing_keys if name in given and not name.endswith(EXTRA_STATE)]
    if wrong or left.unexpected_keys:
        raise InputError(
            f"{type(model).__name__}.load_state_dict does not take what state_dict gives: missing {wrong}, unexpected "
            f"{left.unexpected_keys}; load_state_dict must take the same names"
        )


def _resize(model: nn.Module, state: State, names: set[str]) -> None:
    """Give tensors of a module the shapes that they have in a state, and layers the sizes that follow.

    Raises:
        InputError: naming the layers that cannot be rebuilt.
    """
    layers = {name: model.get_submodule(name.rpartition(".")[0]) for name in sorted(names)}
    unknown = sorted(
        {f"{name} of {type(layer).__name__}" for name, layer in layers.items() if type(layer) not in SIZES}
    )
    if unknown:
        raise InputError(
            listing("these tensors would change their shape in layers that cannot be rebuilt:", unknown)
            + "\nPass a module of the wanted widths as target"
        )
    for name, layer in layers.items():
        leaf = name.rpartition(".")[2]
        new = state[name].detach().clone()
        if leaf in layer._parameters:
            old = layer._parameters[leaf]
            setattr(layer, leaf, nn.Parameter(new, requires_grad=old is not None and old.requires_grad))
        else:
            setattr(layer, leaf, new)
    for layer in {id(layer): layer for layer in layers.values()}.values():
        for attribute, value in SIZES[type(layer)](layer).items():
            setattr(layer, attribute, value)
