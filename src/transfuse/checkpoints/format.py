"""What a format of checkpoints is: how to recognise, open and write one. The formats themselves are in `table`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..types import State
from .provenance import Provenance
from .records import Checkpoint

SHARD = 5 * 10**9  # bytes of one file; what model hubs prefer

# Opens a file of whatever format: a format that names other files, as an index of shards does, opens them by this.
Opener = Callable[[Path], Checkpoint]


@dataclass(frozen=True, eq=False)
class Output:
    """A state that is to be written, and what is written with it.

    Args:
        tensors: The state, under the names of the model; read one after another, maybe more than once.
        like: The first input: wrapping, ties, metadata and, for folders and archives, everything else.
        provenance: What was done to which files.
        shard_bytes: Most bytes of one file, in formats that may have several.
        sizes: Values for the configuration of a folder, by the keys that lead to them: of other widths or outputs.
    """

    tensors: State
    like: Checkpoint
    provenance: Provenance
    shard_bytes: int = SHARD
    sizes: Mapping[tuple[str, ...], Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Format:
    """A format of checkpoints: a row of the table of formats.

    Args:
        name: How the format is called in what is told and in `Checkpoint.kind`.
        title: The format in the middle of a sentence: `an export archive`.
        endings: How names of files in this format end when they are written; none: it is a folder.
        recognises: Whether what is at a path is in this format.
        open: Opens what is at a path; tensors are read when they are asked for.
        write: Writes a state to a path, whole or not at all; gives the files written.
        copies_input: A result is a copy of the first input with other weights, which must be in this format, too.
    """

    name: str
    title: str
    endings: tuple[str, ...]
    recognises: Callable[[Path], bool]
    open: Callable[[Path, Opener], Checkpoint]
    write: Callable[[Path, Output], list[Path]]
    copies_input: bool = False
