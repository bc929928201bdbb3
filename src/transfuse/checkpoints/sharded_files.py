"""Several files with tensors, and an index in JSON that says which tensor is in which of them.

In: the path of an index. Out: all tensors as one state; and the way back, to shards of the safetensors format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import InputError, listing
from ..files import whole_file, write_whole
from ..lazy import Entry, LazyState, entries_of
from .format import Format, Opener, Output
from .records import Checkpoint
from .safetensors_file import ENDING, stored, with_ties, write

INDEX = ".index.json"


def _open(path: Path, opener: Opener) -> Checkpoint:
    homes = _homes(path)
    files = tuple(dict.fromkeys(homes.values()))
    if missing := [file.name for file in files if not file.exists()]:
        raise InputError(listing(f"{path} names files that are not there:", missing))
    parts = {file: opener(file) for file in files}
    absent = [f"{name} in {file.name}" for name, file in homes.items() if name not in parts[file].tensors]
    if absent:
        raise InputError(listing(f"{path} names tensors that are not there:", absent))
    entries = [entries_of(parts[file].tensors)[name] for name, file in homes.items()]
    tensors = LazyState(entries, lambda entry: parts[homes[entry.name]].tensors[entry.name])
    metadata = {key: text for part in parts.values() for key, text in part.metadata.items()}
    return replace(with_ties(path, tensors, metadata, FORMAT.name), files=files)


def _homes(index: Path) -> dict[str, Path]:
    """The file in which each tensor is."""
    try:
        content = json.loads(index.read_text("utf-8"))
        return {str(name): index.parent / str(file) for name, file in content["weight_map"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{index} is no index of a sharded checkpoint; expected JSON with a weight_map") from error


def write_shards(out: Path, output: Output) -> list[Path]:
    """Write shards under new names, then the index in one step: it names the old shards or the new ones.

    Shards that only the old index named are removed at the end.
    """
    before = _shards_named_by(out)
    tensors, metadata = stored(output)
    groups = _groups(list(tensors.entries.values()), output.shard_bytes)
    stem = out.name.removesuffix(f"{ENDING}{INDEX}")
    mark = hashlib.sha256(output.provenance.json().encode()).hexdigest()[:8]
    files: list[Path] = []
    homes: dict[str, str] = {}
    for number, group in enumerate(groups, start=1):
        file = out.with_name(f"{stem}-{mark}-{number:05}-of-{len(groups):05}{ENDING}")
        with whole_file(file) as temporary, temporary.open("wb") as opened:
            write(opened, group, tensors, metadata)
        files.append(file)
        homes |= {entry.name: file.name for entry in group}
    total = sum(entry.bytes for group in groups for entry in group)
    index = {"metadata": {"total_size": total}, "weight_map": homes}
    write_whole(out, (json.dumps(index, indent=2) + "\n").encode())
    for old in before - set(files):
        old.unlink(missing_ok=True)
    return [out, *files]


def _shards_named_by(index: Path) -> set[Path]:
    try:
        names: dict[str, Any] = json.loads(index.read_text("utf-8"))["weight_map"]
    except (OSError, ValueError, KeyError):
        return set()
    return {index.parent / name for name in names.values() if Path(name).name == name}


def _groups(entries: Sequence[Entry], most: int) -> list[list[Entry]]:
    """Neighbours together, as many as fit into `most` bytes."""
    groups: list[list[Entry]] = [[]]
    for entry in entries:
        if groups[-1] and sum(each.bytes for each in groups[-1]) + entry.bytes > most:
            groups.append([])
        groups[-1].append(entry)
    return groups


FORMAT = Format(
    "sharded", "an index of shards", (f"{ENDING}{INDEX}",), lambda path: path.is_file() and path.name.endswith(INDEX),
    _open, write_shards,
)  # fmt: skip
