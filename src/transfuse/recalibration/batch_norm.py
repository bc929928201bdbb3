"""Batch norms of an averaged network: their running statistics measured anew."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .task import Task


def norms_of(model: nn.Module) -> dict[str, _BatchNorm]:
    """Batch norms with running statistics, by name."""
    found = {name: module for name, module in model.named_modules() if isinstance(module, _BatchNorm)}
    return {name: module for name, module in found.items() if module.running_mean is not None}


def reset_statistics(task: Task, *, but: Collection[str] = ()) -> None:
    """Set running statistics to the mean over batches, in place.

    Args:
        task: Whose network is changed.
        but: Names of batch norms that stay as they are.
    """
    norms = {name: module for name, module in norms_of(task.network).items() if name not in but}
    before = {name: (module.momentum, module.training) for name, module in norms.items()}
    for module in norms.values():
        module.reset_running_stats()
        module.momentum = None  # a cumulative mean
        module.train()
    try:
        with torch.no_grad():
            for batch in task.batches if norms else ():
                batch.run(task.network)
                task.step()
    finally:
        for name, module in norms.items():
            module.momentum, module.training = before[name]
