"""Barycenters of states on a layout: labels and tensors, no modules."""

from .coupling import Coupling
from .cycle_consistent import cycle_consistent
from .matched_averaging import matched_averaging
from .problem import Problem
from .sweeps import Step, jointly, layer_by_layer, shuffled

__all__ = [
    "Coupling",
    "Problem",
    "Step",
    "cycle_consistent",
    "jointly",
    "layer_by_layer",
    "matched_averaging",
    "shuffled",
]
