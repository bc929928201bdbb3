"""Fusing: one pipeline over states, plain or lazy, and on it `fuse` and `align` for modules."""

from .checking import method_row, target_widths
from .networks import align, fuse
from .pipeline import fuse_states
from .results import FusedStates, Fusion

__all__ = [
    "FusedStates",
    "Fusion",
    "align",
    "fuse",
    "fuse_states",
    "method_row",
    "target_widths",
]
