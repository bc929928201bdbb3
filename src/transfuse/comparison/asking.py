"""What is compared, as it was asked for: groups of networks and rows, checked before any work is done.

In: arguments of `compare`. Out: an `Asked`, or one error with everything that is wrong.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..arguments import TEXT, Kind, check_arguments, many, mapping
from ..errors import InputError, listing
from ..fusing import fuse
from ..fusing.checking import network_list
from ..landscape import Evaluator, Family, Workers
from ..methods import Chosen
from ..modules import unwrapped

SHOWN = ("vanilla", "ot", "wb", "auto")  # methods of a comparison that names none: the plain average, the paper's, ours
# What a row may say of `fuse` beside options of its method; the rest is said for all rows at once.
_KEYWORDS = frozenset(inspect.signature(fuse).parameters) - {
    "models",
    "example_inputs",
    "layout",
    "progress",
    "options",
}
METHODS = Kind(
    lambda value: mapping(mapping(Kind(lambda _: True, ""), ""), "").holds(value) or many(TEXT, "").holds(value),
    "names of methods, or arguments of `fuse` by the name of a row: {'wide': {'method': 'auto', 'target': 1.5}}",
)


@dataclass(frozen=True)
class Row:
    """A method of a comparison: its name there, and the arguments that `fuse` is given."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Asked:
    """What is compared and how.

    Args:
        groups: Networks of one architecture, by the name of the group.
        rows: The methods.
        example_inputs: For tracing, as for `fuse`.
        evaluate: From a module to a number, or to several by name.
        data: Unlabeled inputs for matching, corrections, the control and batch norm; or nothing.
        points: Networks that are evaluated on each barrier.
        planes: Points along each side of a plane; 0 for none.
        seed: For everything random.
        workers: Processes or an executor that measure barriers and planes.
    """

    groups: Mapping[str, tuple[nn.Module, ...]]
    rows: tuple[Row, ...]
    example_inputs: Any
    evaluate: Any
    data: Any
    points: int
    planes: int
    seed: int
    workers: Workers

    @cached_property
    def fingerprints(self) -> dict[str, list[str]]:
        """For each group a hash of each of its networks."""
        return {
            name: [Family.of({"network": model}).fingerprints[0] for model in models]
            for name, models in self.groups.items()
        }

    @cached_property
    def data_hash(self) -> str | None:
        """A hash of the unlabeled data; nothing without data, or if they are made anew each time they are read."""
        return content_hash(self.data)

    def key(self, group: str, row: str, arguments: Mapping[str, Any], *, plane: bool) -> str:
        """A hash of all that a line depends on but `evaluate`, which cannot be hashed."""
        told = {
            "networks": self.fingerprints[group], "row": row, "arguments": arguments, "data": self.data_hash,
            "points": self.points, "grid": self.planes if plane else 0, "seed": self.seed,
        }  # fmt: skip
        return hashlib.sha256(json.dumps(told, default=_spoken, sort_keys=True).encode()).hexdigest()[:16]


def checked_groups(groups: Any) -> dict[str, tuple[nn.Module, ...]]:
    """Groups of two or more networks by name; a list of groups is numbered.

    Raises:
        InputError: naming every group that cannot be compared.
    """
    if not isinstance(groups, Mapping | list | tuple) or not groups:
        raise InputError(
            "groups is empty or no list; expected groups of networks: [[a, b], [c, d]], or {'name': [a, b]}"
        )
    if not isinstance(groups, Mapping) and any(isinstance(each, nn.Module) for each in groups):
        raise InputError("groups holds networks themselves; expected groups of networks: [[a, b], [c, d]]")
    named = groups if isinstance(groups, Mapping) else {f"group {n}": each for n, each in enumerate(groups, start=1)}
    found, problems = {}, []
    for name, models in named.items():
        try:
            own = tuple(unwrapped(model) for model in network_list(models))
            found[str(name)] = own
            problems += [f"{name}: one network alone"] if len(own) < 2 else []
        except InputError as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise InputError(listing("these groups cannot be compared; give two or more networks in each:", problems))
    return found


def checked_rows(methods: Any, *, data: bool) -> tuple[Row, ...]:
    """The methods as rows, once it is clear that `fuse` takes what they say.

    Raises:
        InputError: with everything that is wrong in any row.
    """
    check_arguments(methods=(methods, METHODS))
    named = methods if isinstance(methods, Mapping) else {name: {"method": name} for name in methods}
    rows = tuple(Row(name, {"method": name, **said} if "method" not in said else said) for name, said in named.items())
    problems = [f"{row.name}: {text}" for row in rows for text in _problems(row, data=data)]
    if not rows or problems:
        raise InputError(listing("methods cannot be compared as given:", problems or ["there are none; name some"]))
    return rows


def _problems(row: Row, *, data: bool) -> Iterable[str]:
    """What is wrong with a row."""
    said = {name: value for name, value in row.arguments.items() if name not in _KEYWORDS}
    try:
        chosen = Chosen.of(str(row.arguments["method"]), said)
    except InputError as error:
        yield str(error)
        return
    terms = row.arguments.get("terms") or chosen.row.terms
    if terms in ("activations", "both") and row.arguments.get("data", data or None) is None:
        yield f"it matches units by {terms}: pass inputs without labels (data=)"


def content_hash(content: Any) -> str | None:
    """A hash of the tensors in some data; nothing, if there are none or they cannot be read twice."""
    if isinstance(content, Evaluator):
        return content_hash(content.batches)
    if not isinstance(content, Tensor | Mapping | list | tuple):
        return None
    digest = hashlib.sha256()
    for tensor in pytree.tree_leaves(content):
        if isinstance(tensor, Tensor):
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _spoken(value: Any) -> str:
    """A value that JSON lacks, by what is the same in every run."""
    return content_hash([value]) or "" if isinstance(value, Tensor) else f"{type(value).__name__} {value}"


def told_arguments(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """The arguments of each row as JSON can hold them."""
    found: dict[str, dict[str, Any]] = json.loads(
        json.dumps({row.name: dict(row.arguments) for row in rows}, default=_spoken)
    )
    return found
