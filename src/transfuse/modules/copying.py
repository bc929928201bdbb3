"""Copies of modules, also of those that keep results of operations as attributes.

In: a module. Out: a copy of it. PyTorch refuses to copy a tensor that was computed with gradients; the old
`torch.nn.utils.weight_norm` keeps one in every layer, hooks keep activations. In a copy they are constants until the
next forward pass computes them anew.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn.utils.prune import BasePruningMethod
from torch.overrides import TorchFunctionMode

from ..errors import InputError
from .checks import first_line

Copied = TypeVar("Copied")


class _Detaching(TorchFunctionMode):
    """Inside, results of operations are copied without what they were computed from."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is Tensor.__deepcopy__ and not args[0].is_leaf:
            return args[0].detach().clone()
        return func(*args, **(kwargs or {}))


def twin_of(original: Copied, kept: dict[int, object] | None = None) -> Copied:
    """A copy of a module (or of an attribute of one); results of operations in it are constants.

    Args:
        original: What is copied.
        kept: What is not copied but shared, by `id`.

    Example:
        >>> layer = nn.Linear(2, 3)
        >>> layer.seen = layer.weight.sum()  # as hooks keep activations
        >>> layer.seen.grad_fn is None, twin_of(layer).seen.grad_fn is None
        (False, True)
    """
    with _Detaching():
        return copy.deepcopy(original, kept)


def check_copies(model: nn.Module, name: str) -> None:
    """Refuse a module that cannot be copied, before any work is done; parameters and buffers are not copied for it.

    One that is being pruned is refused as well: the mean of two masks is no mask.

    Raises:
        InputError: naming the attributes in the way, and what to do.
    """
    pruned = [
        f"{path}.{hook._tensor_name}".lstrip(".") for path, module in model.named_modules()
        for hook in module._forward_pre_hooks.values() if isinstance(hook, BasePruningMethod)
    ]  # fmt: skip
    if pruned:
        raise InputError(
            f"{name} is pruned by masks ({', '.join(pruned[:3])}), and the mean of two masks is no mask; make the "
            "pruning permanent first: torch.nn.utils.prune.remove(layer, 'weight')"
        )
    kept: dict[int, object] = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    try:
        twin_of(model, dict(kept))
    except Exception as error:  # an attribute may refuse with anything: locks, files, generators
        found = [f"{path}.{key}".lstrip(".") for path, module in model.named_modules()
                 for key, value in vars(module).items() if not _copies(value, dict(kept))]  # fmt: skip
        raise InputError(
            f"{name} cannot be copied ({first_line(error)}), and a fused network is a copy; in the way: "
            f"{', '.join(found[:3]) or 'something inside it'}. Keep locks, open files and generators outside of the "
            "network, or set them to None before fusing"
        ) from error


def _copies(value: object, kept: dict[int, object]) -> bool:
    """Whether an attribute of a module can be copied."""
    if isinstance(value, dict) and any(isinstance(each, nn.Module) for each in value.values()):
        return True  # the parts of a module, which are looked at on their own
    try:
        twin_of(value, kept)
    except Exception:  # an attribute may refuse with anything; the caller tells of it
        return False
    return True
