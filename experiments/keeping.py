"""Files of experiments: written whole or not at all; lines are added in one piece.

In: a path and what to keep. Out: the file. A kill at any moment leaves the old content, or the new; of a line that was
cut off, the reader sees nothing and the next writer begins a new line.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import torch


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to; it takes its place when it is whole, and leaves nothing if it is not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def save(path: Path, content: Any) -> None:
    """Keep tensors, and what else `torch.load` takes with `weights_only`."""
    with whole(path) as file:
        torch.save(content, file)


def write_text(path: Path, content: str) -> None:
    """Keep a text."""
    with whole(path) as file:
        file.write(content.encode())


def append(path: Path, line: dict[str, Any]) -> None:
    """Add one line of JSON, by one write; several processes may do so at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(line, allow_nan=False) + "\n"
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        torn = end > 0 and file.read(1) != b"\n"
        os.write(file.fileno(), (("\n" if torn else "") + text).encode())
        os.fsync(file.fileno())


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """All whole lines of a file; none if it is not there."""
    if not path.exists():
        return
    for text in path.read_bytes().split(b"\n"):
        try:
            line = json.loads(text)
        except ValueError:  # a torn line, or the empty rest after the last one
            continue
        if isinstance(line, dict):
            yield line
