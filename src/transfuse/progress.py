"""How far long work is: a tqdm bar on a terminal and in a notebook, lines in a log, or a function of the user.

In: what the user asked for. Out: a watcher, to be called as `watch(stage, done, total)`. The work itself knows nothing
of how it is shown. `tqdm.auto`, which looks for notebooks, is imported when the first bar is drawn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Literal

from .types import Watch

Progress = bool | Literal["always"] | Watch

PAUSE = 0.1  # seconds between two drawings: terminals and notebooks are slow, and stages of small networks short
LOOK = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]"  # tqdm's own without the rate: steps differ in size


def unwatched(stage: str, done: int, total: int) -> None:
    """The watcher that shows nothing."""


@contextmanager
def watching(progress: Progress, label: str) -> Iterator[Watch]:
    """A watcher for what the user asked for.

    Args:
        progress: False for silence; True for a bar where standard error is a terminal or belongs to a notebook;
            "always" for the bar there, and elsewhere for a line about each finished stage; or a function
            `watch(stage, done, total)`, which is used as it is.
        label: What is being done; it stands before the stage.

    The bar shows one stage after the other in the same place, and is wiped at the end, also after an error.
    """
    if callable(progress):
        yield progress
    elif progress and (sys.stderr.isatty() or _in_notebook()):
        with closing(_Bar(label)) as bar:
            yield bar.show
    elif progress == "always":
        yield _logger(label)
    else:
        yield unwatched


def _in_notebook() -> bool:
    """Whether cells of a notebook are run here; IPython in a terminal is none."""
    ipython = sys.modules.get("IPython")  # a kernel has imported it before it runs the first cell
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


class _Bar:
    """A tqdm bar that is made when there is something to show, and starts again with each stage."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.bar: Any = None
        self.text = ""
        self.drawn = -PAUSE

    def show(self, stage: str, done: int, total: int) -> None:
        """Draw how far a stage is, unless something was drawn a moment ago."""
        if time.monotonic() - self.drawn < PAUSE:
            return
        text = f"{self.label}, {stage}"
        if self.bar is None:
            self.bar = _new_bar(text, total)
        elif (text, total) != (self.text, self.bar.total):
            self.bar.set_description_str(text, refresh=False)
            self.bar.reset(total)  # the time that is left is reckoned from here
        self.text = text
        self.bar.n = done
        self.bar.refresh()
        self.drawn = time.monotonic()

    def close(self) -> None:
        """Wipe the bar, if one was drawn."""
        if self.bar is not None:
            self.bar.close()


def _new_bar(text: str, total: int) -> Any:
    from tqdm.auto import tqdm

    class Unmonitored(tqdm):  # type: ignore[misc]  # without types
        # tqdm would start a thread that redraws bars which stand still; processes that are forked beside a thread
        # (`landscape` does so) may hang.
        monitor_interval = 0

    return Unmonitored(desc=text, total=total, bar_format=LOOK, leave=False, dynamic_ncols=True)


def _logger(label: str) -> Watch:
    """A watcher that writes a line to standard error when a stage is done."""
    stream = sys.stderr

    def watch(stage: str, done: int, total: int) -> None:
        if done == total:
            stream.write(f"{label}: {stage} done\n")
            stream.flush()

    return watch
