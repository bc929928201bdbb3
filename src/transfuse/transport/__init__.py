"""Optimal transport between uniform measures: matrices only, no labels, no networks."""

from .grouping import grouped
from .linear import EntropicPlan, assignment, entropic, exact
from .orthogonal import procrustes
from .quadratic import ascend

__all__ = ["EntropicPlan", "ascend", "assignment", "entropic", "exact", "grouped", "procrustes"]
