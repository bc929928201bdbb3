"""Running statistics of batch norm, computed anew from unlabeled data.

Between two networks the interpolated statistics are not those of the interpolated network. Changes the module that it
is given: a private copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..errors import InputError
from .evaluator import moved


def reset_statistics(model: nn.Module, data: Iterable[Any]) -> None:
    """Set running means and variances to their averages over the batches; inputs are batches or their first part."""
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain average over the batches
        layer.train()
    device = next(model.parameters()).device
    count = 0
    for batch in [data] if isinstance(data, Tensor) else data:
        inputs = batch[0] if isinstance(batch, tuple | list) else batch
        inputs = moved(inputs, device)
        model(**inputs) if isinstance(inputs, dict) else model(inputs)
        count += 1
    if not count:
        raise InputError("data gave no batch to compute the statistics of batch norm from")
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
        layer.eval()
