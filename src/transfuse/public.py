"""The public names of the package, gathered from the rooms that define them.

`import transfuse` imports this module when the first of these names is used, so that `transfuse --help` does not wait
for torch. A new public name is added here, and nowhere else.
"""

from . import plots
from .comparison import Comparison, compare
from .corrections import CORRECTIONS, Corrected, Correction, correct
from .errors import (
    CollapseWarning,
    FusionError,
    InputError,
    LayoutError,
    ProofError,
    StatisticsWarning,
    TraceError,
    TraceWarning,
    WidthWarning,
)
from .federated import Federation, LeftOut, Reply, Round
from .fusing import FusedStates, Fusion, Heads, align, fuse, fuse_states
from .landscape import Barrier, Mark, Plane, Simplex, barrier, chain, evaluator, plane, simplex
from .layout import Axis, Block, Fixed, Layout, Permutation, Rotation, Run, Slot, Space, Symmetry, parse, permute
from .methods import METHODS, Method
from .modules import untied
from .synthetic.making import synthetic_inputs
from .tracing import prove, rule, trace

__all__ = [
    "CORRECTIONS",
    "METHODS",
    "Axis",
    "Barrier",
    "Block",
    "CollapseWarning",
    "Comparison",
    "Corrected",
    "Correction",
    "Federation",
    "Fixed",
    "FusedStates",
    "Fusion",
    "FusionError",
    "Heads",
    "InputError",
    "Layout",
    "LayoutError",
    "LeftOut",
    "Mark",
    "Method",
    "Permutation",
    "Plane",
    "ProofError",
    "Reply",
    "Rotation",
    "Round",
    "Run",
    "Simplex",
    "Slot",
    "Space",
    "StatisticsWarning",
    "Symmetry",
    "TraceError",
    "TraceWarning",
    "WidthWarning",
    "align",
    "barrier",
    "chain",
    "compare",
    "correct",
    "evaluator",
    "fuse",
    "fuse_states",
    "parse",
    "permute",
    "plane",
    "plots",
    "prove",
    "rule",
    "simplex",
    "synthetic_inputs",
    "trace",
    "untied",
]
