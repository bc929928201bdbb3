"""Code that the user names: imported and called here, and nowhere else.

In: a text such as `package.module:name` or `file.py:name`. Out: what it stands for. Whatever that code raises becomes
an error that says what was called, what was raised, and in which line of which file.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import FusionError, InputError

# Beginnings of paths of code that is not the user's: ours, Python's, installed packages, and "<frozen importlib...>".
_NOT_THE_USERS = (
    str(Path(__file__).parents[1]), "<", *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
)  # fmt: skip


@contextmanager
def blaming(what: str, remedy: str) -> Iterator[None]:
    """Run code that is not ours; what it raises becomes an `InputError` whose cause is the original one.

    Args:
        what: What failed, as the beginning of a sentence.
        remedy: What to do about it.
    """
    try:
        yield
    except FusionError:
        raise
    except (Exception, SystemExit) as error:  # code of the user's may raise anything; the cause is told and kept
        raise InputError(f"{what} ({_cause(error)}); {remedy}") from error


def _cause(error: BaseException) -> str:
    """What was raised, and in which line of the user's."""
    lines = [
        f", in {Path(frame.filename).name}, line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_THE_USERS)
    ]
    return f"{type(error).__name__}: {error}{lines[-1] if lines else ''}"


def imported(spec: str, flag: str) -> Any:
    """What `module:name` or `file.py:name` stands for.

    Raises:
        InputError: there is no such file or name, or importing it failed.
    """
    place, _, name = spec.rpartition(":")
    if place.endswith(".py") and not Path(place).is_file():
        raise InputError(f"{flag} {spec}: there is no file {place}; check the path")
    with blaming(f"{flag} {spec}: {place} cannot be imported", "mend it, or check the name and what is installed"):
        found = _from_file(Path(place)) if place.endswith(".py") else _from_path(place)
    for part in name.split("."):
        if not hasattr(found, part):
            names = [each for each in vars(found) if not each.startswith("_") and callable(vars(found)[each])]
            listed = ", ".join(names[:12]) or "nothing that can be called"
            raise InputError(f"{flag} {spec}: {place} has no {part}; it has {listed}")
        found = getattr(found, part)
    return found


def _from_path(name: str) -> Any:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does; a console script does not
    return importlib.import_module(name)


def _from_file(path: Path) -> Any:
    name = f"_transfuse_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, f"{path} ends in .py"
    assert spec.loader is not None, f"{path} ends in .py"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))  # its neighbours, as when it is run
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module
