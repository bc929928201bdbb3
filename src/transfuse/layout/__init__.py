"""Layouts: which axes of which tensors move together; their notation, their symmetries, moving a state by them."""

from typing import TYPE_CHECKING

from ..renamed import refuse_name
from .balance import balanced, scaled_alike
from .elements import Permutation, Rotation
from .folding import folded, unfolded
from .framed import Framed, Reversible
from .frames_balance import all_balanced, in_balance_of
from .notation import PlainLoader
from .permuting import permute, random_elements
from .recipe import LAYOUT, Layout, parse
from .records import Axis, Block, Fixed, Fold, Frame, Members, Part, Reader, Reduced, Run, Side, Slot, Space
from .symmetry import PERMUTATIONS, Symmetry, pair_scores

__all__ = [
    "LAYOUT",
    "PERMUTATIONS",
    "Axis",
    "Block",
    "Fixed",
    "Fold",
    "Frame",
    "Framed",
    "Layout",
    "Members",
    "Part",
    "Permutation",
    "PlainLoader",
    "Reader",
    "Reduced",
    "Reversible",
    "Rotation",
    "Run",
    "Side",
    "Slot",
    "Space",
    "Symmetry",
    "all_balanced",
    "balanced",
    "folded",
    "in_balance_of",
    "pair_scores",
    "parse",
    "permute",
    "random_elements",
    "scaled_alike",
    "unfolded",
]

if not TYPE_CHECKING:  # a checker of types would take any name for one of this room

    def __getattr__(name: str) -> object:
        """An old name gives an error that tells the new one."""
        refuse_name(__name__, name)
