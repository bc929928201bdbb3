"""`write_checkpoint`: a state to a file or folder, whole or not at all, in the manner of the first input.

The ending of the path decides the format, by the table of formats; a path without a known ending is a folder like that
of the first input.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ..errors import FusionError, InputError
from ..files import check_new, whole_file, write_whole
from .format import Format, Output
from .hugging_face_folder import check_replaceable
from .model_card import card, card_path
from .records import Checkpoint, size_told
from .sharded_files import INDEX, shards_written_for
from .table import FORMATS


def files_replaced_by(out: Path) -> list[Path]:
    """What writing to a path would replace or remove: what is there and, for an index, the shards written for it."""
    index = out.name.endswith(INDEX) and out.parent.is_dir()
    return [out, *(sorted(shards_written_for(out)) if index else [])]


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
    row = _format_of(out, like, FORMATS)
    check_new(out, force=force)
    if not row.endings:
        check_replaceable(out)
    folder = out.parent
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


def write_checkpoint(out: Path, output: Output, *, formats: Sequence[Format] = FORMATS) -> list[Path]:
    """Write a state, then its model card; gives the files written.

    Args:
        out: Where to; the ending says the format.
        output: The state, and what is written with it.
        formats: The table of formats.

    Raises:
        InputError: the ending is unknown or does not suit the first input.
        FusionError: the state is written, but its card could not be.
    """
    written = _format_of(out, output.like, formats).write(out, output)
    path = card_path(out)
    if path in written:
        return written
    try:
        return [*written, write_whole(path, card(output.provenance, out.name).encode())]
    except OSError as error:
        raise FusionError(
            f"the checkpoint {out} is written and whole; its model card is not: {path}: {error.strerror or error}"
        ) from error


def _format_of(out: Path, like: Checkpoint, formats: Sequence[Format]) -> Format:
    """The format that a path asks for."""
    named = next((row for row in formats if row.endings and out.name.endswith(row.endings)), None)
    if named is not None and named.copies_input and like.kind != named.name:
        raise InputError(f"{out}: {named.title} can only be written when the first input is one")
    folder = next((row for row in formats if not row.endings and row.name == like.kind and not out.is_file()), None)
    if found := named or folder:
        return found
    raise InputError(f"{out}: the ending says the format; expected {', '.join(map(_asked_by, formats))}")


def _asked_by(row: Format) -> str:
    """How a path asks for a format, and with which first input only."""
    return (", ".join(row.endings) or "a folder") + (f" (first input {row.title})" if row.copies_input else "")
