"""Barycenters of states on a layout: labels and tensors, no modules."""

from .coupling import Coupling, CouplingMatrices, Couplings, Plan, coupling_of, packed, reversible
from .history import Step
from .matching import Distance, Matching
from .objective import objective_of
from .outputs import Barycenter
from .problem import Problem
from .solving import Found, barycenter_of
from .starts import Start, all_anchored, anchored, distilled_target, merged, random_target, shuffled
from .sweeps import cycle_consistent, jointly, layer_by_layer, matched_averaging, merge_many
from .working import in_form_of

__all__ = [
    "Barycenter",
    "Coupling",
    "CouplingMatrices",
    "Couplings",
    "Distance",
    "Found",
    "Matching",
    "Plan",
    "Problem",
    "Start",
    "Step",
    "all_anchored",
    "anchored",
    "barycenter_of",
    "coupling_of",
    "cycle_consistent",
    "distilled_target",
    "in_form_of",
    "jointly",
    "layer_by_layer",
    "matched_averaging",
    "merge_many",
    "merged",
    "objective_of",
    "packed",
    "random_target",
    "reversible",
    "shuffled",
]
