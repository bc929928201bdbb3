"""The verbs that show something: `methods`, `inspect`, `demo`."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from ..errors import InputError
from .records import Outcome


def methods(options: Namespace) -> Outcome:
    """The table of methods, or one row of it."""
    from ..methods import METHODS

    if options.name is not None and options.name not in METHODS:
        raise InputError(f"no method is called {options.name!r}; the methods: {', '.join(METHODS)}")
    rows = {name: row for name, row in METHODS.items() if options.name in (None, name)}
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
    made = checkpoint.metadata.get(KEY) or checkpoint.metadata.get(f"{KEY}.json")
    provenance = (
        json.loads(made) if made else checkpoint.wrapping.rest.get(KEY) or checkpoint.wrapping.versions.get(KEY)
    )
    kinds = sorted({str(entry.dtype).removeprefix("torch.") for entry in entries.values()})
    data: dict[str, Any] = {
        "path": str(checkpoint.path), "format": checkpoint.kind, "files": [str(file) for file in checkpoint.files],
        "bytes": checkpoint.bytes, "dtypes": kinds, "ties": dict(checkpoint.ties),
        "metadata": {key: text for key, text in checkpoint.metadata.items() if not key.startswith(KEY)},
        "provenance": provenance,
        "tensors": {name: {"dtype": str(entry.dtype).removeprefix("torch."), "shape": list(entry.shape)}
                    for name, entry in entries.items()},
    }  # fmt: skip
    if options.hash:
        data["sha256"] = {file.name: sha256(file) for file in checkpoint.files}
    wide = max(map(len, entries), default=0)
    lines = [
        f"{checkpoint.path}: {checkpoint.kind}, {len(entries)} tensors of {', '.join(kinds)}, "
        f"{size_told(checkpoint.bytes)}",
        *(f"  {name:<{wide}}  {list(entry.shape)}" + (f" = {checkpoint.ties[name]}" if name in checkpoint.ties else "")
          for name, entry in entries.items()),
        *(f"sha256 {name}: {digest}" for name, digest in data.get("sha256", {}).items()),
    ]  # fmt: skip
    if provenance:
        names = ", ".join(f"{each['name']} ({each['weight']:.3g})" for each in provenance["sources"])
        lines.append(f"made by transfuse: {provenance['method']} of {names}; {provenance['command']}")
    return Outcome(data, "\n".join(lines), asked=True)


def demo(options: Namespace) -> Outcome:
    """Train, fuse and compare small networks."""
    from ..demo import run

    data, text = run(Path(options.folder), fresh=options.fresh, quiet=options.quiet or options.json)
    return Outcome(data, text, asked=True)
