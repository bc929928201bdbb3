"""Where a result comes from: what a checkpoint carries in its metadata. The same for people is in `model_card`.

Nothing in it depends on the time or the machine's folders, so that the same command writes the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..versions import package_versions
from .model_hubs import front_matter, hub_name
from .records import Checkpoint

LICENSE = ("license", "license_name", "license_link")  # keys of a card; those of a licence without a usual name, too


@dataclass(frozen=True)
class Origin:
    """One input of a result.

    Args:
        name: The name of the file or folder; of one in the cache of a model hub, its name there.
        sha256: Hashes of the files that hold its tensors, by file name.
        bytes: Size of its tensors.
        weight: Its share in the result.
        license: What its model card says of its licence, by key.
    """

    name: str
    sha256: Mapping[str, str]
    bytes: int
    weight: float
    license: Mapping[str, str] = field(default_factory=dict)


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
        rotated: Spaces whose units were rotated, and not only permuted; norms over them are folded in a fused network.
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
    rotated: tuple[str, ...] = ()

    def json(self) -> str:
        """The record as JSON, which a checkpoint carries in its metadata."""
        found = asdict(self)
        if self.objective is not None and not math.isfinite(self.objective):
            found["objective"] = str(self.objective)  # JSON has no such numbers
        return json.dumps(found, sort_keys=True, allow_nan=False)


def origins_of(checkpoints: Sequence[Checkpoint], weights: Sequence[float]) -> tuple[Origin, ...]:
    """Each checkpoint as one input of a result, with the hashes of its files."""
    return tuple(_origin(each, weight) for each, weight in zip(checkpoints, weights, strict=True))


def _origin(checkpoint: Checkpoint, weight: float) -> Origin:
    hashes = {file.name: sha256(file) for file in checkpoint.files}
    told = front_matter(checkpoint.path)
    license_ = {key: told[key] for key in LICENSE if key in told}
    return Origin(hub_name(checkpoint.path), hashes, checkpoint.bytes, weight, license_)


def sha256(path: Path) -> str:
    """The hash of a file, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
