"""Modules in a wrapper, and modules that cannot be copied: what is fused is the network itself, and copies of it."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from ..errors import InputError
from .checks import first_line

# The attribute of a wrapper that holds the network, by the wrapper's class; names, so that nothing has to be imported.
WRAPPED = {"DataParallel": "module", "DistributedDataParallel": "module", "OptimizedModule": "_orig_mod"}


def unwrapped(model: nn.Module) -> nn.Module:
    """The network inside `DataParallel`, `DistributedDataParallel` or what `torch.compile` gives; others as they are.

    Example:
        >>> unwrapped(nn.DataParallel(nn.Linear(2, 2)))
        Linear(in_features=2, out_features=2, bias=True)
    """
    while type(model).__name__ in WRAPPED and type(model).__module__.startswith("torch."):
        model = getattr(model, WRAPPED[type(model).__name__])
    return model


def told_unwrapped(model: nn.Module) -> str:
    """A sentence about the wrapper of a network; empty if it has none."""
    kind = type(model).__name__
    return (
        "" if unwrapped(model) is model else f"it is wrapped in {kind}: the network inside (.{WRAPPED[kind]}) is used"
    )


def check_copies(model: nn.Module, name: str) -> None:
    """Refuse a module that cannot be copied, before any work is done; parameters and buffers are not copied for it.

    Raises:
        InputError: naming the attributes in the way, and what to do.
    """
    kept: dict[int, object] = {id(tensor): tensor for tensor in _leaves(model)}
    try:
        copy.deepcopy(model, kept)
    except Exception as error:  # an attribute may refuse with anything: locks, files, generators
        found = [f"{path}.{key}".lstrip(".") for path, module in model.named_modules()
                 for key, value in vars(module).items() if not _copies(value, dict(kept))]  # fmt: skip
        raise InputError(
            f"{name} cannot be copied ({first_line(error)}), and a fused network is a copy; in the way: "
            f"{', '.join(found[:3]) or 'something inside it'}. Results of operations that are kept as attributes "
            "(the old torch.nn.utils.weight_norm and prune do so, and activations kept by hooks) go away with "
            "torch.nn.utils.remove_weight_norm, prune.remove or .detach(); locks and open files must be left out"
        ) from error


def _leaves(model: nn.Module) -> list[Tensor]:
    """Parameters and buffers that can be copied as they are."""
    return [tensor for tensor in [*model.parameters(), *model.buffers()] if tensor.is_leaf]


def _copies(value: object, kept: dict[int, object]) -> bool:
    """Whether an attribute of a module can be copied."""
    if isinstance(value, dict) and any(isinstance(each, nn.Module) for each in value.values()):
        return True  # the parts of a module, which are looked at on their own
    try:
        copy.deepcopy(value, kept)
    except Exception:  # an attribute may refuse with anything; the caller tells of it
        return False
    return True
