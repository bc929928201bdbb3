"""Layer by layer: spaces in the order of the layers, each coupled by what comes in, once and for all.

OT fusion, and the paper's Algorithms 1 (WB) and 2 (GWB). In between, the target's layer is updated to the barycenter.
The history is one step, the pass, which needs no objective: whoever carries the models by the couplings found has it
for little more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from math import nan

from ...layout.moving import Pair
from ...progress import unwatched
from ...types import State, Watch
from ...workers import mapped
from ..coupling import Coupling, Couplings, Plan, reversible, same
from ..history import Step
from ..matching import EXACT, Matching, couple
from ..objective import means
from ..problem import Problem
from ..starts import merged


def layer_by_layer(
    problem: Problem, *, quadratic: bool, updates: int, matching: Matching = EXACT, start: State | None = None,
    watch: Watch = unwatched,
) -> tuple[list[dict[str, Coupling]], list[Step]]:  # fmt: skip
    """Couple each space by its incoming tensors whose other spaces are coupled already.

    Args:
        problem: The models.
        quadratic: Count tensors on which the space stands twice (the paper's GWB; without, its WB).
        updates: How often the layer of the target is updated to the barycenter and coupled again; 0 couples once (OT
            fusion).
        matching: How a coupling is found.
        start: The target to begin with; default: the first model, its units repeated, or like ones merged.
        watch: Is told of each space.
    """
    couplings = [problem.start(model) if model else merged(problem, 0) for model in range(len(problem.states))]
    done: set[str] = set()
    notes: list[str] = []
    moved = 0
    while len(done) < len(problem.layout.spaces):
        space, pairs = next_space(problem, done, quadratic=quadratic)
        tensors = sorted({pair.target.tensor for pair in pairs} & set(problem.terms))
        target = {name: problem.carried(0, name, couplings[0]) if start is None else start[name] for name in tensors}
        itself = start is None and matching.epsilon is None and reversible(couplings[0])
        models = range(1 if itself else 0, len(couplings)) if tensors else ()  # the first agrees most with itself
        couplings, changed = _coupled(problem, space, target, couplings, matching, models)
        if itself and len(couplings) == 2 and updates and not problem.is_quadratic(space, tensors):
            changed = 0  # what agrees best with the first model also does with the mean of both: updates change nothing
        for _ in range(updates if changed else 0):
            target = means(problem, couplings, tensors)
            couplings, changed = _coupled(problem, space, target, couplings, matching, range(len(couplings)))
            if not changed:
                break
        done.add(space)
        moved += changed
        notes.append(_note(space, [own[space] for own in couplings], changed if updates else 0, updates))
        watch(space, len(done), len(problem.layout.spaces))
    return couplings, [Step(nan, moved, "; ".join(filter(None, notes)))]


def _coupled(
    problem: Problem, space: str, target: State, couplings: Sequence[dict[str, Coupling]], matching: Matching,
    models: Sequence[int],
) -> tuple[list[dict[str, Coupling]], int]:  # fmt: skip
    """Some models coupled in one space to a target, and how many couplings are others than before.

    No model's coupling depends on another's, so each is found wherever the problem's executor likes.
    """
    if problem.executor is None:
        each = [
            couple(problem, space, model, target, couplings=couplings[model], matching=matching) for model in models
        ]
    else:
        job = partial(_alone, space, target, matching)
        each = mapped(job, [(problem.alone(model, target), couplings[model]) for model in models], problem.executor)
    result, changed = list(couplings), 0
    for model, found in zip(models, each, strict=True):
        changed += not same(found, couplings[model][space])
        result[model] = {**couplings[model], space: found}
    return result, changed


def _alone(space: str, target: State, matching: Matching, model: tuple[Problem, Couplings]) -> Coupling:
    """The coupling of the only model of a problem in one space."""
    problem, couplings = model
    return couple(problem, space, 0, target, couplings=couplings, matching=matching)


def _note(space: str, couplings: Sequence[Coupling], changed: int, updates: int) -> str:
    """What has not converged in a space."""
    notes = []
    if changed:
        notes.append(f"{changed} couplings still changed at the last of {updates} updates; raise updates")
    error = max(each.column_error if isinstance(each, Plan) else 0.0 for each in couplings)
    if error:
        notes.append(
            f"columns of an entropic coupling are off their sums by up to {100 * error:.2g} %; raise epsilon, or leave "
            "it out for exact couplings"
        )
    return f"space {space}: {', and '.join(notes)}" if notes else ""


def next_space(problem: Problem, done: Collection[str], *, quadratic: bool = False) -> tuple[str, list[Pair]]:
    """The first space that has incoming tensors to go by, with their blocks; if none has, the first one left.

    Incoming are tensors that produce the units from units of spaces that are done (if `quadratic`, also from
    themselves).
    """
    left = [space.name for space in problem.layout.spaces if space.name not in done]
    for space in left:
        known = {*done, space} if quadratic else set(done)
        if pairs := [pair for pair in problem.blocks_of[space] if _is_incoming(problem, pair, known)]:
            return space, pairs
    return left[0], []


def _is_incoming(problem: Problem, pair: Pair, known: Collection[str]) -> bool:
    others = {other.target.space for other in problem.blocks[pair.target.tensor] if other is not pair}
    return pair.target.side == "produces" and others <= set(known)
