"""What becomes of the output of a site before it is used: functions that move it, and functions made of others.

In: functions of PyTorch, as a network calls them. Out: the way back to the shape of the output; a function whose parts
can be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

# Functions that give what they take in another shape or order: a residual sum is looked for beyond them.
MOVES = frozenset(
    {"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "movedim", "swapaxes",
     "contiguous"}
)  # fmt: skip
# Functions that give what they take, unless a network is trained.
DROPOUTS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"})


@dataclass(frozen=True, eq=False)
class Moved:
    """What became of the output of a site by functions that move it: the result, and these functions."""

    result: Tensor
    steps: tuple[Callable[[Tensor], Tensor], ...]

    def back(self, tensor: Tensor, like: Tensor) -> Tensor:
        """A tensor of the result's shape, moved back to the shape of the output of the site: itself, or a copy."""
        if not self.steps:
            return tensor
        places = torch.arange(like.numel(), device=like.device).reshape(like.shape)
        for step in self.steps:
            places = step(places)
        moved = tensor.new_empty(like.numel())
        moved[places.flatten()] = tensor.flatten()
        return moved.reshape(like.shape)


def opened(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of PyTorch, written in Python, that is not handed over to the mode as a whole."""
    assert isinstance(function, FunctionType), "asked of functions that are written in Python"
    own = {**function.__globals__, "has_torch_function": lambda tensors: False}
    copied = FunctionType(function.__code__, own, function.__name__, function.__defaults__, function.__closure__)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied
