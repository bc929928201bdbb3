"""`barycenter_of`: from models to what lies between them, the one way into this room.

In: models on a layout as they are given, and a way to find couplings. Out: couplings, and states made along them: at
once, or when they are asked for, where models are lazy. Not here: how couplings are found (`sweeps`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from ..layout import Layout, Rotation, scaled_alike
from ..lazy import LazyState
from ..types import State
from .coupling import Coupling
from .history import Step
from .importance import importance_by_layer, importance_without_statistics
from .objective import objective_of
from .outputs import Barycenter, as_first_model, made_at_once, made_lazily
from .problem import Problem
from .working import own_order, working_states

Found = tuple[list[dict[str, Coupling]], Sequence[Step]]  # couplings of each model, and the steps that led to them

# States, layout and importance with further tensors that couplings are found by: given those of the weights alone.
Beside = Callable[
    [Sequence[State], Layout, Mapping[str, float]], tuple[list[dict[str, Tensor]], Layout, dict[str, float]]
]


def barycenter_of(  # noqa: PLR0913
    given: Problem, find: Callable[[Problem], Found], *, beside: Beside | None = None, balance: bool = False,
    order_free: bool = False, low_memory: bool = False, aligned: bool = True, apart: Collection[str] = (),
) -> Barycenter:  # fmt: skip
    """What lies between some models: they are coupled, and carried along their couplings.

    Args:
        given: The models as they are given, in types of their own.
        find: Finds couplings of models: a row of the table of methods, with its options.
        beside: Adds further tensors that couplings are found by; no part of what comes out.
        balance: Average in a canonical scale, where the layout allows scales; models that have other scales than one
            another are coupled in it as well.
        order_free: Have the models in an order of their own while couplings are found.
        low_memory: Read tensors of lazy states whenever they are needed, and keep none.
        aligned: Give every model in the common order as well; lazy ones always are.
        apart: Names of tensors that do not count in the canonical scale.
    """

    def working(layout: Layout, *, balance: bool = balance) -> list[State]:
        return working_states(given.states, layout, balance=balance, low_memory=low_memory, apart=apart)

    own = working(given.layout)
    order = own_order(own, given.weights) if order_free else list(range(len(own)))
    importance = _importance(own, given.layout, balance=balance)
    sought = _as_trained(working(given.layout, balance=False), given.layout, apart) if balance else None
    found, steps = _coupled(replace(given, states=sought or own, importance=importance), find, order, beside)
    couplings = as_first_model([found[order.index(model)] for model in range(len(own))], given.known_of(0))
    layout = given.layout
    if still := [name for name in layout.rotating if not any(isinstance(each[name], Rotation) for each in couplings)]:
        layout = layout.without_rotations(still)  # where nothing is rotated, norms stay as they were
        own = working(layout)
    plain = Problem(own, layout, given.weights, given.widths)
    if any(isinstance(state, LazyState) for state in given.states):
        return made_lazily(plain, couplings, steps, given.states)
    return made_at_once(plain, couplings, steps, given.states, aligned=aligned)


def _as_trained(states: list[State], layout: Layout, apart: Collection[str]) -> list[State] | None:
    """States as they were trained, if couplings can be found in their own scale; nothing if models differ in it.

    The canonical scale makes all layers count alike, and strong units more: by it CNNs are matched worse. Where units,
    or what is inside of them, are turned, couplings fit only the scale in which they were found.
    """
    turned = layout.rotating or layout.frames
    return states if not turned and scaled_alike(states, layout, apart=apart) else None


def _importance(states: Sequence[State], layout: Layout, *, balance: bool) -> dict[str, float]:
    """How much tensors count while couplings are found; 1 where nothing is said. Methods as published count all."""
    if layout.rotating:
        moving = [name for name, axes in layout.tensors.items() if any(axis.spaces for axis in axes)]
        return importance_by_layer(states, moving)
    return importance_without_statistics(states[0], layout) if balance else {}


def _coupled(problem: Problem, find: Callable[[Problem], Found], order: Sequence[int], beside: Beside | None) -> Found:
    """Couplings of the models in an order, found with further tensors, which count in the objective that is told."""
    own, layout, importance = problem.states, problem.layout, problem.importance
    if beside:
        own, layout, further = beside(own, layout, importance)
        importance = {**importance, **further}
    sought = replace(
        problem,
        states=[own[model] for model in order],
        layout=layout,
        weights=[problem.weights[model] for model in order],
        importance=importance,
        known=[problem.known[model] for model in order] if problem.known else (),
    )
    couplings, steps = find(sought)
    return couplings, Step.told(steps, lambda: objective_of(sought, couplings)) if beside else steps
