"""Modules in a wrapper: what is fused is the network itself."""

from __future__ import annotations

from torch import nn

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
