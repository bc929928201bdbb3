"""The tensors of a module, and which of its names are one tensor.

`state_of` gives what is saved and compared, `model_state` the parameters and buffers themselves, with which a module
can be run or traced; `live_tensors` has the buffers that are not saved too, for whoever writes to a network in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from ..errors import InputError
from ..types import State

EXTRA_STATE = "_extra_state"  # how torch ends the names of what `get_extra_state` gives


def state_of(network: nn.Module | State) -> dict[str, Tensor]:
    """The tensors that a module saves, or those in a state, without gradients and not copied.

    What `get_extra_state` gives is not among them, whatever it is: it belongs to the module's code, not to its weights.

    Raises:
        InputError: it is neither a module nor a state.
    """
    if not isinstance(network, nn.Module | Mapping):
        raise InputError(f"a network is {type(network).__name__}; expected a torch.nn.Module or a state")
    entries = network.state_dict() if isinstance(network, nn.Module) else network
    return {
        name: tensor.detach()
        for name, tensor in entries.items()
        if isinstance(tensor, Tensor) and not name.endswith(EXTRA_STATE)
    }


def extra_states(model: nn.Module) -> dict[str, Any]:
    """What a module saves by `get_extra_state`, by name."""
    return {name: value for name, value in model.state_dict().items() if name.endswith(EXTRA_STATE)}


def model_state(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers themselves, in the order of `state_dict`, tied ones under each name."""
    live = live_tensors(model)
    return {name: live[name] for name in model.state_dict() if name in live}


def is_mask(tensor: Tensor) -> bool:
    """Whether a tensor of a module is a mask: a buffer of zeros and ones, some of each, which means what it says.

    It says which weights there are (as in autoregressive networks), and a mean of masks would be none. So masks stay as
    they are, and units that they tell apart are not exchanged.

    Example:
        >>> import torch
        >>> [is_mask(each) for each in (torch.eye(2), torch.ones(2), nn.Parameter(torch.eye(2)))]
        [True, False, False]
    """
    if isinstance(tensor, nn.Parameter) or not tensor.is_floating_point():
        return False
    ones = tensor == 1
    return bool(ones.any() and not ones.all() and (ones | (tensor == 0)).all())


def live_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and all buffers themselves, tied ones under each name."""
    return dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))


def canonical_names(state: State) -> dict[str, str]:
    """For each name of a state the first name of the same tensor: the same memory, seen in the same way.

    The state must hold its tensors: in one that makes them when they are asked for, memory is used again. Empty tensors
    have no memory, so each is its own.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> canonical_names({"a": layer.weight, "b": layer.weight.detach(), "c": layer.bias})
        {'a': 'a', 'b': 'a', 'c': 'c'}
    """
    first: dict[Any, str] = {}
    return {name: first.setdefault(place_of(tensor) or name, name) for name, tensor in state.items()}


def ties_of(state: State) -> dict[str, str]:
    """Each name that is a further one of some tensor, with the first name of that tensor."""
    return {name: first for name, first in canonical_names(state).items() if name != first}


def place_of(tensor: Tensor) -> tuple[Any, ...] | None:
    """Where a tensor lies in memory, and how it is read; nothing if it has no numbers.

    Only places of tensors that exist at the same time can be compared: memory is used again.
    """
    if not tensor.numel():
        return None
    return (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
