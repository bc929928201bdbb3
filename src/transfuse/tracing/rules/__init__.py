"""Op rules: what each operation ties together, moves, mixes or fixes. One file for each family of operations."""

from . import contraction, movement, normalization, pointwise, recurrent, reduction, writing
from .table import RULES, Call, Rule, rule

__all__ = [
    "RULES",
    "Call",
    "Rule",
    "contraction",
    "movement",
    "normalization",
    "pointwise",
    "recurrent",
    "reduction",
    "rule",
    "writing",
]
