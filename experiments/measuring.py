"""Accuracy of a network: the share of right answers."""

from __future__ import annotations

import torch
from torch import nn

from .data import Examples


@torch.no_grad()
def accuracy(model: nn.Module, examples: Examples, device: str = "cpu") -> float:
    """The share of right answers, in percent; the network is left in evaluation mode."""
    model.to(device).eval()
    right = 0
    for inputs, labels in examples.batches():
        right += int((model(inputs.to(device)).argmax(1).cpu() == labels).sum())
    return 100 * right / len(examples)
