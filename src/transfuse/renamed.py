"""Names that were changed, so that an old one gives an error that tells the new one.

In: a name as a user wrote it. Out: what it is called now. A name that is changed gets one line in `RENAMED`, where the
package, the records that users read or make, `fuse` and the command line look it up.
"""

from __future__ import annotations

from functools import wraps
from typing import Any, NoReturn, TypeVar

# As a user writes them: a name of the package, an attribute of a record, an argument (of a record: with its name), an
# option of the command, a key of its YAML files.
RENAMED = {
    "transfuse.recalibrate": "transfuse.correct",
    "transfuse.Recalibration": "transfuse.Corrected",
    "transfuse.Action": "transfuse.Permutation",
    "Fusion.recalibration": "Fusion.correction",
    "Method.finish": "Method.correct",
    "Method(finish=)": "Method(correct=)",
    "Correction.parents": "Correction.needs_parents",
    "Correction(parents=)": "Correction(needs_parents=)",
    "Correction.noise": "Correction.for_synthetic",
    "Correction(noise=)": "Correction(for_synthetic=)",
    "Space(signs=)": "Space(symmetry=Symmetry(signs=))",
    "Space(scales=)": "Space(symmetry=Symmetry(scales=))",
    "finish=": "correct=",
    "--recalibrate": "--correct",
    "recalibrate:": "correct:",
}

Kind = TypeVar("Kind")


def told_renamed(old: str) -> str | None:
    """A sentence that tells the new name, if this is an old one.

    Example:
        >>> told_renamed("--recalibrate")
        '--recalibrate is called --correct now'
    """
    return f"{old} is called {RENAMED[old]} now" if old in RENAMED else None


def telling_new_names(record: type[Kind]) -> type[Kind]:
    """A class decorator: old attributes and arguments of a record give errors that tell the new ones."""
    kind, make = record.__name__, record.__init__

    @wraps(make)
    def checked(self: Kind, *given: Any, **named: Any) -> None:
        if told := [text for name in named if (text := told_renamed(f"{kind}({name}=)"))]:
            raise TypeError("; ".join(told))
        make(self, *given, **named)

    def missing(self: Kind, name: str) -> NoReturn:
        raise AttributeError(told_renamed(f"{kind}.{name}") or f"{kind!r} object has no attribute {name!r}")

    record.__init__ = checked  # type: ignore[method-assign, assignment]
    record.__getattr__ = missing  # type: ignore[attr-defined]
    return record
