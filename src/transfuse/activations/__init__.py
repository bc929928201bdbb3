"""What networks compute on inputs: sites where weights are applied, batches of inputs, activations as terms."""

from .batches import IMAGES, Batch, Batches
from .recurrence import Recurrence
from .replaying import Replay, Runs
from .sites import Norm, Seen, observe, replayed, together
from .terms import Terms, activation_terms

__all__ = [
    "IMAGES",
    "Batch",
    "Batches",
    "Norm",
    "Recurrence",
    "Replay",
    "Runs",
    "Seen",
    "Terms",
    "activation_terms",
    "observe",
    "replayed",
    "together",
]
