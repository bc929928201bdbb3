"""Checkpoints: from files to states and back.

In: safetensors (one file, or several with an index), files of `torch.save`, Hugging Face folders, export archives. Out:
states whose tensors are read when asked for. Results are written whole or not at all, with their provenance and a model
card. A format is a file of this room and a row of `FORMATS`. Modules only come in to be saved (`save_module`), and
where transformers alone knows how names on disk become those of a module (`transformers_models`).
"""

from .configured_sizes import configured, described_shapes, sizes_for
from .format import SHARD, Format, Output
from .model_card import card, card_path
from .opening import files_of, fitted, open_checkpoint
from .provenance import Origin, Provenance
from .records import KEY, Checkpoint, Wrapping, size_told
from .saving import save_module
from .table import FORMATS
from .transfer import Transfer, open_transfer
from .transformers_models import CONFIG, check_described_size, configuration, model_class
from .writing import check_writable, files_replaced_by, write_checkpoint

__all__ = [
    "CONFIG",
    "FORMATS",
    "KEY",
    "SHARD",
    "Checkpoint",
    "Format",
    "Origin",
    "Output",
    "Provenance",
    "Transfer",
    "Wrapping",
    "card",
    "card_path",
    "check_described_size",
    "check_writable",
    "configuration",
    "configured",
    "described_shapes",
    "files_of",
    "files_replaced_by",
    "fitted",
    "model_class",
    "open_checkpoint",
    "open_transfer",
    "save_module",
    "size_told",
    "sizes_for",
    "write_checkpoint",
]
