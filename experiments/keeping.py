"""Files of experiments: written whole or not at all.

In: a path and what to keep. Out: the file. A kill at any moment leaves the old content, or the new. Lines of results
are added by `transfuse.files`.
"""

from __future__ import annotations

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
