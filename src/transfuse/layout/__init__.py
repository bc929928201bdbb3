"""Layouts: which axes of which tensors move together; their notation; moving a state by them."""

from .actions import Action, balanced, in_scale_of, permute, random_actions
from .recipe import Layout, parse
from .records import Axis, Block, Fixed, Run, Side, Slot, Space

__all__ = [
    "Action",
    "Axis",
    "Block",
    "Fixed",
    "Layout",
    "Run",
    "Side",
    "Slot",
    "Space",
    "balanced",
    "in_scale_of",
    "parse",
    "permute",
    "random_actions",
]
