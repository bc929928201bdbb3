"""A progress line on standard error, for everything that takes long; the core knows nothing of it.

In: what the user asked for. Out: a watcher, to be called as `watch(stage, done, total)`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TextIO

from .types import Watch

Progress = bool | Literal["always"] | Watch

WIDTH = 24
PAUSE = 0.1  # seconds between two drawings: a terminal is slow


@contextmanager
def watching(progress: Progress, label: str) -> Iterator[Watch]:
    """A watcher for what was asked: a line on standard error if that is a terminal (or always), or the user's own.

    On a terminal the line is drawn over and over, and wiped in the end. Elsewhere every finished stage is a line.
    """
    stream = sys.stderr
    if callable(progress):
        yield progress
    elif progress and stream.isatty():
        try:
            yield _line(label, stream)
        finally:
            stream.write("\r\x1b[K")
            stream.flush()
    elif progress == "always":
        yield _log(label, stream)
    else:
        yield lambda stage, done, total: None


def _line(label: str, stream: TextIO) -> Watch:
    last = 0.0

    def watch(stage: str, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last < PAUSE:
            return
        last = time.monotonic()
        filled = WIDTH * done // max(total, 1)
        stream.write(f"\r\x1b[K{label} [{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total} {stage}")
        stream.flush()

    return watch


def _log(label: str, stream: TextIO) -> Watch:
    def watch(stage: str, done: int, total: int) -> None:
        if done == total:
            stream.write(f"{label}: {stage} done\n")
            stream.flush()

    return watch
