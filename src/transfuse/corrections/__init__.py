"""Corrections of fused networks by inputs without labels: batch-norm statistics, repair, refit."""

from .batch_norm import norms_of
from .choose import NONE, Recalibration, Start, best_of, candidates, recalibrate
from .table import CORRECTIONS, Correction
from .task import numbers_in

__all__ = [
    "CORRECTIONS",
    "NONE",
    "Correction",
    "Recalibration",
    "Start",
    "best_of",
    "candidates",
    "norms_of",
    "numbers_in",
    "recalibrate",
]
