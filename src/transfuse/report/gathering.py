"""From a fusion and a request to everything that its report tells: plain numbers and records.

In: a fusion. Out: a `Report`. Not here: what networks are evaluated (`results`), and the page (`rendering`).
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator

import numpy as np

from ..corrections import NONE
from ..fusing import FusedStates, Fusion
from ..landscape import Family, cosines
from ..landscape.pictures import entries_per_row, pooled
from ..methods import METHODS
from ..modules import state_of
from ..versions import package_versions
from .contents import CouplingPicture, Making, MatchedUnits, Report, Request, Subject
from .results import alike, measured, parameter_count

CELLS = 48  # along a side of a coupling's picture, which is about 150 pixels wide on the page


def gather(fusion: Fusion, request: Request, title: str | None = None) -> Report:
    """Measure what the request asks for, and collect what the fusion knows already."""
    results = measured(fusion, request)
    return Report(
        title=title or f"{len(fusion.parents)} × {type(fusion.model).__name__}, fused",
        subject=Subject(_facts(fusion), fusion.layout, _widths(fusion), len(fusion.parents)),
        results=results,
        matching=MatchedUnits(
            couplings=tuple(_couplings(fusion.states)),
            similarity=_similarity(fusion),
            objective=tuple(step.objective for step in fusion.history),
        ),
        making=Making(
            seconds={"fusing": fusion.states.seconds, **results.seconds},
            versions={**package_versions(), "system": f"{platform.system()} {platform.machine()}"},
            date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            recipe=_recipe(fusion),
        ),
    )


def _facts(fusion: Fusion) -> dict[str, str]:
    """What was fused, and how, by the heading under which the page tells it."""
    states = fusion.states
    row = METHODS.get(states.method)
    sizes = [f"{type(model).__name__} ({parameter_count(model):,} parameters)" for model in fusion.parents]
    prints = [Family.of({"model": model}).fingerprints[0] for model in fusion.parents]
    return {
        "Models": "; ".join(dict.fromkeys(sizes)) + (f", {len(sizes)} of them" if len(sizes) > 1 else ""),
        "Weights": ", ".join(f"{weight:.4g}" for weight in states.weights),
        "Result": f"{type(fusion.model).__name__} ({parameter_count(fusion.model):,} parameters)",
        "Method": f"{states.method}: {row.summary} ({row.citation})" if row else states.method,
        "Options": ", ".join(f"{name} = {value}" for name, value in states.options.items()) or "defaults",
        "Seed": str(states.seed),
        "Status": states.status,
        "Correction": str(fusion.correction),
        "SHA-256": ", ".join(f"{each}…" for each in prints),
    }


def _widths(fusion: Fusion) -> dict[str, tuple[int, ...]]:
    """How many units each space has, in the result and in the models."""
    found = [fusion.layout.widths(state_of(model)) for model in (fusion.model, *fusion.parents)]
    return {space: tuple(each[space] for each in found) for space in found[0]}


def _couplings(states: FusedStates) -> Iterator[CouplingPicture]:
    """Pictures of all couplings but the identities of the first model, to which the others were brought."""
    for number, each in enumerate(states.couplings, start=1):
        for space, matrix in each.items():
            entries = matrix.detach().double().cpu().numpy()
            rows, columns = entries.shape
            if number == 1 and rows == columns and np.array_equal(entries, np.eye(rows)):
                continue
            yield CouplingPicture(
                model=number,
                space=space,
                shape=(rows, columns),
                entries=entries_per_row(entries),
                negated=int((entries.sum(0) < 0).sum()),
                image=pooled(entries, CELLS),
            )


def _similarity(fusion: Fusion) -> dict[str, tuple[float, float]]:
    """For each tensor the mean cosine of the other models to the first, as trained and aligned."""
    if len(fusion.parents) < 2 or not alike([fusion.aligned[0], *fusion.parents]):
        return {}
    reference = state_of(fusion.aligned[0])
    before = [cosines(reference, state_of(model)) for model in fusion.parents[1:]]
    after = [cosines(reference, state_of(model)) for model in fusion.aligned[1:]]
    return {
        name: (float(np.mean([each[name] for each in before])), float(np.mean([each[name] for each in after])))
        for name in before[0]
    }


def _recipe(fusion: Fusion) -> str:
    """Code that fuses again in the same way, as far as a fusion knows how it was called."""
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
