"""Accuracy of a network, or of several that vote."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from .data import Examples


@torch.no_grad()
def accuracy(models: Sequence[nn.Module], examples: Examples, device: str = "cpu") -> float:
    """The share of right answers, in percent; of several networks, by the mean of their probabilities."""
    for model in models:
        model.to(device).eval()
    right = 0
    for inputs, labels in examples.batches():
        votes = sum(model(inputs.to(device)).softmax(1) for model in models)
        right += int((votes.argmax(1).cpu() == labels).sum())
    return 100 * right / len(examples)
