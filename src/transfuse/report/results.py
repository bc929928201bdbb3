"""What is measured for a report: a table of networks, barriers from the first model to others, and a plane.

In: a fusion and a request with `evaluate`. Out: `Results`. What cannot be measured becomes a note, not an error: the
rest of the page is still of use.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ..corrections import NONE
from ..corrections.batch_norm import norms_of
from ..errors import InputError
from ..fusing import Fusion
from ..landscape import Barrier, Evaluator, Family, Frame, Plane, Survey, barrier, plane
from ..landscape.geometry import FLAT
from ..modules import Ensemble, are_class_scores, state_of, tensors_in, with_state
from .contents import Request, ResultRow, Results, Role

Point = tuple[float, float]

UNMOVED = "model 1 as trained"  # the mark of the first model where it is not in the common order and scale already
PAIRS = 3  # barriers from the first model to this many others: more curves than that are not told apart


def measured(fusion: Fusion, request: Request) -> Results:
    """Evaluate all that the page shows."""
    if request.evaluate is None:
        return Results(notes=("Nothing was measured: no evaluate was given.",))
    notes: list[str] = []
    seconds: dict[str, float] = {}
    with _timed(seconds, "table of results"):
        rows = tuple(_rows(fusion, request, notes))
    with _timed(seconds, "barriers"):
        barriers = _barriers(fusion, request, notes)
    with _timed(seconds, "plane"):
        surface = plane_of(fusion, request, notes)
    ways = _ways(surface, barriers) if surface else {}
    return Results(rows, barriers, surface, ways, tuple(notes), seconds)


def _rows(fusion: Fusion, request: Request, notes: list[str]) -> Iterator[ResultRow]:
    """The models as they are, their plain average, the fused network, and the ensemble."""
    for number, model in enumerate(fusion.parents, start=1):
        yield _row(f"model {number}", "parent", model, request)
    averaged: list[tuple[str, Role, nn.Module]] = [("fused", "fused", fusion.model)]
    if alike(fusion.parents):
        averaged.insert(0, ("vanilla (plain average)", "average", plain_average(fusion)))
    else:
        notes.append("No plain average: the models have different widths.")
    for name, role, model in averaged:
        yield _row(name, role, model, request)
        if request.data is not None and norms_of(model):
            yield _row(f"{name}, batch norm reset", "batch norm reset", model, request, data=request.data)
    if len(fusion.parents) > 1:
        yield _ensemble_row(fusion, request)


def _ensemble_row(fusion: Fusion, request: Request) -> ResultRow:
    """The row of the ensemble, whose name says what was averaged: class probabilities, or outputs of another kind."""
    if fusion.heads is None:
        ensemble = ensemble_of(fusion.parents, fusion.states.weights, request.evaluate)
    else:  # of joined heads, the mean of outputs is what each knows
        ensemble = Ensemble(fusion.parents, fusion.states.weights, classes=False)
    outputs: list[bool] = []  # whether they were class scores: only `evaluate` knows on what, and so what, networks run
    ensemble.register_forward_hook(lambda *call: outputs.extend(map(are_class_scores, tensors_in(call[-1]))))
    row = _row("ensemble", "ensemble", ensemble, request)
    averaged = "probabilities" if ensemble.classes and any(outputs) else "outputs"
    return replace(row, name=f"ensemble (mean of {averaged})")


def ensemble_of(models: Sequence[nn.Module], weights: Sequence[float], evaluate: Any) -> Ensemble:
    """The ensemble of some models, whose outputs are class scores unless `evaluate` has a measure of its own."""
    own_measure = isinstance(evaluate, Evaluator) and not evaluate.measures_classes
    return Ensemble(models, weights, classes=not own_measure)


def _row(name: str, role: Role, model: nn.Module, request: Request, data: Any = None) -> ResultRow:
    survey = Survey(request.evaluate, data)
    ((_, values),) = survey.measure(Family.of({name: model}), [(1.0,)], name)
    return ResultRow(name=name, role=role, parameters=parameter_count(model), values=values)


def parameter_count(model: nn.Module) -> int:
    """How many numbers a module learns."""
    return sum(parameter.numel() for parameter in model.parameters())


def alike(models: Sequence[nn.Module]) -> bool:
    """Whether these models can be averaged tensor by tensor."""
    try:
        Family.of({str(number): model for number, model in enumerate(models)})
    except InputError:
        return False
    return True


def plain_average(fusion: Fusion) -> nn.Module:
    """The models averaged tensor by tensor as they were trained, unit 1 with unit 1."""
    family = Family.of({str(number): model for number, model in enumerate(fusion.parents)})
    with torch.no_grad():
        return with_state(fusion.parents[0], state_of(family.at(tuple(fusion.states.weights))))


def _barriers(fusion: Fusion, request: Request, notes: list[str]) -> dict[str, Barrier]:
    """Barriers from the first model to others, as they were trained and aligned."""
    count = len(fusion.parents)
    found = {}
    for other in range(1, min(count, PAIRS + 1)):
        pair = f"1 to {other + 1}, " if count > 2 else ""
        for name, models in (("as trained", fusion.parents), ("aligned", fusion.aligned)):
            if alike([models[0], models[other]]):
                found[pair + name] = barrier(
                    models[0], models[other], request.evaluate, points=request.points, data=request.data,
                    cache=request.cache, workers=request.workers, progress=request.progress,
                )  # fmt: skip
    if count > PAIRS + 1:
        notes.append(f"Barriers are shown from model 1 to models 2 to {PAIRS + 1} only.")
    return found


def plane_of(fusion: Fusion, request: Request, notes: list[str]) -> Plane | None:
    """The plane through the first model, the second one, and the second one aligned."""
    if not request.grid or len(fusion.parents) < 2:
        return None
    first, second, moved = fusion.aligned[0], fusion.parents[1], fusion.aligned[1]
    if not alike([first, second]):
        notes.append("No plane: model 2 has other widths than the result.")
        return None
    try:
        Frame.through(state_of(first), state_of(second), state_of(moved))
    except InputError:
        notes.append("No plane: model 1, model 2 and aligned model 2 lie on one line.")
        return None
    marks = {"model 1": first, "model 2": second, "model 2 aligned": moved, "fused": fusion.model}
    if alike([first, fusion.parents[0]]) and not _equal(first, fusion.parents[0]):
        marks[UNMOVED] = fusion.parents[0]
        notes.append(
            "On the plane, model 1 stands in the common order and scale, in which it was averaged; "
            f"{UNMOVED}, where the straight way begins, computes the same."
        )
    found = plane(
        first, second, moved, request.evaluate, grid=request.grid, data=request.data, cache=request.cache,
        marks=marks, workers=request.workers, progress=request.progress, finer=True,
    )  # fmt: skip
    if found["fused"].distance > FLAT * found["model 2"].x:
        notes.append(f"{_why_off(fusion)}, so it stands off the plane; its foot is drawn.")
    return found


def _equal(one: nn.Module, other: nn.Module) -> bool:
    """Whether all parameters of two networks are the same numbers."""
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def _ways(surface: Plane, barriers: Mapping[str, Barrier]) -> dict[str, tuple[Point, Point]]:
    """Where the barriers between models 1 and 2 begin and end on the plane: at networks, or at the feet of networks."""
    names = {mark.name for mark in surface.marks}
    ends = {
        "as trained": (UNMOVED if UNMOVED in names else "model 1", "model 2"),
        "aligned": ("model 1", "model 2 aligned"),
    }
    return {
        name: ((surface[start].x, surface[start].y), (surface[end].x, surface[end].y))
        for kind, (start, end) in ends.items()
        for name in (kind, f"1 to 2, {kind}")
        if name in barriers
    }


def _why_off(fusion: Fusion) -> str:
    """Why the fused network is none of the combinations that make up the plane."""
    if fusion.correction.method != NONE:
        return "The fused network was corrected after averaging"
    return f"The fused network is the average of {len(fusion.parents)} models"


@contextmanager
def _timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[part] = time.perf_counter() - started
