"""Sweeps: orders in which the spaces of all models are coupled, each the core of published methods."""

from .cycle import cycle_consistent
from .joint import jointly, merge_many
from .layered import layer_by_layer
from .matched import matched_averaging

__all__ = ["cycle_consistent", "jointly", "layer_by_layer", "matched_averaging", "merge_many"]
