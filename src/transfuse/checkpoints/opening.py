"""`open_checkpoint`: a path in, a checkpoint out; and a checkpoint's names brought to those of a model.

The format is told by what the file is: its ending only decides between what content cannot tell apart.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from ..errors import InputError, listing
from ..lazy import LazyState, entries_of, renamed
from .export_archive import is_archive
from .export_archive import read as read_archive
from .pytorch_file import read as read_pytorch
from .pytorch_file import without_prefix
from .records import Checkpoint, Kind, Wrapping
from .safetensors_file import read as read_safetensors

INDEX = ".index.json"
WEIGHTS = ("model.safetensors", f"model.safetensors{INDEX}", "pytorch_model.bin", f"pytorch_model.bin{INDEX}")


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Open a file or folder; tensors are read when they are asked for.

    Raises:
        InputError: it is missing, damaged, of no known format, or would need code to be run.
    """
    path = Path(path)
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a checkpoint ({_near(path)})")
    try:
        return _file(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}); check the file and its rights") from error


def _near(path: Path) -> str:
    """What there is instead, in the folder that was named."""
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    endings = {".safetensors", ".pt", ".pth", ".ckpt", ".bin", ".pt2"}
    found = sorted(each.name for each in folder.iterdir() if each.suffix in endings or each.name.endswith(INDEX))
    return f"in that folder: {', '.join(found[:6])}" if found else "no checkpoints are in that folder"


def _file(path: Path) -> Checkpoint:
    if path.name.endswith(INDEX):
        return _sharded(path)
    if path.suffix == ".safetensors":
        tensors, metadata = read_safetensors(path)
        return _with_ties(path, "safetensors", tensors, metadata, (path,))
    if is_archive(path):
        archived, ties, texts = read_archive(path)
        return Checkpoint(path, "export", archived, (path,), ties, texts)
    state, ties, wrapping = read_pytorch(path)
    return Checkpoint(path, "pytorch", state, (path,), ties, {}, wrapping)


def _with_ties(
    path: Path, kind: Kind, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], files: tuple[Path, ...]
) -> Checkpoint:
    """Tied tensors that a file names in its metadata (as `safetensors.torch.save_model` does) under each name."""
    ties = {name: kept for name, kept in metadata.items() if name not in tensors and kept in tensors}
    own = {name: name for name in tensors}
    stripped, prefix = without_prefix(dict.fromkeys([*own, *ties]))  # type: ignore[arg-type]
    sources = {name: (own | ties)[prefix + name] for name in stripped}
    return Checkpoint(
        path, kind, renamed(tensors, sources), files,
        {name.removeprefix(prefix): kept.removeprefix(prefix) for name, kept in ties.items()},
        {name: text for name, text in metadata.items() if name not in ties}, Wrapping(prefix=prefix),
    )  # fmt: skip


def _sharded(index: Path) -> Checkpoint:
    """Several files, and an index that says which tensor is where."""
    try:
        content = json.loads(index.read_text("utf-8"))
        homes = {str(name): index.parent / str(file) for name, file in content["weight_map"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{index} is no index of a sharded checkpoint; expected JSON with a weight_map") from error
    files = tuple(dict.fromkeys(homes.values()))
    if missing := [file.name for file in files if not file.exists()]:
        raise InputError(listing(f"{index} names files that are not there:", missing))
    parts = {file: _file(file) for file in files}
    absent = [f"{name} in {file.name}" for name, file in homes.items() if name not in parts[file].tensors]
    if absent:
        raise InputError(listing(f"{index} names tensors that are not there:", absent))
    entries = {name: entries_of(parts[file].tensors)[name] for name, file in homes.items()}
    tensors = LazyState(list(entries.values()), lambda entry: parts[homes[entry.name]].tensors[entry.name])
    metadata = {key: text for part in parts.values() for key, text in part.metadata.items()}
    return _with_ties(index, "sharded", tensors, metadata, files)


def _folder(path: Path) -> Checkpoint:
    """A folder as `transformers` writes it: the first kind of weights that is there."""
    found = next((path / name for name in WEIGHTS if (path / name).exists()), None)
    if found is None:
        raise InputError(f"{path} holds no weights; expected one of {', '.join(WEIGHTS)}")
    return replace(_file(found), path=path, kind="huggingface")


def fitted(checkpoint: Checkpoint, names: Collection[str], ties: Mapping[str, str] | None = None) -> Checkpoint:
    """The checkpoint with exactly these names, in this order.

    A common prefix (`model.`) is removed, and tensors that the model ties to one in the file are added.

    Raises:
        InputError: naming every tensor that is missing and every one that is unexpected.
    """
    known = list(checkpoint.tensors)
    tied = {**(ties or {}), **{kept: name for name, kept in (ties or {}).items()}}
    prefix = _prefix_to_remove(known, set(names), tied)
    available = {name.removeprefix(prefix): name for name in known}
    sources = {name: available[name] if name in available else available.get(tied.get(name, ""), "") for name in names}
    missing = sorted(name for name, source in sources.items() if not source)
    unexpected = sorted(set(available) - set(names))
    if missing or unexpected:
        raise InputError(_misfit(checkpoint, missing, unexpected))
    kept = {name: tied[name] for name in names if name not in available}
    known_ties = {**checkpoint.ties, **(ties or {})}
    kept |= {name: own for name, own in known_ties.items() if name in sources and own in sources}
    wrapping = replace(checkpoint.wrapping, prefix=checkpoint.wrapping.prefix + prefix)
    return replace(checkpoint, tensors=renamed(checkpoint.tensors, sources), ties=kept, wrapping=wrapping)


def _prefix_to_remove(known: list[str], names: set[str], tied: Mapping[str, str]) -> str:
    """The shortest dotted prefix of all names without which they are those wanted."""
    parts = known[0].split(".") if known else []
    for count in range(len(parts)):
        prefix = "".join(part + "." for part in parts[:count])
        if not all(name.startswith(prefix) for name in known):
            break
        stripped = {name.removeprefix(prefix) for name in known}
        if stripped <= names and all(tied.get(name) in stripped for name in names - stripped):
            return prefix
    return ""


def _misfit(checkpoint: Checkpoint, missing: list[str], unexpected: list[str]) -> str:
    problems = [f"missing: {name}" for name in missing] + [f"unexpected: {name}" for name in unexpected]
    text = listing(f"{checkpoint.path} does not fit the model; its tensors:", _shortened(problems))
    return text + "\nCheck --model and its arguments, or that the file is of this architecture"


def _shortened(problems: list[str], most: int = 40) -> list[str]:
    return problems if len(problems) <= most else [*problems[:most], f"... and {len(problems) - most} more"]
