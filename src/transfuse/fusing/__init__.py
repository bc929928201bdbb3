"""Fusing: one pipeline over states, plain or lazy, and on it `fuse` and `align` for modules."""

from .aligning import align
from .checking import Ready
from .networks import Wanted, fuse, fused_networks
from .pipeline import fuse_states, fused_states
from .results import FusedStates, Fusion
from .widths import Widths

__all__ = [
    "FusedStates",
    "Fusion",
    "Ready",
    "Wanted",
    "Widths",
    "align",
    "fuse",
    "fuse_states",
    "fused_networks",
    "fused_states",
]
