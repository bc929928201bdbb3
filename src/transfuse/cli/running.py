"""`main`: arguments in, exit code out. The one place where results are printed and errors become messages."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Any

from ..errors import FusionError, InputError, LayoutError
from .handlers import handler_of
from .parser import parse
from .records import Outcome

# The extra of this package that brings a package which is not installed.
EXTRAS = {"transformers": "transformers", "matplotlib": "plots", "shtab": "completion"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    previous = _stop_politely()
    try:
        options = parse(given)
        outcome = Outcome(text=_version()) if options.version else handler_of(options.verb)(options)
        _print(outcome, options)
        return int(outcome.failed)
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except BaseException as error:  # the outermost place: whatever was raised is told, and --debug shows all of it
        if debug:
            traceback.print_exc()
        message, code = _told(error)
        print(message, file=sys.stderr)
        return code
    finally:
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)


def _version() -> str:
    return f"transfuse {import_module('transfuse').__version__}"


def _print(outcome: Outcome, options: Namespace) -> None:
    """Print what a verb has to say, in the form that was asked for."""
    if getattr(options, "json", False):
        print(json.dumps(outcome.data, indent=2, default=str))
    elif outcome.text and (outcome.asked or not getattr(options, "quiet", False)):
        print(outcome.text)
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # `transfuse inspect ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told(error: BaseException) -> tuple[str, int]:
    """The message and the exit code for an error."""
    hint = " (--debug shows where)"
    match error:
        case KeyboardInterrupt():
            message, code = "stopped; nothing was left half-written", 130
        case _Terminated():
            message, code = "terminated; nothing was left half-written", 143
        case InputError() | LayoutError():
            message, code = str(error), 2
        case FusionError():
            message, code = str(error), 1
        case ModuleNotFoundError() if error.name:
            message, code = missing(error.name), 1
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            message, code = f"{where}{error.strerror or error}; nothing was left half-written{hint}", 1
        case MemoryError():
            message, code = f"not enough memory; try --low-memory{hint}", 1
        case _:
            message, code = f"an error that was not foreseen: {type(error).__name__}: {error}{hint}", 1
    return f"transfuse: {message}", code


def missing(package: str) -> str:
    """The message about a package that is not installed, with the way to install it."""
    name = package.split(".", maxsplit=1)[0]
    install = f"transfuse[{EXTRAS[name]}]" if name in EXTRAS else name
    return f"this needs the package {name}, which is not installed: pip install '{install}'"


class _Terminated(BaseException):
    """SIGTERM: leave through every `finally`, so that temporary files are removed."""


def _stop_politely() -> Any:
    """Have SIGTERM raise; gives the handler that was there before, or nothing outside the main thread."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    try:
        return signal.signal(signal.SIGTERM, stop)
    except ValueError:
        return None
