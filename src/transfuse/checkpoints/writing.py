"""`write_checkpoint`: a state to a file or folder, whole or not at all, in the manner of the first input.

The ending of the path decides the format, by the table of formats; a path without a known ending is a folder like that
of the first input.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from ..errors import InputError
from ..files import whole_file, write_whole
from .format import Format, Output
from .provenance import card, card_path
from .records import Checkpoint, size_told
from .table import FORMATS


def check_writable(out: Path, like: Checkpoint, needed: int, *, force: bool = False) -> None:
    """Refuse what cannot be written, before any work is done.

    Args:
        out: Where the result goes.
        like: The first input.
        needed: Bytes of the result.
        force: What is there may be replaced.

    Raises:
        InputError: the result exists, its folder does not or is not writable, the disk is full, or the ending is
            unknown or does not suit the first input.
    """
    _format_of(out, like)
    if out.exists() and not force:
        raise InputError(f"{out} exists; pass --force to replace it, or another path")
    folder = out.parent
    if not folder.is_dir():
        raise InputError(f"the folder {folder} does not exist; create it first (mkdir -p), or write elsewhere")
    try:
        with whole_file(folder / f".{out.name}.probe") as temporary:
            temporary.touch()
        (folder / f".{out.name}.probe").unlink()
    except OSError as error:
        raise InputError(f"nothing can be written to {folder} ({error.strerror}); choose another folder") from error
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"{out} needs {size_told(needed)}, but {folder} has only {size_told(free)} free; make room, or write "
            "elsewhere"
        )


def write_checkpoint(out: Path, output: Output) -> list[Path]:
    """Write a state and its model card; gives the files written."""
    written = _format_of(out, output.like).write(out, output)
    path = card_path(out)
    return written if path in written else [*written, write_whole(path, card(output.provenance, out.name).encode())]


def _format_of(out: Path, like: Checkpoint) -> Format:
    """The format that a path asks for."""
    named = next((row for row in FORMATS if row.endings and out.name.endswith(row.endings)), None)
    if named is not None and named.copies_input and like.kind != named.name:
        raise InputError(f"{out}: {named.title} can only be written when the first input is one")
    folder = next((row for row in FORMATS if not row.endings and row.name == like.kind and not out.is_file()), None)
    if found := named or folder:
        return found
    raise InputError(f"{out}: the ending says the format; expected {', '.join(map(_asked_by, FORMATS))}")


def _asked_by(row: Format) -> str:
    """How a path asks for a format, and with which first input only."""
    return (", ".join(row.endings) or "a folder") + (f" (first input {row.title})" if row.copies_input else "")
