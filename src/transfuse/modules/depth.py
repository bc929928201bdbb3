"""The depth of modules: how many layers they have, and whether they differ in it."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from .states import state_of


def depth_of(model: nn.Module) -> int:
    """How many modules of a network have parameters of their own."""
    return sum(any(True for _ in module.parameters(recurse=False)) for module in model.modules())


def differ_in_depth(models: Sequence[nn.Module]) -> bool:
    """Whether networks have different numbers of layers; other differences are none of depth."""
    return len({depth_of(model) for model in models}) > 1 and len({frozenset(state_of(each)) for each in models}) > 1
