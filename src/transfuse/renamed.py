"""Names that were changed, so that an old one gives an error that tells the new one.

In: a name as a user wrote it. Out: what it is called now. A name that is changed gets one line in `RENAMED`, where the
package, the records that users read or make, `fuse` and the command line look it up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

# As a user writes them: a name of the package or of a room of it, an attribute of a record (of a module: with nothing
# before the dot), an argument (with the name of its record or function), an option of the command, a key of its YAML
# files.
RENAMED = {
    "transfuse.recalibrate": "transfuse.correct",
    "transfuse.Recalibration": "transfuse.Corrected",
    "transfuse.Action": "transfuse.Permutation",
    "transfuse.layout.random_actions": "transfuse.layout.random_elements",
    "Fusion.recalibration": "Fusion.correction",
    ".recalibration": ".correction",
    "Method.finish": "Method.correct",
    "Method(finish=)": "Method(correct=)",
    "Correction.parents": "Correction.needs_parents",
    "Correction(parents=)": "Correction(needs_parents=)",
    "Correction.noise": "Correction.for_synthetic",
    "Correction(noise=)": "Correction(for_synthetic=)",
    "Space(signs=)": "Space(symmetry=Symmetry(signs=))",
    "Space(scales=)": "Space(symmetry=Symmetry(scales=))",
    "permute(actions=)": "permute(elements=)",
    "finish=": "correct=",
    "--recalibrate": "--correct",
    "recalibrate:": "correct:",
}

Kind = TypeVar("Kind")
Result = TypeVar("Result")
Given = ParamSpec("Given")


def told_renamed(old: str) -> str | None:
    """A sentence that tells the new name, if this is an old one.

    Example:
        >>> told_renamed("--recalibrate")
        '--recalibrate is called --correct now'
    """
    return f"{old} is called {RENAMED[old]} now" if old in RENAMED else None


def refuse_name(module: str, name: str) -> NoReturn:
    """Raise the error of a name that a module does not have, for its `__getattr__`; an old name is told its new one.

    Raises:
        ImportError: `from module import name` asks for an old name: it would drop the text of an AttributeError.
        AttributeError: in all other cases.
    """
    told = told_renamed(f"{module}.{name}")
    if told and "importlib" in sys._getframe(2).f_globals["__name__"]:
        raise ImportError(told, name=module)
    raise AttributeError(told or f"module {module!r} has no attribute {name!r}")


def telling_new_arguments(function: Callable[Given, Result], name: str | None = None) -> Callable[Given, Result]:
    """A decorator: old arguments of a function, or of what is made under a name, give errors that tell the new ones."""

    @wraps(function)
    def checked(*given: Given.args, **named: Given.kwargs) -> Result:
        if told := [text for key in named if (text := told_renamed(f"{name or function.__name__}({key}=)"))]:
            raise TypeError("; ".join(told))
        return function(*given, **named)

    return checked


def telling_new_names(record: type[Kind]) -> type[Kind]:
    """A class decorator: old attributes and arguments of a record give errors that tell the new ones."""
    kind = record.__name__

    def missing(self: Kind, name: str) -> NoReturn:
        raise AttributeError(told_renamed(f"{kind}.{name}") or f"{kind!r} object has no attribute {name!r}")

    record.__init__ = telling_new_arguments(record.__init__, kind)  # type: ignore[method-assign]
    record.__getattr__ = missing  # type: ignore[attr-defined]
    return record


@dataclass(frozen=True)
class OldAttribute:
    """Stands where a module of the user had an attribute that is called otherwise now: shows and raises its new name.

    The class of a module is the user's, so there is no other place from which an old attribute could tell.
    """

    name: str

    def __repr__(self) -> str:
        return told_renamed(self.name) or self.name

    def __getattr__(self, name: str) -> NoReturn:
        # copying and pickling ask for special names, also before there is anything to tell
        raise AttributeError(name if name.startswith("__") else repr(self))
