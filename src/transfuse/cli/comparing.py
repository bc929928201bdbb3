"""The verb that compares: `compare`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..checkpoints import open_checkpoint
from ..checkpoints.provenance import sha256
from ..comparison import Comparison
from ..comparison import compare as compare_modules
from ..comparison.keeping import LINES
from ..errors import InputError
from .architectures import example_inputs
from .data import inputs_and_labels
from .evaluating import check_measures, evaluation
from .jobs import opened_modules
from .records import Outcome
from .retelling import command
from .spreading import workers_of
from .values import pairs, short_names


def compare(options: Namespace) -> Outcome:
    """Methods on groups of checkpoints, beside their controls: one folder of tables, figures and numbers."""
    check_measures(options)
    groups = _groups(options)
    _check_folder(options)
    given = {} if options.methods is None else {"methods": dict(map(_method, options.methods))}
    plans = {name: opened_modules(options, paths) for name, paths in groups.items()}
    modules = {name: models for name, (models, _) in plans.items()}
    first, plan = next(iter(plans.values()))
    with workers_of(options) as workers:
        found = compare_modules(
            modules, example_inputs(options, plan), evaluation(options, first[0]), data=_unlabeled(options),
            points=options.points, planes=options.planes or 0, seed=options.seed, folder=options.out, workers=workers,
            progress=not options.quiet, **given,
        )  # fmt: skip
    told = replace(found, making={**found.making, **_origins(options, groups)})
    told.save(options.out)
    return Outcome(_plain(told, options.out), f"{told}\nwrote {options.out}", asked=True)


def _groups(options: Namespace) -> dict[str, list[str]]:
    """The checkpoints of each group by its name, which is made of their names."""
    size, paths = options.group_size, options.models
    if size < 2 or len(paths) % size:
        raise InputError(
            f"{len(paths)} checkpoints make no groups of {size}; expected groups of two or more, one after the other "
            "(--group-size)"
        )
    names = short_names(paths)
    parts = [paths[start : start + size] for start in range(0, len(paths), size)]
    found = {" + ".join(names[path] for path in part): part for part in parts}
    if len(found) < len(parts):
        raise InputError("two groups hold the same checkpoints; give different groups")
    return found


def _check_folder(options: Namespace) -> None:
    """Refuse a folder of others: tables and figures would be written among what is there."""
    folder = Path(options.out)
    if folder.is_file():
        raise InputError(f"--out {folder} is a file; expected a folder, which is made if it is not there")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / LINES).exists() and not options.force:
        raise InputError(
            f"--out {folder} is a folder of others: it has no {LINES} of a comparison; choose another one, or pass "
            "--force to write there"
        )


def _method(text: str) -> tuple[str, dict[str, Any]]:
    """`wb:epsilon=0.02,target=1.5` as the name of a row and the arguments of `fuse`."""
    name, _, rest = text.partition(":")
    return text, {"method": name, **pairs(rest.split(",") if rest else [], "--methods")}


def _unlabeled(options: Namespace) -> Any:
    return inputs_and_labels(options, "--unlabeled")[0] if options.unlabeled else None


def _origins(options: Namespace, groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Where a comparison comes from: files with their hashes, and the command that makes it again."""
    data = [text for text in (options.data, options.unlabeled) if text and Path(text).is_file()]
    return {
        "files": {name: [_hashes(path) for path in paths] for name, paths in groups.items()},
        "data_files": {text: sha256(Path(text)) for text in data},
        "command": command(options, folders=True),
    }


def _hashes(path: str) -> dict[str, str]:
    """The SHA-256 of each file of a checkpoint, by the path as it was typed, or the file in a folder."""
    files = open_checkpoint(path).files
    return {path if len(files) == 1 else f"{path}/{file.name}": sha256(file) for file in files}


def _plain(found: Comparison, out: str) -> dict[str, Any]:
    """What is told to machines."""
    table = found.table()
    return {
        "out": out, "head": list(table.head), "rows": [list(row) for row in table.rows], "notes": list(found.notes),
        "lines": [
            {"group": line.group, "row": line.row, "role": line.role, "values": dict(line.values), "told": line.told,
             "barrier": None if line.barrier is None else line.barrier.height()}
            for line in found.lines
        ],
    }  # fmt: skip
