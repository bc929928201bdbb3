"""Barycenters of states on a layout: labels and tensors, no modules."""

from .carrying import Pair, carried
from .coupling import Coupling, Matrices, packed
from .history import Step, unwatched
from .matching import Distance, Matching
from .objective import Problem, averages
from .starts import Start, distilled_target, merged, random_target, shuffled
from .sweeps.cycle import cycle_consistent
from .sweeps.joint import jointly, merge_many
from .sweeps.layered import layer_by_layer
from .sweeps.matched import matched_averaging

__all__ = [
    "Coupling",
    "Distance",
    "Matching",
    "Matrices",
    "Pair",
    "Problem",
    "Start",
    "Step",
    "averages",
    "carried",
    "cycle_consistent",
    "distilled_target",
    "jointly",
    "layer_by_layer",
    "matched_averaging",
    "merge_many",
    "merged",
    "packed",
    "random_target",
    "shuffled",
    "unwatched",
]
