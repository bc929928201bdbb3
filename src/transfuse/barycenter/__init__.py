"""Barycenters of states on a layout: labels and tensors, no modules."""

from .coupling import Coupling, CouplingMatrices, Couplings, Plan, coupling_of, packed, reversible
from .history import Step
from .importance import importance_by_layer
from .matching import Distance, Matching
from .mismatch import mismatches
from .objective import averaged, averages, mean, objective_of
from .problem import Problem
from .starts import Start, all_anchored, anchored, distilled_target, merged, random_target, shuffled
from .sweeps import cycle_consistent, jointly, layer_by_layer, matched_averaging, merge_many

__all__ = [
    "Coupling",
    "CouplingMatrices",
    "Couplings",
    "Distance",
    "Matching",
    "Plan",
    "Problem",
    "Start",
    "Step",
    "all_anchored",
    "anchored",
    "averaged",
    "averages",
    "coupling_of",
    "cycle_consistent",
    "distilled_target",
    "importance_by_layer",
    "jointly",
    "layer_by_layer",
    "matched_averaging",
    "mean",
    "merge_many",
    "merged",
    "mismatches",
    "objective_of",
    "packed",
    "random_target",
    "reversible",
    "shuffled",
]
