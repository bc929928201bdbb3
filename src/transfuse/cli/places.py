"""Where the files of a verb go: never onto what it reads, whatever `--force` allows.

In: options. Out: nothing, or an error before any work is done. Which options are read and which are written is said by
their records, so that a new option is looked at without a word here.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import check_regular
from .verbs import VERBS

CODE = ".py"


def check_places(options: Namespace, *further: str) -> None:
    """Refuse to write where inputs are: checkpoints, their shards and folders, data, layouts, code.

    Args:
        options: All options of a verb.
        further: Files that were read beside what the options name.

    Raises:
        InputError: an output is an input, a part of one, or code; two outputs are one file; or a path is none.
    """
    records = VERBS[options.verb].options
    outputs = [Path(text) for each in records if each.writes for text in _texts(getattr(options, each.name))]
    inputs = [Path(text) for each in records if each.is_path and not each.writes
              for text in _texts(getattr(options, each.name))] + list(map(Path, further))  # fmt: skip
    for path in (*outputs, *inputs):
        check_regular(path)
    for out in outputs:
        if out.suffix == CODE:
            raise InputError(f"{out} is the name of a file of code, which is never written; choose another ending")
        for source in inputs:
            _check_apart(out, source)
    for one, other in combinations(outputs, 2):
        if one.resolve() == other.resolve():
            raise InputError(f"{one} is named for two outputs; give each a file of its own")


def _texts(value: Any) -> Iterator[str]:
    """The paths in the value of an option; of code, `file.py:name`, the file."""
    for text in value if isinstance(value, list) else [value] if value else []:
        place, colon, _ = str(text).rpartition(":")
        yield place if colon and place.endswith(CODE) else str(text)


def _check_apart(out: Path, source: Path) -> None:
    """Refuse an output whose writing would change an input."""
    from ..checkpoints import files_of, files_replaced_by

    replaced = files_replaced_by(out)
    for file in files_of(source):
        if any(each.exists() and file.exists() and each.samefile(file) for each in replaced) or _within(out, file):
            raise InputError(
                f"{out} is one of the inputs, or a part of one ({file}); they are never written over, also with "
                "--force: write elsewhere"
            )


def _within(out: Path, source: Path) -> bool:
    """Whether an output is an existing part of an input's folder, or a folder in which an input is."""
    if not out.exists() or not source.exists():
        return False
    parts = out.resolve(), source.resolve()
    return (source.is_dir() and parts[1] in parts[0].parents) or (out.is_dir() and parts[0] in parts[1].parents)
