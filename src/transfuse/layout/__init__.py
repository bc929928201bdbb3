"""Layouts: which axes of which tensors move together; their notation; moving a state by them."""

from .actions import Action, permute, random_actions
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
    "parse",
    "permute",
    "random_actions",
]
