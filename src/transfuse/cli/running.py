"""`main`: arguments in, exit code out. The one place where results are printed and errors become messages."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import traceback
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from types import FrameType
from typing import Any

from ..errors import FusionError, InputError, LayoutError, printable
from .handlers import handler_of
from .parser import parse
from .places import check_places
from .records import Outcome

# The extra of this package that brings a package which is not installed.
EXTRAS = {"transformers": "transformers", "matplotlib": "plots", "shtab": "completion"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    previous = _stop_politely()
    try:
        return _done(given)
    except BaseException as error:  # the outermost place: whatever was raised is told, and --debug shows all of it
        if "--debug" in given:
            traceback.print_exc()
        message, code = _told(error)
        if sys.stderr is not None:  # it is not where it was closed before the start
            print(printable(message, keep="\n\t"), file=sys.stderr)
        return code
    finally:
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)


def _done(given: Sequence[str]) -> int:
    """Do what the arguments ask for, print what there is to say; gives the exit code."""
    try:
        options = parse(given)
    except SystemExit as stop:  # --help, which is printed by now
        _write("")
        return int(stop.code or 0)
    if options.version:
        _write(f"transfuse {import_module('transfuse').__version__}\n")
        return 0
    with redirect_stdout(sys.stderr):  # what code of the user's prints: standard output has the result and nothing else
        check_places(options)
        outcome = handler_of(options.verb)(options)
    _print(outcome, options)
    return int(outcome.failed)


def _print(outcome: Outcome, options: Namespace) -> None:
    """Print what a verb has to say, in the form that was asked for."""
    if options.json:
        _write(json.dumps(_valid(outcome.data), indent=2, default=str, allow_nan=False) + "\n")
    elif outcome.text and (outcome.asked or (not options.quiet and sys.stdout is not None)):
        _write(printable(outcome.text, keep="\n\t") + "\n")


def _valid(value: Any) -> Any:
    """A value as JSON can hold it, which knows neither NaN nor infinity: null stands for these."""
    if isinstance(value, Mapping):
        return {key: _valid(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_valid(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write(text: str) -> None:
    """Write to standard output, all of it at once; that a reader such as `head` has gone is no error.

    Raises:
        InputError: nothing can be written there.
    """
    if sys.stdout is None:
        raise InputError("standard output is closed, and the result goes there; open it, or send it to a file (>)")
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still flushes at its end
        if not isinstance(error, BrokenPipeError):
            raise InputError(f"standard output cannot be written to ({error.strerror}); send it elsewhere") from error


def _told(error: BaseException) -> tuple[str, int]:
    """The message and the exit code for an error."""
    hint = " (--debug shows where)"
    match error:
        case KeyboardInterrupt():
            message, code = "stopped; nothing was left half-written", 130
        case _Terminated():
            message, code = "terminated; nothing was left half-written", 143
        case SystemExit():
            ended = f"sys.exit({error.code!r})"
            message, code = f"code that was run ended the program by {ended}, before the work was done{hint}", 1
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
