"""A progress line on standard error, for everything that takes long; the core knows nothing of it.

`progress` counts steps of known number. `watching` gives a watcher `watch(stage, done, total)` for fusions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TextIO

Watch = Callable[[str, int, int], None]
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


@contextmanager
def progress(label: str, total: int, *, show: bool = True) -> Iterator[Callable[[], None]]:
    """A function to be called after each of `total` steps, which tells how long the rest will take."""
    started, done = time.monotonic(), 0

    def step() -> None:
        nonlocal done
        done += 1
        rest = (time.monotonic() - started) / done * (total - done)
        watch(f"about {rest:.0f} s left", done, total)

    with watching(show, label) as watch:
        yield step


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
