"""Barycenters of states on a layout: labels and tensors, no modules."""

from .coupling import Coupling
from .problem import Problem
from .sweeps import Step, jointly, layer_by_layer, shuffled

__all__ = ["Coupling", "Problem", "Step", "jointly", "layer_by_layer", "shuffled"]
