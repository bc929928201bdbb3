"""`open_checkpoint`: a path in, a checkpoint out; and a checkpoint's names brought to those of a model.

The format is told by what the file is: its ending only decides between what content cannot tell apart.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from ..errors import InputError, listing, printable
from ..files import check_regular
from ..lazy import Entry, LazyState, with_names
from ..types import State
from .format import Format
from .limits import check_claims
from .records import Checkpoint
from .sharded_files import INDEX, shards_named_by
from .table import FORMATS
from .transformers_models import is_of_transformers, translated

COUNT = "num_batches_tracked"


def open_checkpoint(path: str | Path, *, formats: Sequence[Format] = FORMATS) -> Checkpoint:
    """Open a file or folder; tensors are read when they are asked for.

    Args:
        path: Where it is.
        formats: The table of formats; the first one that recognises the path opens it.

    Raises:
        InputError: it is missing, damaged, of no known format, or would need code to be run.
    """
    check_regular(path)
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a checkpoint ({_near(path, formats)})")
    try:
        return check_claims(_opened(path, formats))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}); check the file and its rights") from error


def files_of(path: Path) -> list[Path]:
    """What an input consists of, as far as its path tells: itself and, if it is an index, the files it names."""
    index = path.name.endswith(INDEX) and path.is_file()
    return [path, *(sorted(shards_named_by(path)) if index else [])]


def _opened(path: Path, formats: Sequence[Format]) -> Checkpoint:
    """What the first format that recognises a path makes of it."""
    check_regular(path)
    row = next(row for row in formats if row.recognises(path))
    return row.open(path, lambda other: _opened(other, formats))


def _near(path: Path, formats: Sequence[Format]) -> str:
    """What there is instead, in the folder that was named."""
    folder = path.parent
    if not folder.is_dir():
        named = re.fullmatch(r"[\w.-]+/[\w.-]+", str(path))  # as models are called on a hub
        download = (
            f"; if it is on a model hub, get it first: hf download {path} --local-dir {path.name}" if named else ""
        )
        return f"there is no folder {folder}{download}"
    endings = (INDEX, *(ending for row in formats for ending in row.endings))
    found = sorted(each.name for each in folder.iterdir() if each.name.endswith(endings))
    return f"in that folder: {printable(', '.join(found[:6]))}" if found else "no checkpoints are in that folder"


def fitted(checkpoint: Checkpoint, names: Collection[str], ties: Mapping[str, str] | None = None) -> Checkpoint:
    """The checkpoint with exactly these names, in this order.

    A common prefix (`model.`) is removed; added are tensors that the model ties to one in the file, and the counts of
    batches that batch norms keep since PyTorch 0.4.1, as `load_state_dict` does. Names in a folder of transformers that
    are not those of the module are translated by transformers.

    Raises:
        InputError: naming every tensor that is missing and every one that is unexpected.
    """
    known = list(checkpoint.tensors)
    tied = {**(ties or {}), **{kept: name for name, kept in (ties or {}).items()}}
    prefix = _prefix_to_remove(known, set(names), tied)
    available = {name.removeprefix(prefix): name for name in known}
    sources = {name: available[name] if name in available else available.get(tied.get(name, ""), "") for name in names}
    counts = {name for name, source in sources.items() if not source and _is_count(name, available)}
    missing = sorted(name for name, source in sources.items() if not source and name not in counts)
    unexpected = sorted(set(available) - set(names))
    if missing or unexpected:
        return fitted(_translated(checkpoint, _misfit(checkpoint, missing, unexpected)), names, ties)
    kept = {name: tied[name] for name in names if name not in available and name not in counts}
    known_ties = {**checkpoint.ties, **(ties or {})}
    kept |= {name: own for name, own in known_ties.items() if name in sources and own in sources}
    wrapping = replace(checkpoint.wrapping, prefix=checkpoint.wrapping.prefix + prefix)
    return replace(checkpoint, tensors=_with_counts(checkpoint.tensors, sources, counts), ties=kept, wrapping=wrapping)


def _translated(checkpoint: Checkpoint, misfit: str) -> Checkpoint:
    """A checkpoint that does not fit as it is, under the names that transformers gives it.

    Raises:
        InputError: the misfit, if transformers does not know the checkpoint, with the reason.
    """
    if not is_of_transformers(checkpoint):
        raise InputError(misfit)
    try:
        return translated(checkpoint)
    except InputError as error:
        raise InputError(f"{misfit}\n{error}") from error


def _is_count(name: str, available: Collection[str]) -> bool:
    """Whether a name is that of a batch norm's count of batches, of whose statistics there are some."""
    return name.endswith(COUNT) and name.removesuffix(COUNT) + "running_mean" in available


def _with_counts(state: State, sources: Mapping[str, str], counts: Collection[str]) -> LazyState:
    """The tensors of a state under other names, and counts of zero batches beside them."""
    named = with_names(state, {name: source for name, source in sources.items() if source})
    if not counts:
        return named
    known = {**named.entries, **{name: Entry(name, torch.int64, ()) for name in counts}}
    return LazyState(
        [known[name] for name in sources],
        lambda entry: torch.tensor(0) if entry.name in counts else named[entry.name],
    )


def _prefix_to_remove(known: list[str], names: set[str], tied: Mapping[str, str]) -> str:
    """The shortest dotted prefix of all names without which they are those wanted."""
    parts = known[0].split(".") if known else []
    for count in range(len(parts)):
        prefix = "".join(part + "." for part in parts[:count])
        if not all(name.startswith(prefix) for name in known):
            break
        stripped = {name.removeprefix(prefix) for name in known}
        absent = {name for name in names - stripped if not _is_count(name, stripped)}
        if stripped <= names and all(tied.get(name) in stripped for name in absent):
            return prefix
    return ""


def _misfit(checkpoint: Checkpoint, missing: list[str], unexpected: list[str]) -> str:
    problems = [f"missing: {name}" for name in missing] + [f"unexpected: {name}" for name in unexpected]
    text = listing(f"{checkpoint.path} does not fit the model; its tensors:", _shortened(problems))
    return (
        f"{text}\nCheck --model and its arguments, or that the file is of this architecture; networks of other depths "
        "are fused from Python, each as a module of its own: transfuse.fuse([shallow, deep], example_inputs)"
    )


def _shortened(problems: list[str], most: int = 40) -> list[str]:
    return problems if len(problems) <= most else [*problems[:most], f"... and {len(problems) - most} more"]
