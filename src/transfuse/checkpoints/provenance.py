"""Where a result comes from: what a checkpoint carries in its metadata, and a model card for people.

Nothing in it depends on the time or the machine's folders, so that the same command writes the same bytes.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import printable
from ..versions import package_versions
from .records import Checkpoint, size_told


@dataclass(frozen=True)
class Origin:
    """One input of a result.

    Args:
        name: The name of the file or folder.
        sha256: Hashes of the files that hold its tensors, by file name.
        bytes: Size of its tensors.
        weight: Its share in the result.
    """

    name: str
    sha256: Mapping[str, str]
    bytes: int
    weight: float


@dataclass(frozen=True)
class Provenance:
    """What was done to which files.

    Args:
        sources: The inputs, with their shares.
        verb: `fuse` or `align`.
        method: Row of the methods table.
        citation: Where the method was published.
        options: Options of the method, and of what followed it.
        seed: The seed of everything random.
        status: How the work ended.
        objective: The last value of the objective.
        command: A command that does it again.
        versions: Versions of the packages that did it.
    """

    sources: tuple[Origin, ...]
    verb: str
    method: str
    citation: str
    options: Mapping[str, Any]
    seed: int
    status: str
    objective: float | None
    command: str
    versions: Mapping[str, str] = field(default_factory=package_versions)

    def json(self) -> str:
        """The record as JSON, which a checkpoint carries in its metadata."""
        found = asdict(self)
        if self.objective is not None and not math.isfinite(self.objective):
            found["objective"] = str(self.objective)  # JSON has no such numbers
        return json.dumps(found, sort_keys=True, allow_nan=False)


def origins_of(checkpoints: Sequence[Checkpoint], weights: Sequence[float]) -> tuple[Origin, ...]:
    """Each checkpoint as one input of a result, with the hashes of its files."""
    return tuple(
        Origin(each.path.name, {file.name: sha256(file) for file in each.files}, each.bytes, weight)
        for each, weight in zip(checkpoints, weights, strict=True)
    )


def sha256(path: Path) -> str:
    """The hash of a file, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


TEXTS = {
    "fuse": (
        "Fused from {count} independently trained networks of one architecture. Units were matched by\n"
        "`{method}` ({citation}), carried to a common order and averaged.",
        "Its tensors have the names of those of the first input; unless another width or type was asked for, it is\n"
        "loaded wherever that one is. Its accuracy was not measured by writing it: before use, compare it with its\n"
        "inputs on data of yours.",
    ),
    "align": (
        "The network with share 1 below, its units brought to the order (and scale) of the other one's, to which they\n"
        "were matched by `{method}` ({citation}).",
        "It computes what it did before, up to rounding, and is loaded wherever it was. It may now be averaged\n"
        "with, or compared to, the network to which it was aligned.",
    ),
}


def card(provenance: Provenance, name: str) -> str:
    """A model card in Markdown, with the header that model hubs read."""
    bases = "".join(f"- {json.dumps(source.name)}\n" for source in provenance.sources)
    rows = "\n".join(
        f"| {_markdown(source.name)} | {source.weight:.4g} | {size_told(source.bytes)} "
        f"| `{' '.join(source.sha256.values())}` |"
        for source in provenance.sources
    )
    options = _markdown(", ".join(f"{key} {value}" for key, value in provenance.options.items())) or "defaults"
    used = ", ".join(f"{package} {number}" for package, number in provenance.versions.items())
    objective = "" if provenance.objective is None else f", objective {provenance.objective:.6g}"
    done, use = TEXTS[provenance.verb]
    return f"""---
library_name: pytorch
tags: [merge, model-fusion, transfuse]
base_model:
{bases}---
{marker(name)}

# {_markdown(name)}

{done.format(count=len(provenance.sources), method=provenance.method, citation=provenance.citation)}

| input | share | size | SHA-256 |
|---|---|---|---|
{rows}

- Method: `{provenance.method}`, options: {options}, seed {provenance.seed}
- Ended: {_markdown(provenance.status)}{objective}
- Made with {used}

## Do it again

    {printable(provenance.command)}

## Use

{use}
"""


def _markdown(text: str) -> str:
    """A text that Markdown shows as it is: no markup, no tags, no end of the line or of the table's cell."""
    return re.sub(r"([\\`*\[\]<>|&#!~$])", r"\\\1", printable(text))


def marker(name: str) -> str:
    """The line by which a card is known as written for a certain file."""
    return f"<!-- transfuse: card of {html.escape(printable(name), quote=False)} -->"


def is_card_of(path: Path, name: str) -> bool:
    """Whether a file is the card that was written for a result of that name."""
    return path.is_file() and marker(name) in path.read_text("utf-8", errors="replace")


def card_path(out: Path) -> Path:
    """`README.md` in or beside a result; under another name where somebody else's README stands there."""
    if out.is_dir():
        return out / "README.md"
    usual = out.parent / "README.md"
    if not usual.exists() or is_card_of(usual, out.name):
        return usual
    return out.parent / f"{out.name}.README.md"
