"""Fusing: one pipeline over states, plain or lazy, and on it `fuse` and `align` for modules."""

from .aligning import align
from .checking import Ready
from .given import Wanted
from .heads import Heads
from .networks import fuse, fused_networks
from .pipeline import fuse_states, fused_states
from .results import FusedStates, Fusion
from .widths import Widths

__all__ = [
    "FusedStates",
    "Fusion",
    "Heads",
    "Ready",
    "Wanted",
    "Widths",
    "align",
    "fuse",
    "fuse_states",
    "fused_networks",
    "fused_states",
]
