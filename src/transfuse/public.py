"""The public names of the package, gathered from the rooms that define them.

`import transfuse` imports this module when the first of these names is used, so that `transfuse --help` does not wait
for torch. A new public name is added here, and nowhere else.
"""

from .api import FusedStates, Fusion, align, fuse, fuse_states
from .errors import FusionError, InputError, LayoutError, ProofError, TraceError
from .layout import Action, Axis, Block, Fixed, Layout, Run, Slot, Space, parse, permute
from .methods import METHODS, Method
from .tracing import prove, rule, trace

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
