"""What a checkpoint is, whichever format it came in.

Tensors are read when asked for. A state is a plain mapping, so that everything that takes states takes these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

Kind = Literal["safetensors", "sharded", "pytorch", "huggingface", "export"]


@dataclass(frozen=True)
class Entry:
    """A tensor that can be read: what is known about it without reading it."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size in memory and on disk."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize


class Tensors(Mapping[str, Tensor]):
    """A mapping whose tensors are made when they are asked for, each time anew.

    Args:
        entries: What there is.
        read: Makes the tensor of an entry.
    """

    def __init__(self, entries: Sequence[Entry], read: Callable[[Entry], Tensor]) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self._read = read

    def __getitem__(self, name: str) -> Tensor:
        return self._read(self.entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def size_told(count: int) -> str:
    """Bytes for people.

    Example:
        >>> size_told(96), size_told(10_248), size_told(18_446_480), size_told(1_007_000_000)
        ('96 bytes', '10.2 KB', '18.4 MB', '1.01 GB')
    """
    if count >= 1e9:
        return f"{count / 1e9:.2f} GB"
    if count >= 1e6:
        return f"{count / 1e6:.1f} MB"
    return f"{count / 1e3:.1f} KB" if count >= 1e3 else f"{count} bytes"


def entries_of(tensors: Mapping[str, Tensor]) -> dict[str, Entry]:
    """What is in a mapping, without reading where that can be avoided."""
    if isinstance(tensors, Tensors):
        return tensors.entries
    return {name: Entry(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}


def renamed(tensors: Mapping[str, Tensor], sources: Mapping[str, str]) -> Tensors:
    """The same tensors under other names: `sources` maps each new name to the one it is found by."""
    known = entries_of(tensors)
    entries = [Entry(new, known[old].dtype, known[old].shape) for new, old in sources.items()]
    return Tensors(entries, lambda entry: tensors[sources[entry.name]])


@dataclass(frozen=True)
class Wrapping:
    """How a state lies in its file, so that a result can be written alike.

    Args:
        keys: Keys that lead to the state (`("state_dict",)`).
        prefix: What stands before every name in the file (`module.`).
        rest: Plain values beside the state (epoch, hyper-parameters); optimisers and other tensors are left out.
        versions: Versions of the modules, which PyTorch keeps with a state.
    """

    keys: tuple[str, ...] = ()
    prefix: str = ""
    rest: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A state in a file or folder.

    Args:
        path: Where it is.
        kind: Its format.
        tensors: The state; a tied tensor is there under each of its names.
        files: All files that hold tensors.
        ties: Name -> the name under which the file holds the same tensor.
        metadata: Texts that the file carries.
        wrapping: How the state lies in its file.
    """

    path: Path
    kind: Kind
    tensors: Mapping[str, Tensor]
    files: tuple[Path, ...]
    ties: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    wrapping: Wrapping = field(default_factory=Wrapping)

    @property
    def bytes(self) -> int:
        """Size of all tensors, tied ones counted once."""
        entries = entries_of(self.tensors)
        return sum(entry.bytes for name, entry in entries.items() if name not in self.ties)
