"""What networks answer: accuracy or loss, and how like the answers of the parents and of their ensemble they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .data import Examples


@torch.no_grad()
def accuracy(model: nn.Module, examples: Examples, device: str = "cpu") -> float:
    """The share of right answers, in percent; the network is left in evaluation mode."""
    model.to(device).eval()
    right = 0
    for inputs, labels in examples.batches():
        right += int((model(inputs.to(device)).argmax(-1).cpu() == labels).sum())
    return 100 * right / examples.labels.numel()


@torch.no_grad()
def outputs_of(model: nn.Module, examples: Examples) -> Tensor:
    """Class scores [examples, classes] in float64; the network is left in evaluation mode.

    Each place of a text at which a character is foretold is an example.
    """
    model.eval()
    return torch.cat([model(inputs).double().flatten(0, -2) for inputs, _ in examples.batches()])


def share_right(outputs: Tensor, examples: Examples) -> float:
    """The share of right answers among class scores, in percent."""
    return 100 * float((outputs.argmax(1) == examples.labels.flatten()).double().mean())


def metrics_of(outputs: Tensor, examples: Examples) -> dict[str, float]:
    """What class scores are worth: accuracy in percent; where every place of a text is foretold, its loss in nats."""
    if examples.labels.dim() == 1:
        return {"accuracy": share_right(outputs, examples)}
    return {"nats": float(loss_of(outputs, examples.labels))}


def loss_of(scores: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy of class scores [..., classes] with labels [...], in nats."""
    return F.cross_entropy(scores.flatten(0, -2), labels.flatten().long())


def mean_of(values: Sequence[Tensor], weights: Sequence[float] | None = None) -> Tensor:
    """The mean of what parents give, by their proportions; None: equal ones."""
    shares = weights or [1 / len(values)] * len(values)
    return sum((share * each for share, each in zip(shares, values, strict=True)), torch.zeros_like(values[0]))


def likeness(own: Tensor, parents: Sequence[Tensor], weights: Sequence[float] | None = None) -> dict[str, Any]:
    """How like those of the parents and of their ensemble class scores [examples, classes] are.

    Args:
        own: Of the network that is measured.
        parents: Of each parent.
        weights: Proportions of the parents; None: equal.

    Returns:
        `outputs`: the squared distance to the mean of the parents' scores, relative to the square of that mean: what
        corrections without labels make small. `distance`: the total variation distance of class probabilities to those
        of the ensemble, half of the sum of absolute differences, on average, in percent. `ensemble`: how often the most
        probable class is the ensemble's, in percent. `parents`: how often it is that of each parent.

    Example:
        >>> sure, unsure = torch.tensor([[9.0, -9.0]]), torch.tensor([[-1.0, 1.0]])
        >>> likeness(sure, [sure, unsure])
        {'outputs': 1.5625, 'distance': 44.0399, 'ensemble': 100.0, 'parents': [100.0, 0.0]}
    """
    mean, ensemble = mean_of(parents, weights), mean_of([each.softmax(1) for each in parents], weights)
    return {
        "outputs": round(float((own - mean).square().sum() / mean.square().sum()), 6),
        "distance": round(50 * float((own.softmax(1) - ensemble).abs().sum(1).mean()), 4),
        "ensemble": _agreement(own, ensemble),
        "parents": [_agreement(own, each) for each in parents],
    }


def _agreement(one: Tensor, other: Tensor) -> float:
    return round(100 * float((one.argmax(1) == other.argmax(1)).double().mean()), 4)
