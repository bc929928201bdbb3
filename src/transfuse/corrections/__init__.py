"""Corrections of fused networks by inputs without labels: batch-norm statistics, repair, refit."""

from .batch_norm import norms_of
from .choose import NONE, Corrected, Start, best_of, candidates, correct
from .table import CORRECTIONS, Correction
from .task import numbers_in

__all__ = [
    "CORRECTIONS",
    "NONE",
    "Corrected",
    "Correction",
    "Start",
    "best_of",
    "candidates",
    "correct",
    "norms_of",
    "numbers_in",
]
