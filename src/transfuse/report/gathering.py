"""From a fusion and `evaluate` to everything that its report tells: plain numbers and records.

In: a fusion. Out: a `Report`. Not here: the page.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from ..corrections import NONE
from ..corrections.batch_norm import norms_of
from ..errors import InputError
from ..landscape import Axes, Barrier, Family, Plane, Survey, barrier, plane, similarity
from ..landscape.combining import state_of
from ..landscape.geometry import FLAT
from ..methods import METHODS
from ..modules.ensemble import Ensemble
from ..modules.rebuilding import with_state
from ..plots import entries_per_row, pooled
from .contents import CouplingPicture, Fused, Report, Request, Row, States

PAIRS = 3  # barriers are drawn from the first model to this many others
CELLS = 48  # along a side of a coupling's picture


def gather(fusion: Fused, request: Request, title: str | None = None) -> Report:
    """Measure what the request asks for, and collect the rest."""
    states = fusion.states
    notes: list[str] = []
    seconds = {"fusing": states.seconds}
    rows: list[Row] = []
    curves: dict[str, Barrier] = {}
    surface = None
    if request.evaluate is None:
        notes.append("Nothing was measured: no evaluate was given.")
    else:
        with _timed(seconds, "table of results"):
            rows = list(_rows(fusion, request, notes))
        with _timed(seconds, "barriers"):
            curves = _barriers(fusion, request, notes)
        with _timed(seconds, "plane"):
            surface = _plane(fusion, request, notes)
    return Report(
        title or f"{len(fusion.parents)} × {type(fusion.model).__name__}, fused",
        _facts(fusion), states.layout, _widths(fusion), tuple(rows), curves, surface, tuple(_couplings(states)),
        _similarity(fusion), tuple(step.objective for step in states.history), seconds, versions(),
        _recipe(fusion), tuple(notes),
    )  # fmt: skip


def _facts(fusion: Fused) -> dict[str, str]:
    states = fusion.states
    row = METHODS.get(states.method)
    shares = ", ".join(f"{weight:.4g}" for weight in states.weights)
    sizes = [f"{type(model).__name__} ({parameters(model):,} parameters)" for model in fusion.parents]
    prints = [Family.of({"model": model}).fingerprints[0] for model in fusion.parents]
    return {
        "Models": "; ".join(dict.fromkeys(sizes)) + (f", {len(sizes)} of them" if len(sizes) > 1 else ""),
        "Weights": shares,
        "Result": f"{type(fusion.model).__name__} ({parameters(fusion.model):,} parameters)",
        "Method": f"{states.method}: {row.summary} ({row.citation})" if row else states.method,
        "Options": ", ".join(f"{name} = {value}" for name, value in states.options.items()) or "defaults",
        "Seed": str(states.seed),
        "Status": states.status,
        "Correction at the end": str(fusion.correction),
        "SHA-256": ", ".join(f"{each}…" for each in prints),
    }


def _widths(fusion: Fused) -> dict[str, tuple[int, ...]]:
    """Units of each space, in the result and in the models."""
    found = [fusion.states.layout.widths(state_of(model)) for model in (fusion.model, *fusion.parents)]
    return {space: tuple(each[space] for each in found) for space in found[0]}


def parameters(model: nn.Module) -> int:
    """How many numbers a module learns."""
    return sum(parameter.numel() for parameter in model.parameters())


def versions() -> dict[str, str]:
    """Of what the result depends on."""
    return {
        "transfuse": import_module("transfuse").__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


def _rows(fusion: Fused, request: Request, notes: list[str]) -> Iterator[Row]:
    """Base models as they are, the plain average, the fused network, the ensemble."""
    for number, model in enumerate(fusion.parents, start=1):
        yield _row(f"model {number}", model, request)
    averaged = [("fused", fusion.model)]
    if alike(fusion.parents):
        averaged.insert(0, ("vanilla (plain average)", plain_average(fusion)))
    else:
        notes.append("No plain average: the models have different widths.")
    for name, model in averaged:
        yield _row(name, model, request)
        if request.data is not None and norms_of(model):
            yield _row(f"{name}, batch norm reset", model, request, data=request.data)
    if len(fusion.parents) > 1:
        ensemble = Ensemble(fusion.parents, fusion.states.weights)
        yield _row("ensemble (mean of outputs)", ensemble, request)


def _row(name: str, model: nn.Module, request: Request, data: Any = None) -> Row:
    survey = Survey(request.evaluate, data)
    ((_, values),) = survey.measure(Family.of({name: model}), [(1.0,)], name)
    return Row(name, parameters(model), values)


def alike(models: Sequence[nn.Module]) -> bool:
    """Whether there is something between these models."""
    try:
        Family.of({str(number): model for number, model in enumerate(models)})
    except InputError:
        return False
    return True


def plain_average(fusion: Fused) -> nn.Module:
    """The models averaged as they are."""
    family = Family.of({str(number): model for number, model in enumerate(fusion.parents)})
    with torch.no_grad():
        return with_state(fusion.parents[0], state_of(family.at(tuple(fusion.states.weights))))


def _barriers(fusion: Fused, request: Request, notes: list[str]) -> dict[str, Barrier]:
    """From the first model to others, as trained and aligned."""
    count = len(fusion.parents)
    how = dict(points=request.points, data=request.data, cache=request.cache, workers=request.workers)
    curves = {}
    for other in range(1, min(count, PAIRS + 1)):
        pair = f"1 to {other + 1}, " if count > 2 else ""
        for name, models in (("as trained", fusion.parents), ("aligned", fusion.aligned)):
            if alike([models[0], models[other]]):
                curves[pair + name] = barrier(
                    models[0], models[other], request.evaluate, progress=request.progress, **how
                )
    if count > PAIRS + 1:
        notes.append(f"Barriers are shown from model 1 to models 2 to {PAIRS + 1} only.")
    return curves


def _plane(fusion: Fused, request: Request, notes: list[str]) -> Plane | None:
    """Through the first model, the second, and the second aligned."""
    if not request.grid or len(fusion.parents) < 2:
        return None
    first, second, moved = fusion.aligned[0], fusion.parents[1], fusion.aligned[1]
    marks = {"model 1": first, "model 2": second, "model 2 aligned": moved, "fused": fusion.model}
    if not alike([first, second]):
        notes.append("No plane: model 2 has other widths than the result.")
        return None
    try:
        Axes.through(state_of(first), state_of(second), state_of(moved))
    except InputError:
        notes.append("No plane: model 1, model 2 and aligned model 2 lie on one line.")
        return None
    if any(not torch.equal(a, b) for a, b in zip(first.parameters(), fusion.parents[0].parameters(), strict=True)):
        notes.append("On the plane, model 1 stands in the common order and scale, in which it was averaged.")
    surface = plane(
        first, second, moved, request.evaluate, grid=request.grid, marks=marks, data=request.data, cache=request.cache,
        workers=request.workers, progress=request.progress,
    )  # fmt: skip
    if surface["fused"].distance > FLAT * surface["model 2"].x:
        notes.append("The fused network was corrected after averaging, so it stands off the plane; its foot is drawn.")
    return surface


def _couplings(states: States) -> Iterator[CouplingPicture]:
    """All but those of the first model, to which the others were brought, if it stayed as it is."""
    for number, each in enumerate(states.couplings, start=1):
        for space, matrix in each.items():
            entries = matrix.detach().double().cpu().numpy()
            rows, columns = entries.shape
            if number == 1 and rows == columns and np.array_equal(entries, np.eye(rows)):
                continue
            negated = int((entries.sum(0) < 0).sum())
            yield CouplingPicture(
                number, space, (rows, columns), entries_per_row(entries), negated, pooled(entries, CELLS)
            )


def _similarity(fusion: Fused) -> dict[str, tuple[float, float]]:
    """For each tensor the mean cosine of the other models to the first, as trained and aligned."""
    if len(fusion.parents) < 2 or not alike([fusion.aligned[0], *fusion.parents]):
        return {}
    reference = state_of(fusion.aligned[0])
    before = [similarity(reference, state_of(model)) for model in fusion.parents[1:]]
    after = [similarity(reference, state_of(model)) for model in fusion.aligned[1:]]
    return {
        name: (float(np.mean([each[name] for each in before])), float(np.mean([each[name] for each in after])))
        for name in before[0]
    }


def _recipe(fusion: Fused) -> str:
    """The call that does it again, as far as a fusion knows it."""
    states, done = fusion.states, fusion.correction.method
    given = dict(states.options)
    if states.method in METHODS and METHODS[states.method].correct not in (done, "auto" if done != NONE else done):
        given["correct"] = done
    options = "".join(f", {name}={value!r}" for name, value in given.items())
    shares = ", ".join(f"{weight:.6g}" for weight in states.weights)
    return (
        "import transfuse\n\n"
        "# models: the networks above, in this order; example_inputs: any batch that suits them\n"
        "# and data=, target= or layout= as they were given, if they were\n"
        f"fusion = transfuse.fuse(models, example_inputs, method={states.method!r}, weights=[{shares}], "
        f"seed={states.seed}{options})\n"
        'fusion.report("report.html", evaluate=transfuse.evaluator(loader))\n'
    )


@contextmanager
def _timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[part] = time.perf_counter() - started
