"""transfuse: several neural networks, trained independently, become one.

Every fusion starts from a layout: which axes of which tensors of a network move together. `trace` finds it for any
PyTorch module and proves it; `parse` reads one written by hand.
"""

from .errors import FusionError, InputError, LayoutError, ProofError, TraceError
from .layout import Action, Axis, Block, Fixed, Layout, Run, Slot, Space, parse, permute
from .tracing import prove, rule, trace

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Axis",
    "Block",
    "Fixed",
    "FusionError",
    "InputError",
    "Layout",
    "LayoutError",
    "ProofError",
    "Run",
    "Slot",
    "Space",
    "TraceError",
    "parse",
    "permute",
    "prove",
    "rule",
    "trace",
]
