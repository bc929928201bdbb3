"""Optimal transport between uniform measures: matrices only, no labels, no networks."""

from .grouping import grouped
from .linear import Plan, assignment, entropic, exact
from .quadratic import ascend

__all__ = ["Plan", "ascend", "assignment", "entropic", "exact", "grouped"]
