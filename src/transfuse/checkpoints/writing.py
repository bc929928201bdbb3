"""`write_checkpoint`: a state to a file or folder, whole or not at all, in the manner of the first input.

The ending of the path decides: `.safetensors`; `.safetensors.index.json` (shards beside it); `.pt`, `.pth`, `.ckpt`,
`.bin`; `.pt2` (a copy of an export archive with these weights); none (a folder with the configuration of the first
input).
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..files import whole_file, whole_folder, write_whole
from ..lazy import Entry, LazyState, entries_of, renamed
from .export_archive import write as write_archive
from .opening import INDEX, WEIGHTS
from .provenance import KEY, Provenance, card, card_path
from .pytorch_file import content_of
from .records import Checkpoint, size_told
from .safetensors_file import write as write_safetensors

SHARD = 5 * 10**9  # bytes; what model hubs prefer
PICKLED = (".pt", ".pth", ".ckpt", ".bin")


def check_writable(out: Path, like: Checkpoint, needed: int, *, force: bool = False) -> None:
    """Refuse what cannot be written, before any work is done.

    Raises:
        InputError: the result exists, its folder does not or is not writable, the disk is full, or the ending is
            unknown or does not suit the first input.
    """
    _kind(out, like)
    if out.exists() and not force:
        raise InputError(f"{out} exists; pass --force to replace it, or another path")
    folder = out.parent
    if not folder.is_dir():
        raise InputError(f"the folder {folder} does not exist; create it first (mkdir -p), or write elsewhere")
    try:
        with whole_file(folder / f".{out.name}.probe") as temporary:
            temporary.touch()
        (folder / f".{out.name}.probe").unlink()
    except OSError as error:
        raise InputError(f"nothing can be written to {folder} ({error.strerror}); choose another folder") from error
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"{out} needs {size_told(needed)}, but {folder} has only {size_told(free)} free; make room, or write "
            "elsewhere"
        )


def write_checkpoint(
    out: Path, tensors: Mapping[str, Tensor], *, like: Checkpoint, provenance: Provenance, shard_bytes: int = SHARD
) -> list[Path]:
    """Write a state and its model card; the files written.

    Args:
        out: Where to.
        tensors: The state, under the names of the model; read one after another, maybe more than once.
        like: The first input: wrapping, ties, metadata and, for folders and archives, everything else.
        provenance: What was done.
        shard_bytes: Most bytes of one file of a sharded checkpoint or a folder.
    """
    kind = _kind(out, like)
    if kind == "huggingface":
        with whole_folder(out) as folder:
            _write_folder(folder, tensors, like, provenance, shard_bytes)
            write_whole(folder / "README.md", card(provenance, out.name).encode())
        return sorted(out.iterdir())
    written = [out]
    if kind == "safetensors":
        _write_safetensors(out, tensors, like, provenance)
    elif kind == "sharded":
        written += _write_shards(out, tensors, like, provenance, shard_bytes)
    elif kind == "export":
        with whole_file(out) as temporary:
            write_archive(temporary, like.path, tensors, {**like.metadata, f"{KEY}.json": provenance.json()})
    else:
        content = content_of(tensors, like.ties, like.wrapping, json.loads(provenance.json()))
        with whole_file(out) as temporary:
            torch.save(content, temporary)
    return [*written, write_whole(card_path(out), card(provenance, out.name).encode())]


def _kind(out: Path, like: Checkpoint) -> str:
    """The format that a path asks for."""
    if out.name.endswith(f".safetensors{INDEX}"):
        return "sharded"
    if out.suffix == ".safetensors":
        return "safetensors"
    if out.suffix in PICKLED:
        return "pytorch"
    if out.suffix == ".pt2":
        if like.kind != "export":
            raise InputError(f"{out}: an export archive can only be written when the first input is one")
        return "export"
    if like.kind == "huggingface" and not out.is_file():
        return "huggingface"
    raise InputError(
        f"{out}: the ending says the format; expected .safetensors, .safetensors.index.json, .pt, .pth, .ckpt, .bin, "
        ".pt2 (first input an export archive), or a folder (first input a Hugging Face folder)"
    )


def _stored(tensors: Mapping[str, Tensor], like: Checkpoint) -> tuple[LazyState, dict[str, str]]:
    """The tensors under the names of the file, tied ones once; and texts that name the others."""
    prefix = like.wrapping.prefix
    sources = {prefix + name: name for name in tensors if name not in like.ties}
    ties = {prefix + name: prefix + kept for name, kept in like.ties.items() if name in tensors}
    silent = like.kind == "huggingface"  # transformers ties by its configuration
    return renamed(tensors, sources), {} if silent else ties


def _metadata(like: Checkpoint, ties: Mapping[str, str], provenance: Provenance) -> dict[str, str]:
    kept = {key: text for key, text in like.metadata.items() if not key.startswith(KEY)}
    return {"format": "pt", **kept, **ties, KEY: provenance.json()}


def _write_safetensors(out: Path, tensors: Mapping[str, Tensor], like: Checkpoint, provenance: Provenance) -> None:
    stored, ties = _stored(tensors, like)
    with whole_file(out) as temporary, temporary.open("wb") as file:
        write_safetensors(file, list(stored.entries.values()), stored, _metadata(like, ties, provenance))


def _write_shards(
    out: Path, tensors: Mapping[str, Tensor], like: Checkpoint, provenance: Provenance, shard_bytes: int
) -> list[Path]:
    """Shards under new names, then the index in one step: it names the old shards or the new ones.

    Shards that only the old index named are removed at the end.
    """
    before = _shards_named_by(out)
    stored, ties = _stored(tensors, like)
    groups = _groups(list(stored.entries.values()), shard_bytes)
    stem = out.name.removesuffix(f".safetensors{INDEX}")
    mark = hashlib.sha256(provenance.json().encode()).hexdigest()[:8]
    metadata = _metadata(like, ties, provenance)
    files: list[Path] = []
    homes: dict[str, str] = {}
    for number, group in enumerate(groups, start=1):
        file = out.with_name(f"{stem}-{mark}-{number:05}-of-{len(groups):05}.safetensors")
        with whole_file(file) as temporary, temporary.open("wb") as opened:
            write_safetensors(opened, group, stored, metadata)
        files.append(file)
        homes |= {entry.name: file.name for entry in group}
    total = sum(entry.bytes for group in groups for entry in group)
    index = {"metadata": {"total_size": total}, "weight_map": homes}
    write_whole(out, (json.dumps(index, indent=2) + "\n").encode())
    for old in before - set(files):
        old.unlink(missing_ok=True)
    return files


def _shards_named_by(index: Path) -> set[Path]:
    try:
        names: dict[str, Any] = json.loads(index.read_text("utf-8"))["weight_map"]
    except (OSError, ValueError, KeyError):
        return set()
    return {index.parent / name for name in names.values() if Path(name).name == name}


def _groups(entries: Sequence[Entry], most: int) -> list[list[Entry]]:
    """Neighbours together, as many as fit."""
    groups: list[list[Entry]] = [[]]
    for entry in entries:
        if groups[-1] and sum(each.bytes for each in groups[-1]) + entry.bytes > most:
            groups.append([])
        groups[-1].append(entry)
    return groups


def _write_folder(
    folder: Path, tensors: Mapping[str, Tensor], like: Checkpoint, provenance: Provenance, shard_bytes: int
) -> None:
    """Everything of the first input's folder but weights and card, and the new weights."""
    left_out = {*WEIGHTS, "README.md", *(file.name for file in like.files)}
    for each in sorted(like.path.iterdir()):
        if each.name not in left_out and each.is_file():
            shutil.copyfile(each, folder / each.name)
    size = sum(entry.bytes for entry in entries_of(tensors).values())
    if size <= shard_bytes:
        _write_safetensors(folder / "model.safetensors", tensors, like, provenance)
    else:
        _write_shards(folder / f"model.safetensors{INDEX}", tensors, like, provenance, shard_bytes)
