"""transfuse: several neural networks, trained independently, become one.

Every fusion starts from a layout: which axes of which tensors of a network move together. `trace` finds it for any
PyTorch module and proves it; `parse` reads one written by hand.
"""

from .api import FusedStates, Fusion, align, fuse, fuse_states
from .errors import FusionError, InputError, LayoutError, ProofError, TraceError
from .layout import Action, Axis, Block, Fixed, Layout, Run, Slot, Space, parse, permute
from .methods import METHODS, Method
from .tracing import prove, rule, trace

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Action",
    "Axis",
    "Block",
    "Fixed",
    "FusedStates",
    "Fusion",
    "FusionError",
    "InputError",
    "Layout",
    "LayoutError",
    "Method",
    "ProofError",
    "Run",
    "Slot",
    "Space",
    "TraceError",
    "align",
    "fuse",
    "fuse_states",
    "parse",
    "permute",
    "prove",
    "rule",
    "trace",
]
