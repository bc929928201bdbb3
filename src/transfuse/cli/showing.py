"""The verbs that show something: `methods`, `inspect`, `demo`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import printable
from .records import Outcome


def methods(options: Namespace) -> Outcome:
    """The table of methods, or one row of it."""
    from ..methods import METHODS, method_key

    rows = METHODS if options.name is None else {(key := method_key(options.name)): METHODS[key]}
    data = {
        name: {"summary": row.summary, "citation": row.citation, "options": row.options} for name, row in rows.items()
    }
    blocks = []
    for name, row in rows.items():
        chosen = ", ".join(f"{key}={value}" for key, value in row.options.items()) or "none"
        blocks.append(f"{name}\n  {row.summary}\n  options: {chosen}\n  {row.citation}")
    return Outcome(data, "\n\n".join(blocks), asked=True)


def inspect(options: Namespace) -> Outcome:
    """What is in a checkpoint, and where it comes from."""
    from ..checkpoints import KEY, open_checkpoint, size_told
    from ..checkpoints.provenance import sha256
    from ..lazy import entries_of

    checkpoint = open_checkpoint(options.path)
    entries = entries_of(checkpoint.tensors)
    provenance = checkpoint.provenance
    kinds = sorted({str(entry.dtype).removeprefix("torch.") for entry in entries.values()})
    data: dict[str, Any] = {
        "path": str(checkpoint.path), "format": checkpoint.kind, "files": [str(file) for file in checkpoint.files],
        "bytes": checkpoint.bytes, "dtypes": kinds, "ties": dict(checkpoint.ties),
        "metadata": {key: text for key, text in checkpoint.metadata.items() if not key.startswith(KEY)},
        "provenance": provenance, "wrapping": {"keys": checkpoint.wrapping.keys, "prefix": checkpoint.wrapping.prefix},
        "tensors": {name: {"dtype": str(entry.dtype).removeprefix("torch."), "shape": list(entry.shape)}
                    for name, entry in entries.items()},
    }  # fmt: skip
    if options.hash:
        data["sha256"] = {file.name: sha256(file) for file in checkpoint.files}
    shown = {name: printable(name) for name in entries}
    ties = {name: f" = {printable(first)}" for name, first in checkpoint.ties.items()}
    wide = max(map(len, shown.values()), default=0)
    lines = [
        f"{checkpoint.path}: {checkpoint.kind}, {len(entries)} tensors of {', '.join(kinds)}, "
        f"{size_told(checkpoint.bytes)}" + (f" (found {found})" if (found := checkpoint.told_wrapping) else ""),
        *(f"  {shown[name]:<{wide}}  {list(entry.shape)}{ties.get(name, '')}" for name, entry in entries.items()),
        *(f"sha256 {name}: {digest}" for name, digest in data.get("sha256", {}).items()),
    ]  # fmt: skip
    if provenance:
        lines.append(f"made by transfuse: {printable(_told_origin(provenance))}")
    return Outcome(data, "\n".join(lines), asked=True)


def _told_origin(provenance: Mapping[str, Any]) -> str:
    """What a result was made of, and by which command; what a file says of itself need not be as it should."""
    try:
        names = ", ".join(f"{each['name']} ({each['weight']:.3g})" for each in provenance["sources"])
        return f"{provenance['method']} of {names}; {provenance['command']}"
    except (KeyError, TypeError, ValueError) as error:
        return f"so it says, but its provenance cannot be read ({type(error).__name__}: {error})"


def demo(options: Namespace) -> Outcome:
    """Train, fuse and compare small networks."""
    from ..demo import run

    data, text = run(Path(options.folder), fresh=options.fresh, quiet=options.quiet or options.json)
    return Outcome(data, text, asked=True)
