"""What networks answer: accuracy, and how like the answers of the parents and of their ensemble they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .data import Examples


@torch.no_grad()
def accuracy(model: nn.Module, examples: Examples, device: str = "cpu") -> float:
    """The share of right answers, in percent; the network is left in evaluation mode."""
    model.to(device).eval()
    right = 0
    for inputs, labels in examples.batches():
        right += int((model(inputs.to(device)).argmax(1).cpu() == labels).sum())
    return 100 * right / len(examples)


@torch.no_grad()
def probabilities(model: nn.Module, examples: Examples) -> Tensor:
    """Class probabilities [examples, classes] in float64; the network is left in evaluation mode."""
    model.eval()
    return torch.cat([model(inputs).double().softmax(1) for inputs, _ in examples.batches()])


def share_right(own: Tensor, examples: Examples) -> float:
    """The share of right answers among class probabilities, in percent."""
    return 100 * float((own.argmax(1) == examples.labels).double().mean())


def likeness(own: Tensor, parents: Sequence[Tensor], weights: Sequence[float] | None = None) -> dict[str, Any]:
    """How like those of the parents and of their ensemble class probabilities [examples, classes] are, in percent.

    Args:
        own: Of the network that is measured.
        parents: Of each parent.
        weights: Proportions of the parents; None: equal.

    Returns:
        `distance`: the total variation distance to the mean of the parents' probabilities, half of the sum of absolute
        differences, on average. `ensemble`: how often the most probable class is that of this mean. `parents`: how
        often it is that of each parent.

    Example:
        >>> sure, unsure = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.4, 0.6]])
        >>> likeness(sure, [sure, unsure])
        {'distance': 30.0, 'ensemble': 100.0, 'parents': [100.0, 0.0]}
    """
    shares = weights or [1 / len(parents)] * len(parents)
    mean = sum((share * each for share, each in zip(shares, parents, strict=True)), torch.zeros_like(own))
    return {
        "distance": round(50 * float((own - mean).abs().sum(1).mean()), 4),
        "ensemble": _agreement(own, mean),
        "parents": [_agreement(own, each) for each in parents],
    }


def _agreement(one: Tensor, other: Tensor) -> float:
    return round(100 * float((one.argmax(1) == other.argmax(1)).double().mean()), 4)
