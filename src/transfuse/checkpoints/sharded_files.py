"""Several files with tensors, and an index in JSON that says which tensor is in which of them.

In: the path of an index. Out: all tensors as one state; and the way back, to shards of the safetensors format. A shard
tells in its metadata for which index it was written: only by that it is known as one which may be removed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import InputError, listing
from ..files import locked, put, read_text, temporary_files, write_whole
from ..lazy import Entry, LazyState, entries_of
from .format import Format, Opener, Output
from .provenance import sha256
from .records import KEY, Checkpoint
from .safetensors_file import ENDING, read, stored, with_ties, write

INDEX = ".index.json"
WRITTEN_FOR = f"{KEY}.index"  # key in the metadata of a shard: the name of the index that it was written for


def _open(path: Path, opener: Opener) -> Checkpoint:
    """The checkpoint in the files that an index names."""
    homes = _homes(path)
    files = tuple(dict.fromkeys(homes.values()))
    if strange := [str(file) for file in files if file.exists() and (not file.is_file() or file.name.endswith(INDEX))]:
        raise InputError(listing(f"{path} names what is no file with tensors; mend its weight_map:", strange))
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
        content = json.loads(read_text(index))
        homes = {str(name): index.parent / str(file) for name, file in content["weight_map"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{index} is no index of a sharded checkpoint; expected JSON with a weight_map") from error
    if strange := [str(file) for file in homes.values() if "\0" in str(file)]:
        raise InputError(listing(f"{index} names files that no system can have:", strange))
    return homes


def shards_named_by(index: Path) -> set[Path]:
    """The files that an index names; none, if it is no index that can be read."""
    try:
        return set(_homes(index).values())
    except InputError:
        return set()


def shards_written_for(index: Path) -> set[Path]:
    """The shards that were written for this very index, by what their metadata say: no other file ever is removed."""
    stem = re.escape(index.name.removesuffix(f"{ENDING}{INDEX}"))
    named = re.compile(rf"{stem}-[0-9a-f]{{8}}-[0-9]+-of-[0-9]+{re.escape(ENDING)}")
    candidates = [each for each in index.parent.iterdir() if named.fullmatch(each.name) and each.is_file()]
    return {each for each in candidates if _written_for(each) == index.name}


def _written_for(shard: Path) -> str:
    """The name of the index for which a file was written; nothing, if it does not say so."""
    try:
        return read(shard)[1].get(WRITTEN_FOR, "")
    except (InputError, OSError):
        return ""


def write_shards(out: Path, output: Output) -> list[Path]:
    """Write shards under temporary names, rename them, then write the index in one step.

    The index names the old shards or the new ones, whatever happens. At the end those that it does not name go: the old
    ones; after an error or an interruption the new ones; and those that a run left which was killed at that moment.
    Meanwhile the folder is locked: the shards of another run that has not written its index yet are named by none.
    Where it cannot be locked, only the old ones and the own ones go.
    """
    tensors, metadata = stored(output)
    groups = _groups(list(tensors.entries.values()), output.shard_bytes)
    with temporary_files(out, len(groups)) as temporaries:
        for group, temporary in zip(groups, temporaries, strict=True):
            with temporary.open("wb") as opened:
                write(opened, group, tensors, {**metadata, WRITTEN_FOR: out.name})
        files = _names(out, temporaries)
        homes = {entry.name: file.name for file, group in zip(files, groups, strict=True) for entry in group}
        total = sum(entry.bytes for group in groups for entry in group)
        index = {"metadata": {"total_size": total}, "weight_map": homes}
        with locked(out.parent) as certain:
            known = shards_named_by(out) | set(files)
            try:
                for temporary, file in zip(temporaries, files, strict=True):
                    put(temporary, file)
                write_whole(out, (json.dumps(index, indent=2) + "\n").encode())
            finally:
                for unused in _unused_shards(out) if certain else _unused_shards(out) & known:
                    unused.unlink(missing_ok=True)
    return [out, *files]


def _unused_shards(index: Path) -> set[Path]:
    """Shards that were written for an index which does not name them; none, where it cannot be asked."""
    named = shards_named_by(index)
    return set() if index.exists() and not named else shards_written_for(index) - named


def _names(out: Path, shards: Sequence[Path]) -> list[Path]:
    """The final names of shards, with a mark of their content: a name that is taken already is that of equal bytes."""
    stem = out.name.removesuffix(f"{ENDING}{INDEX}")
    mark = hashlib.sha256(" ".join(map(sha256, shards)).encode()).hexdigest()[:8]
    return [out.with_name(f"{stem}-{mark}-{number:05}-of-{len(shards):05}{ENDING}")
            for number in range(1, len(shards) + 1)]  # fmt: skip


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
