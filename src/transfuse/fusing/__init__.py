"""Fusing: one pipeline over states, plain or lazy, and on it `fuse` and `align` for modules."""

from .checking import Chosen, Ready
from .heads import Heads
from .networks import align, fuse
from .pipeline import fuse_states, fused_states
from .results import FusedStates, Fusion
from .widths import Widths

__all__ = [
    "Chosen",
    "FusedStates",
    "Fusion",
    "Heads",
    "Ready",
    "Widths",
    "align",
    "fuse",
    "fuse_states",
    "fused_states",
]
