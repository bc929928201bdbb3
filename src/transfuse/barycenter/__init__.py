"""Barycenters of states on a layout: labels and tensors, no modules."""

from .carrying import Pair, carried
from .coupling import Coupling, Matrices, packed
from .cycle_consistent import cycle_consistent
from .joint import jointly, merge_many
from .layered import layer_by_layer
from .matched_averaging import matched_averaging
from .matching import Distance, Matching
from .problem import Problem, averages
from .starts import Start, distilled_target, merged, random_target, shuffled
from .steps import Step, Watch, unwatched

__all__ = [
    "Coupling",
    "Distance",
    "Matching",
    "Matrices",
    "Pair",
    "Problem",
    "Start",
    "Step",
    "Watch",
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
