"""Fusing: one pipeline over states, plain or lazy, and on it `fuse` and `align` for modules."""

from .aligning import align
from .checking import Chosen, Ready
from .networks import fuse
from .pipeline import fuse_states, fused_states
from .results import FusedStates, Fusion
from .widths import Widths

__all__ = [
    "Chosen",
    "FusedStates",
    "Fusion",
    "Ready",
    "Widths",
    "align",
    "fuse",
    "fuse_states",
    "fused_states",
]
