"""Layouts: which axes of which tensors move together; their notation, their symmetries, moving a state by them."""

from .balance import balanced, in_scale_of
from .moving import permute, random_actions
from .notation import PlainLoader
from .recipe import LAYOUT, Layout, parse
from .records import Axis, Block, Fixed, Reduced, Run, Side, Slot, Space
from .symmetry import PERMUTATIONS, Permutation, Symmetry, pair_scores

__all__ = [
    "LAYOUT",
    "PERMUTATIONS",
    "Axis",
    "Block",
    "Fixed",
    "Layout",
    "Permutation",
    "PlainLoader",
    "Reduced",
    "Run",
    "Side",
    "Slot",
    "Space",
    "Symmetry",
    "balanced",
    "in_scale_of",
    "pair_scores",
    "parse",
    "permute",
    "random_actions",
]
