"""What a checkpoint is, whichever format it came in; its tensors are a lazy state (`transfuse.lazy`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from ..lazy import entries_of

Kind = Literal["safetensors", "sharded", "pytorch", "huggingface", "export"]


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
