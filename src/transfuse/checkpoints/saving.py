"""`save_module`: a module to a file or folder, where no input file says in which manner."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import nn

from ..errors import InputError
from ..files import check_new
from ..modules import state_of, ties_of
from .format import Output
from .hugging_face_folder import FORMAT as HUGGING_FACE_FOLDER
from .opening import open_checkpoint
from .provenance import Provenance
from .records import Checkpoint, Wrapping
from .table import FORMATS
from .transformers_models import quietly


def save_module(out: Path, model: nn.Module, provenance: Provenance) -> Path:
    """Write the state of a module, with its provenance, whole or not at all; what is there is replaced.

    Args:
        out: Where to; the ending says the format. Without one, a folder for a model of transformers.
        model: The module; it stays as it is.
        provenance: What was done to which networks.

    Raises:
        InputError: the ending is unknown, the folder does not exist, or there is a folder of others.
    """
    rows = [row for row in FORMATS if row.endings and not row.copies_input]
    found = next((row for row in rows if out.name.endswith(row.endings)), None)
    check_new(out, force=True)
    if found is None and not out.suffix and hasattr(model, "save_pretrained"):
        return _save_folder(out, model, provenance)
    if found is None or out.is_dir():
        endings = ", ".join(ending for row in rows for ending in row.endings)
        raise InputError(
            f"{out}: the ending says the format; expected one of {endings}; or, for a model of transformers, a folder"
        )
    state = state_of(model)
    wrapping = Wrapping(versions=dict(getattr(model.state_dict(), "_metadata", {})))
    like = Checkpoint(out, found.name, state, (), ties_of(state), {}, wrapping)
    found.write(out, Output(state, like, provenance))
    return out


def _save_folder(out: Path, model: Any, provenance: Provenance) -> Path:
    """Have transformers write a model of its own, and copy that folder with the provenance and a card."""
    with TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as place:
        with quietly():
            model.save_pretrained(place)
        like = open_checkpoint(place)
        HUGGING_FACE_FOLDER.write(out, Output(like.tensors, like, provenance))
    return out
