"""What lies between two networks, as plain numbers: barriers as trained and aligned, and the plane through three.

In: a fusion of two networks. Out: a record for a line of results; and back to what `transfuse.plots` draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

import transfuse
from transfuse.landscape import Workers
from transfuse.types import Array

from .data import Batched, Examples
from .profiles import Profile

DIGITS = 6
METRICS = {False: ("error", "error"), True: ("loss", "nats")}  # what counts of classes and of texts, and its unit


def landscape(
    fusion: transfuse.Fusion, test: Examples, profile: Profile, *, pictured: bool, cache: Path, workers: Workers = 0
) -> dict[str, Any]:
    """Barriers, and the plane through model 1, model 2, and model 2 aligned.

    Args:
        fusion: Of two networks.
        test: Where errors are counted; of texts, where the loss is measured.
        profile: How many points, and on how many examples.
        pictured: Whether the plane is measured too: it has many points, and is looked at rather than averaged. There is
            none where the fused network has other widths than model 2.
        cache: How names of files begin that remember points, so that a killed run goes on.
        workers: Processes that measure, 0 for this one; or an executor.
    """
    (first, second), (one, other) = fusion.parents, fusion.aligned
    evaluate, how = _measure(test, profile.shown, cache, workers)
    trained = transfuse.barrier(first, second, evaluate, points=profile.points, **how)
    aligned = transfuse.barrier(one, other, evaluate, points=profile.points, **how)
    found = {"trained": trained, "aligned": aligned}
    if pictured and shapes(one) == shapes(second):
        evaluate, how = _measure(test, profile.pictured, cache, workers)
        marks = {"model 1": one, "model 2": second, "model 2 aligned": other, "fused": fusion.model}
        found["plane"] = transfuse.plane(one, second, other, evaluate, grid=profile.plane, marks=marks, **how)
    metric, unit = METRICS[is_text(test)]
    return {
        "metrics": {
            "barrier as trained": trained.height(metric),
            "barrier aligned": aligned.height(metric),
            f"{unit} midway": aligned.midpoint(metric),
        },
        "landscape": as_numbers(found),
    }


def is_text(test: Examples) -> bool:
    """Whether every place of an example is foretold, as the characters of a text are: its loss counts then."""
    return test.labels.dim() > 1


def by_place(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Scores [places, classes] and targets [places]: each place at which something is foretold is an example."""
    inputs, targets = batch
    return model(inputs).flatten(0, -2), targets.flatten().long()


def shapes(model: nn.Module) -> list[tuple[int, ...]]:
    """Of all tensors of a network."""
    return [tuple(tensor.shape) for tensor in model.state_dict().values()]


def _measure(test: Examples, shown: int | None, cache: Path, workers: Workers) -> tuple[Any, dict[str, Any]]:
    """Errors and losses on the first test examples, and how points are kept and shared out."""
    evaluate = transfuse.evaluator(Batched(test.part(slice(shown))), forward=by_place, keep=False)
    return evaluate, {"cache": cache.with_name(f"{cache.name}-{shown}.jsonl"), "workers": workers}


def as_numbers(record: Any) -> Any:
    """A record of landscapes as JSON has it: six digits, None for what is not finite."""
    if isinstance(record, transfuse.Barrier | transfuse.Plane | transfuse.Mark):
        record = vars(record)
    if isinstance(record, Mapping):
        return {name: as_numbers(value) for name, value in record.items()}
    if isinstance(record, np.ndarray | tuple | list):
        return [as_numbers(value) for value in record]
    if isinstance(record, str):
        return record
    return float(f"{record:.{DIGITS}g}") if math.isfinite(record) else None


def barrier_of(numbers: Mapping[str, Any]) -> transfuse.Barrier:
    """The barrier that `as_numbers` wrote."""
    return transfuse.Barrier(_values(numbers), np.array(numbers["positions"], float))


def plane_of(numbers: Mapping[str, Any]) -> transfuse.Plane:
    """The plane that `as_numbers` wrote."""
    x, y = (np.array(numbers[name], float) for name in ("x", "y"))
    return transfuse.Plane(_values(numbers), x, y, tuple(transfuse.Mark(**mark) for mark in numbers["marks"]))


def _values(numbers: Mapping[str, Any]) -> dict[str, Array]:
    return {name: np.array(value, float) for name, value in numbers["values"].items()}
