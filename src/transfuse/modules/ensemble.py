"""The ensemble of several networks, which a fused network is measured against: one module that runs all of them.

There is no other in the package: reports, the demo and the experiments show the same number for the same networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree


class Ensemble(nn.Module):
    """Several networks that vote: the mean of their class probabilities, or of their outputs where there are none.

    Class scores are floating-point outputs [samples, classes] with at least two classes. Of these the weighted mean of
    the members' softmax probabilities is taken, and its logarithm is returned: these are class scores again, with the
    same largest class, and their cross-entropy is that of the mean probabilities. Of all other floating-point outputs
    the weighted mean is returned, and of what holds no numbers, the first member's.

    Args:
        members: The networks; they are not copied.
        weights: Proportions of the members; default: equal.
        classes: Whether outputs [samples, numbers] are class scores; say False for a regression to several numbers.

    Example:
        >>> sure, unsure = torch.tensor([[9.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> Ensemble([nn.Identity(), nn.Linear(2, 2)], [1.0, 0.0])(sure).exp()
        tensor([[9.9988e-01, 1.2339e-04]], grad_fn=<ExpBackward0>)
        >>> Ensemble([nn.Identity(), nn.ReLU()], [0.25, 0.75], classes=False)(unsure)
        tensor([[0., 1.]])
    """

    def __init__(
        self, members: Sequence[nn.Module], weights: Sequence[float] | None = None, *, classes: bool = True
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.weights = tuple(weights) if weights is not None else (1 / len(members),) * len(members)
        self.classes = classes

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The mean of what the members give for these arguments."""
        return pytree.tree_map(self._mean, *(member(*args, **kwargs) for member in self.members))

    def _mean(self, *outputs: Any) -> Any:
        if not isinstance(outputs[0], Tensor) or not outputs[0].is_floating_point():
            return outputs[0]
        if self.classes and are_class_scores(outputs[0]):
            return _mean_of_probabilities(outputs, self.weights)
        return sum(weight * output for weight, output in zip(self.weights, outputs, strict=True))


def are_class_scores(output: Tensor) -> bool:
    """Whether a tensor has the shape of class scores: floating-point numbers [samples, classes], two classes or more.

    Example:
        >>> are_class_scores(torch.zeros(4, 10)), are_class_scores(torch.zeros(4, 1))
        (True, False)
    """
    return output.is_floating_point() and output.dim() == 2 and output.shape[1] > 1


def _mean_of_probabilities(scores: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """`log sum_i w_i softmax(s_i)`, in logarithms throughout, so that small probabilities do not vanish."""
    logs = [each.log_softmax(1) for each in scores]
    shares = torch.tensor(weights, dtype=logs[0].dtype, device=logs[0].device).log()
    return torch.logsumexp(torch.stack(logs) + shares[:, None, None], dim=0)
