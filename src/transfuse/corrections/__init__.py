"""Corrections of fused networks by inputs without labels: batch-norm statistics, repair, refit."""

from .aims import AIMS, AUTO_AIM, MEAN
from .batch_norm import norms_of
from .choose import Uncorrected, best_of, candidates, correct
from .chosen import ChosenCorrection
from .control import Control, nearest_control, refitted_parent
from .corrected import Corrected
from .refit import refit_site
from .table import AUTO, CORRECTIONS, NONE, Correction
from .task import Sample, Task
from .units import Units

__all__ = [
    "AIMS",
    "AUTO",
    "AUTO_AIM",
    "CORRECTIONS",
    "MEAN",
    "NONE",
    "ChosenCorrection",
    "Control",
    "Corrected",
    "Correction",
    "Sample",
    "Task",
    "Uncorrected",
    "Units",
    "best_of",
    "candidates",
    "correct",
    "nearest_control",
    "norms_of",
    "refit_site",
    "refitted_parent",
]
