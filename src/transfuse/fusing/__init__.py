"""Fusing: one pipeline over states, and on it `fuse` and `align` for modules."""

from .networks import FusedStates, Fusion, align, fuse, fuse_states, method_row, proportions, target_widths
from .streaming import Streamed, fuse_streamed, in_scale_of_lazily

__all__ = [
    "FusedStates",
    "Fusion",
    "Streamed",
    "align",
    "fuse",
    "fuse_states",
    "fuse_streamed",
    "in_scale_of_lazily",
    "method_row",
    "proportions",
    "target_widths",
]
