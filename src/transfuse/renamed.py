"""Names that were changed, so that an old one gives an error that tells the new one.

In: a name as a user wrote it. Out: what it is called now. A name that is changed gets one line in `RENAMED`, where the
package, the records that users read, `fuse` and the command line look it up.
"""

from __future__ import annotations

from typing import NoReturn

# As a user writes them: a name of the package, an attribute of a record, an argument, an option of the command.
RENAMED = {
    "transfuse.recalibrate": "transfuse.correct",
    "transfuse.Recalibration": "transfuse.Corrected",
    "transfuse.Action": "transfuse.Permutation",
    "Fusion.recalibration": "Fusion.correction",
    "Method.finish": "Method.correct",
    "finish=": "correct=",
    "--recalibrate": "--correct",
    "recalibrate:": "correct:",
}


def told_renamed(old: str) -> str | None:
    """A sentence that tells the new name, if this is an old one.

    Example:
        >>> told_renamed("--recalibrate")
        '--recalibrate is called --correct now'
    """
    return f"{old} is called {RENAMED[old]} now" if old in RENAMED else None


def missing_attribute(record: object, name: str) -> NoReturn:
    """The `__getattr__` of a record some of whose attributes were renamed.

    Raises:
        AttributeError: always; it tells the new name of an old one.
    """
    kind = type(record).__name__
    raise AttributeError(told_renamed(f"{kind}.{name}") or f"{kind!r} object has no attribute {name!r}")
