"""A file that remembers what was measured, by the content of the networks and their coefficients.

One line of JSON for each point, appended when it is known; a run that was killed goes on where it stopped. Keys hold
hashes of the networks, so one file serves many landscapes, and other networks never find each other's values. What
`evaluate` is cannot be hashed: a point is measured again and compared (see `measuring`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from .combining import Coefficients

Values = dict[str, float]


def key_of(fingerprints: Sequence[str], coefficients: Coefficients) -> str:
    """The key of a point: hashes of the networks that take part, each with its coefficient.

    Example:
        >>> key_of(["a1", "b2", "c3"], (0.25, 0.0, 0.75))
        'a1:0.25 c3:0.75'
    """
    parts = [(name, f"{share:.12g}") for name, share in zip(fingerprints, coefficients, strict=True)]
    return " ".join(sorted(f"{name}:{share}" for name, share in parts if share not in ("0", "-0")))


class Cache:
    """Values of points by their keys, kept in a file, or in memory only if there is no path."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = None if path is None else Path(path)
        self.values: dict[str, Values] = {}
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def remember(self, key: str, values: Values) -> None:
        """Keep the values of a point, in the file too if there is one."""
        self.values[key] = values
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"point": key, "values": values}) + "\n")

    def _read(self, path: Path) -> None:
        """Read all whole lines; a last line without its end, cut when a run was killed, is taken off the file."""
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                entry = json.loads(line)
                self.values[entry["point"]] = {name: float(value) for name, value in entry["values"].items()}
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise InputError(
                    f"{path}, line {number}, cannot be read as a point of a landscape; give another file as "
                    "cache, or delete this one"
                ) from error
        if whole != content:
            if not whole and not content.startswith(b'{"point"'[: len(content)]):
                raise InputError(f"{path} is not a cache of landscapes; give another file as cache")
            os.truncate(path, len(whole))
