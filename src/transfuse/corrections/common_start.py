"""Parents that come from a common start: fine-tuned from one network, or clients of one round.

A correction brings a fused network nearer to the mean of its parents' outputs, and makes good what is lost where units
that do not fit each other are averaged. Parents from a common start fit each other as they are: their average keeps
what the start knew, while each of them has forgotten a part of it, and so has the mean of their outputs. So `auto`
leaves such an average as it is.

In: aligned networks. Out: how far apart they lie. Not here: what is done then.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

# Networks that were fine-tuned from one start were found to be 0.00 to 0.17 apart (0.35 after four epochs at the rate
# of a first training), those that were trained from different starts 0.7 and more.
NEAR = 0.25

LEFT = (
    "the models lie close together, as networks from a common start do (no weight is more than {apart:.1%} of the way "
    "to orthogonal), and their average keeps what a correction towards their outputs may lose; ask for one by its name"
)


def apart(parents: Sequence[nn.Module], weights: Sequence[float]) -> float:
    """How far apart networks lie in the weight in which they differ most: 0 if they are equal, 1 if orthogonal.

    Every weight counts by itself: a large embedding that all of them share says nothing of the layers after it.

    Args:
        parents: Networks of the same shapes, in one order.
        weights: Proportions of the networks, summing to 1.

    Example:
        >>> import torch
        >>> one, other = nn.Linear(2, 1), nn.Linear(2, 1)
        >>> one.weight.data, other.weight.data = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> apart([one, one], [0.5, 0.5]), apart([one, other], [0.5, 0.5])
        (0.0, 1.0)
    """
    own = [dict(parent.named_parameters()) for parent in parents]
    names = [name for name, tensor in own[0].items() if tensor.dim() > 1]
    return max((_spread([each[name].detach() for each in own], weights) for name in names), default=0.0)


def _spread(tensors: Sequence[Tensor], weights: Sequence[float]) -> float:
    """The variance of tensors, relative to that of orthogonal ones; none if all are zero."""
    mean = sum(share * tensor for share, tensor in zip(weights, tensors, strict=True))
    spread = sum(share * _squares(tensor - mean) for share, tensor in zip(weights, tensors, strict=True))
    whole = sum(share * _squares(tensor) for share, tensor in zip(weights, tensors, strict=True))
    orthogonal = (1 - sum(share**2 for share in weights)) * whole
    return spread / orthogonal if orthogonal else 0.0


def _squares(tensor: Tensor) -> float:
    """The sum of squared sizes: entries may be complex, as those of spectral layers are."""
    return float(tensor.abs().square().sum())
