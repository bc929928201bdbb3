"""The ensemble of the models, which a fused network is measured against: one module that runs all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree


class Ensemble(nn.Module):
    """The weighted mean of the outputs of several modules; outputs that are no numbers are the first one's.

    Example:
        >>> import torch
        >>> Ensemble([nn.Identity(), nn.Flatten()], [0.25, 0.75])(torch.ones(2, 3)).sum()
        tensor(6.)
    """

    def __init__(self, members: Sequence[nn.Module], weights: Sequence[float]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.weights = tuple(weights)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The mean of what the members give."""
        return pytree.tree_map(self._mean, *(member(*args, **kwargs) for member in self.members))

    def _mean(self, *outputs: Any) -> Any:
        if not isinstance(outputs[0], Tensor) or not outputs[0].is_floating_point():
            return outputs[0]
        return sum(weight * output for weight, output in zip(self.weights, outputs, strict=True))
