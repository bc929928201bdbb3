"""Checkpoints: from files to states and back.

In: safetensors (one file, or several with an index), files of `torch.save`, Hugging Face folders, export archives. Out:
states whose tensors are read when asked for. Results are written whole or not at all, with their provenance and a model
card. Not here: modules.
"""

from .opening import fitted, open_checkpoint
from .provenance import KEY, Provenance, card, card_path, sources
from .records import Checkpoint, Wrapping, size_told
from .writing import SHARD, check_writable, write_checkpoint

__all__ = [
    "KEY",
    "SHARD",
    "Checkpoint",
    "Provenance",
    "Wrapping",
    "card",
    "card_path",
    "check_writable",
    "fitted",
    "open_checkpoint",
    "size_told",
    "sources",
    "write_checkpoint",
]
