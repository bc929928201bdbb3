"""What networks compute on inputs: sites where weights are applied, batches of data, inputs made of noise, dreams."""

from .batches import Batch, Batches, Forward
from .dreams import STEPS as DREAM_STEPS
from .dreams import dreamt
from .noise import synthetic
from .recurrence import Recurrence
from .sites import Norm, Seen, together, watch
from .terms import Terms, activation_terms

__all__ = [
    "DREAM_STEPS",
    "Batch",
    "Batches",
    "Forward",
    "Norm",
    "Recurrence",
    "Seen",
    "Terms",
    "activation_terms",
    "dreamt",
    "synthetic",
    "together",
    "watch",
]
