"""Values between networks: along a segment, along a chain of segments, and in the middle of several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from ..arguments import NETWORK_OR_STATE, NETWORKS_OR_STATES, check_arguments, count
from ..errors import InputError
from ..progress import Progress
from ..types import Array
from ..workers import Workers
from .combining import Coefficients, Family, ModuleOrState
from .measuring import Evaluate, Survey
from .records import Barrier, Simplex

POINTS = replace(count(2), expected="2 (the two ends) or more")
Path = str | os.PathLike[str]


def barrier(  # noqa: PLR0913
    a: ModuleOrState, b: ModuleOrState, evaluate: Evaluate, *, points: int = 25, data: Any = None,
    cache: Path | None = None, workers: Workers = 0, progress: Progress = False,
) -> Barrier:  # fmt: skip
    """Values along the segment between two networks, and how high the barrier on it is.

    Args:
        a: A module, or a state.
        b: Another one of the same architecture and width.
        evaluate: `evaluate(model) -> float | dict`; `transfuse.evaluator(loader)` makes one. For states it is given a
            state. It sees a private copy in evaluation mode, without gradients.
        points: How many networks are evaluated, ends included; if it is even, the midpoint is added.
        data: Unlabeled batches: the statistics of batch norm are computed anew at each point, the ends included.
        cache: A file that remembers values, so that a killed run goes on where it stopped.
        workers: Processes to use, 0 for this one; or any `concurrent.futures.Executor` (of Dask, Ray, MPI, Slurm),
            which is not shut down.
        progress: Show how far it is: True for a bar, if standard error is a terminal or this is a notebook; "always"
            also for lines elsewhere; or a function `watch(stage, done, total)` of your own.

    Raises:
        InputError: the networks do not fit each other, or evaluate gives no numbers.

    Example:
        >>> import torch
        >>> a, b = {"w": torch.zeros(1)}, {"w": torch.ones(1)}
        >>> found = barrier(a, b, lambda state: float(1 - (state["w"] - 0.5) ** 2), points=5)
        >>> found.height(), found.midpoint()
        (0.25, 1.0)
    """
    check_arguments(a=(a, NETWORK_OR_STATE), b=(b, NETWORK_OR_STATE))
    (found,) = chain([a, b], evaluate, points=points, data=data, cache=cache, workers=workers, progress=progress)
    return found


def chain(  # noqa: PLR0913
    networks: Sequence[ModuleOrState], evaluate: Evaluate, *, points: int = 25, data: Any = None,
    cache: Path | None = None, workers: Workers = 0, progress: Progress = False,
) -> tuple[Barrier, ...]:  # fmt: skip
    """The barriers of the segments from each network to the next; see `barrier`."""
    check_arguments(networks=(networks, NETWORKS_OR_STATES), points=(points, POINTS))
    family = _family(networks, least=2)
    count = len(networks)
    positions = np.union1d(np.arange(points) / (points - 1), [0.5])
    inner = [_between(step, t, count) for step in range(count - 1) for t in positions[1:-1]]
    ends = [_middle((number,), count) for number in range(count)]
    survey = Survey(evaluate, data, cache, workers, progress)
    values = _columns(survey, family, ends + inner, "barrier")
    return tuple(_segment(values, positions, step, count) for step in range(count - 1))


def simplex(
    networks: Sequence[ModuleOrState], evaluate: Evaluate, *, data: Any = None, cache: Path | None = None,
    workers: Workers = 0, progress: Progress = False,
) -> Simplex:  # fmt: skip
    """Values at several networks, midway between any two of them, and in the middle of all; see `barrier`.

    Example:
        >>> import torch
        >>> corners = [{"w": row} for row in torch.eye(3)]
        >>> found = simplex(corners, lambda state: float(state["w"].square().sum()))
        >>> found.height((0, 1)), round(found.height(), 6)
        (-0.5, -0.666667)
    """
    check_arguments(networks=(networks, NETWORKS_OR_STATES))
    family = _family(networks, least=2)
    numbers = range(len(networks))
    members = [*((number,) for number in numbers), *combinations(numbers, 2)]
    if len(networks) > 2:
        members.append(tuple(numbers))
    survey = Survey(evaluate, data, cache, workers, progress)
    values = _columns(survey, family, [_middle(each, len(networks)) for each in members], "simplex")
    return Simplex(values, tuple(members))


def _family(networks: Sequence[ModuleOrState], least: int) -> Family:
    if len(networks) < least:
        raise InputError(f"got {len(networks)} networks; expected {least} or more")
    return Family.of({f"network {number}": network for number, network in enumerate(networks, start=1)})


def _between(step: int, t: float, count: int) -> Coefficients:
    return tuple(1 - t if number == step else t if number == step + 1 else 0.0 for number in range(count))


def _middle(members: Sequence[int], count: int) -> Coefficients:
    return tuple(1 / len(members) if number in members else 0.0 for number in range(count))


def _columns(survey: Survey, family: Family, points: Sequence[Coefficients], label: str) -> dict[str, Array]:
    """For each metric an array of its values, in the order of the points."""
    rows = dict(survey.measure(family, points, label))
    return {metric: np.array([rows[number][metric] for number in range(len(points))]) for metric in rows[0]}


def _segment(values: dict[str, Array], positions: Array, step: int, count: int) -> Barrier:
    """The barrier between two neighbours of a chain, cut out of what was measured on all of it."""
    inner = len(positions) - 2
    start = count + step * inner
    return Barrier(
        {name: np.concatenate([each[step : step + 1], each[start : start + inner], each[step + 1 : step + 2]])
         for name, each in values.items()},
        positions,
    )  # fmt: skip
