"""What a checkpoint is, whichever format it came in; its tensors are a lazy state (`transfuse.lazy`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..lazy import entries_of
from ..types import State

KEY = "transfuse"  # of the provenance, in metadata and beside a state
PREFIXES = ("module.", "_orig_mod.")  # what DataParallel and torch.compile put before the name of every tensor


def size_told(count: int) -> str:
    """A number of bytes as people write it.

    Example:
        >>> size_told(96), size_told(10_248), size_told(18_446_480), size_told(1_007_000_000)
        ('96 bytes', '10.2 KB', '18.4 MB', '1.01 GB')
    """
    if count >= 1e9:
        return f"{count / 1e9:.2f} GB"
    if count >= 1e6:
        return f"{count / 1e6:.1f} MB"
    return f"{count / 1e3:.1f} KB" if count >= 1e3 else f"{count} bytes"


@dataclass(frozen=True)
class Wrapping:
    """How a state lies in its file, so that a result can be written alike.

    Args:
        keys: Keys that lead to the state (`("state_dict",)`).
        prefix: What stands before every name in the file (`module.`).
        rest: Plain values beside the state (epoch, hyper-parameters); optimisers and other tensors are left out.
        versions: Versions of the modules, which PyTorch keeps with a state.
        names_ties: Whether a file that holds a tied tensor once names its other names in the metadata.
        translated: Whether names and tensors are those of the module, and transformers knows the way to those on disk.
        left_out: Names of tensors in the file that are no part of the model.
    """

    keys: tuple[str, ...] = ()
    prefix: str = ""
    rest: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    names_ties: bool = True
    translated: bool = False
    left_out: tuple[str, ...] = ()


def wrapper_prefix(names: Sequence[str]) -> str:
    """What wrappers of modules have put before all of these names.

    Example:
        >>> wrapper_prefix(["_orig_mod.module.weight", "_orig_mod.module.bias"])
        '_orig_mod.module.'
    """
    prefix = ""
    while more := next((p for p in PREFIXES if names and all(name.startswith(prefix + p) for name in names)), ""):
        prefix += more
    return prefix


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A state in a file or folder.

    Args:
        path: Where it is.
        kind: The name of its format.
        tensors: The state; a tied tensor is there under each of its names.
        files: All files that hold tensors.
        ties: For each tied tensor that the file does not hold under its own name, the name under which it does.
        metadata: Texts that the file carries, by name.
        wrapping: How the state lies in its file.
    """

    path: Path
    kind: str
    tensors: State
    files: tuple[Path, ...]
    ties: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    wrapping: Wrapping = field(default_factory=Wrapping)

    @property
    def bytes(self) -> int:
        """Size of all tensors in bytes, tied ones counted once."""
        entries = entries_of(self.tensors)
        return sum(entry.bytes for name, entry in entries.items() if name not in self.ties)

    def bytes_in(self, kind: torch.dtype | None) -> int:
        """Size of all tensors in bytes if they had another type; in their own, if none is given."""
        entries = entries_of(self.tensors).values()
        return sum(entry.bytes // entry.dtype.itemsize * kind.itemsize for entry in entries) if kind else self.bytes

    @property
    def told_wrapping(self) -> str:
        """Where in its file the state was found, as the end of a sentence; nothing, if it lies there bare."""
        under = f"under {', '.join(map(repr, self.wrapping.keys))}" if self.wrapping.keys else ""
        prefix = f"its names without {self.wrapping.prefix!r}" if self.wrapping.prefix else ""
        names = "under names on disk, which transformers translates" if self.wrapping.translated else ""
        left_out = f"beside {', '.join(self.wrapping.left_out)}, left out" if self.wrapping.left_out else ""
        return ", ".join(filter(None, [under, prefix, names, left_out]))

    @property
    def provenance(self) -> Mapping[str, Any] | None:
        """What the file says of how transfuse made it; nothing, if it does not or says nothing that can be read."""
        text = self.metadata.get(KEY) or self.metadata.get(f"{KEY}.json")
        try:
            found = json.loads(text) if text else self.wrapping.rest.get(KEY) or self.wrapping.versions.get(KEY)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, Mapping) else None
