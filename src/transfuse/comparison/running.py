"""`compare`: several methods on several groups of networks, beside their controls.

In: groups of networks, and `evaluate`. Out: a `Comparison`. What a folder holds of an earlier run is not made again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ..arguments import PATH, PROGRESS, SEED, check_arguments, count, optional
from ..corrections import norms_of
from ..errors import InputError
from ..landscape import Survey, Workers
from ..landscape.measuring import INTERPOLATED, SAME
from ..landscape.paths import POINTS as SEGMENT
from ..progress import Progress, watching
from ..versions import package_versions
from .asking import SHOWN, Asked, checked_groups, checked_rows, content_hash, told_arguments
from .cells import Bench, Cell
from .keeping import POINTS, keep, known_lines
from .records import TRAINED, Comparison, Line

Groups = Sequence[Sequence[nn.Module]] | Mapping[str, Sequence[nn.Module]]
NO_DATA = (
    "Without data there is no row for one model with its last layer refitted, the control that a corrected fusion "
    "must beat."
)


def compare(  # noqa: PLR0913
    groups: Groups, example_inputs: Any, evaluate: Any, *,
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]] = SHOWN, data: Any = None, points: int = 11,
    planes: int = 0, seed: int = 0, folder: str | os.PathLike[str] | None = None, workers: Workers = 0,
    progress: Progress = False,
) -> Comparison:  # fmt: skip
    """Compare methods on several groups of trained networks, beside the controls that they must beat.

    Controls are rows of every table: the models as trained (their mean), the better one of them, their ensemble, and
    with data, one model whose last layer is refitted to the mean of all.

    Args:
        groups: Pairs (or more) of networks of one architecture: `[[a, b], [c, d]]`, or by name.
        example_inputs: For tracing, as for `fuse`.
        evaluate: `evaluate(model) -> float | dict`; `transfuse.evaluator(loader)` makes one.
        methods: Rows of `transfuse.METHODS`; or arguments of `fuse` by the name of a row, such as
            `{"auto, wider": {"method": "auto", "target": 1.5}, "auto, no data": {"method": "auto", "data": None}}`.
        data: Inputs without labels: methods match and correct by them, the control is refitted by them, and batch norm
            is computed anew on barriers and planes.
        points: Networks that are evaluated on each barrier; it is measured between the first two of each group.
        planes: Points along each side of a plane for each method, of the first group; 0 for none.
        seed: For everything random.
        folder: Where finished lines are kept, so that a killed run goes on; at the end, all that `save` writes.
        workers: Processes that measure barriers and planes, 0 for this one; or an executor, as for `barrier`.
        progress: Show how far it is; see `fuse`.

    Raises:
        InputError: groups or methods cannot be compared as given; or the folder was filled by another `evaluate`.

    Example:
        >>> import torch
        >>> nets = [nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in range(4)]
        >>> x = torch.randn(8, 2)
        >>> found = compare(
        ...     [nets[:2], nets[2:]], x, lambda net: float(net(x).square().mean()), methods=["vanilla", "ot"]
        ... )
        >>> [line.row for line in found.lines if line.group == "group 1"]
        ['models as trained (mean)', 'better model', 'vanilla', 'ot', 'ensemble']
    """
    check_arguments(
        points=(points, SEGMENT), planes=(planes, count(0)), seed=(seed, SEED), folder=(folder, optional(PATH)),
        progress=(progress, PROGRESS),
    )  # fmt: skip
    Survey(evaluate, data, workers=workers)  # which refuses what cannot measure
    asked = Asked(
        checked_groups(groups), checked_rows(methods, data=data is not None), example_inputs, evaluate, data, points,
        planes, seed, workers,
    )  # fmt: skip
    place = None if folder is None else Path(folder)
    lines, notes = _lines(asked, place, progress)
    found = Comparison(lines, _making(asked), (*_general_notes(asked), *dict.fromkeys(notes)))
    if place is not None:
        found.save(place)
    return found


def _lines(asked: Asked, folder: Path | None, progress: Progress) -> tuple[tuple[Line, ...], list[str]]:
    """All lines, those that a folder holds and those that are made now; and what could not be measured."""
    known, notes = known_lines(folder), list[str]()
    cache = None if folder is None else folder / POINTS
    benches = [Bench(asked, name, number == 0, cache, notes) for number, name in enumerate(asked.groups)]
    work = [(bench, cell) for bench in benches for cell in bench.cells()]
    _check_measure(benches[0], known, folder)
    lines = []
    with watching(progress, "compare") as watch:
        for done, (_, cell) in enumerate(work, start=1):
            lines.append(known.get(cell.key) or _made(cell, folder))
            watch(f"{cell.group}, {cell.row}", done, len(work))
    return tuple(lines), notes


def _made(cell: Cell, folder: Path | None) -> Line:
    line = cell.line()
    keep(folder, line)
    return line


def _check_measure(bench: Bench, known: Mapping[str, Line], folder: Path | None) -> None:
    """Measure the first networks again where lines are known, for a file cannot know what `evaluate` was."""
    first = next(cell for cell in bench.cells() if cell.row == TRAINED)
    if first.key not in known:
        return
    before = known[first.key].values
    now = {name: sum(own[name] for own in bench.own_values) / len(bench.own_values) for name in bench.own_values[0]}
    if before.keys() != now.keys() or any(
        not math.isclose(before[name], now[name], rel_tol=SAME, abs_tol=1e-9)
        for name in now
        if math.isfinite(now[name])
    ):
        raise InputError(
            f"{folder} was filled by another evaluate or with other data: it holds {dict(before)} for {TRAINED} of "
            f"{bench.name}, and evaluate gives {now}; give another folder"
        )


def _general_notes(asked: Asked) -> list[str]:
    """What is to be said of a comparison as it was asked for."""
    notes = [] if asked.data is not None else [NO_DATA]
    if any(len(models) > 2 for models in asked.groups.values()):
        notes.append("Barriers are measured between the first two models of each group.")
    if asked.data is None and any(norms_of(models[0]) for models in asked.groups.values()):
        notes.append(f"Barriers: {INTERPOLATED}.")
    return notes


def _making(asked: Asked) -> dict[str, Any]:
    """What is needed to make a comparison again."""
    methods = told_arguments(asked.rows)
    return {
        "groups": asked.fingerprints, "methods": methods, "seed": asked.seed, "points": asked.points,
        "planes": asked.planes,
        "data": {"matching": asked.data_hash, "evaluate": content_hash(asked.evaluate)},
        "evaluate": getattr(asked.evaluate, "__qualname__", type(asked.evaluate).__name__),
        "versions": package_versions(),
        "command": f"transfuse.compare(groups, example_inputs, evaluate, methods={methods!r}, points={asked.points}, "
        f"planes={asked.planes}, seed={asked.seed}{'' if asked.data is None else ', data=data'})",
    }  # fmt: skip
