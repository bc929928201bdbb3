"""What couplings make of the models: the fused state and every model in the common order.

In: a problem, couplings, the states as the user gave them. Out: new states in the user's types. Plain states are
carried once, at once; lazy ones tensor by tensor, when they are asked for, so that no result need fit into memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..lazy import Entry, LazyState, entries_of, in_type
from ..types import State
from .coupling import Coupling, Couplings, Plan
from .history import Step
from .objective import averaged, averages, mean, objective_of
from .problem import Problem


@dataclass(frozen=True, eq=False)
class Barycenter:
    """What lies between some models.

    Args:
        state: The mean of all models, carried to a common order; lazy if they are.
        aligned: Every model in the common order, lazy if it is; empty if that was not wanted.
        couplings: For each model its couplings, by space.
        steps: How the couplings were found; the last step tells F.
    """

    state: State
    aligned: tuple[State, ...]
    couplings: Sequence[Couplings]
    steps: tuple[Step, ...]


def as_first_model(couplings: Sequence[Couplings], known: Couplings | None = None) -> list[dict[str, Coupling]]:
    """Couplings whose target's units are numbered (signed, turned) as the first model's, where that one merges none.

    Where couplings of the first model are known, the units are numbered as these say.
    """

    def renumbered(name: str, coupling: Coupling) -> Coupling:
        """A coupling of one space, whose target has the first model's numbers."""
        first, before = couplings[0][name], known[name] if known else None
        if isinstance(first, Plan):
            return coupling
        own = coupling.relative_to(first)
        return own if before is None or isinstance(before, Plan) else own.relative_to(before.inverse())

    return [{name: renumbered(name, coupling) for name, coupling in each.items()} for each in couplings]


def made_lazily(
    problem: Problem, couplings: Sequence[Couplings], steps: Sequence[Step], states: Sequence[State]
) -> Barycenter:
    """A barycenter whose tensors, and those of the models in the common order, are made when they are asked for."""
    return Barycenter(
        _lazy_means(problem, couplings, states[0]),
        tuple(_lazily_carried(problem, model, couplings[model], state) for model, state in enumerate(states)),
        couplings,
        Step.told(steps, lambda: objective_of(problem, couplings)),
    )


def _lazy_means(problem: Problem, couplings: Sequence[Couplings], like: State) -> LazyState:
    """The fused tensors, in the types of the first model."""
    entries = entries_of(like)

    def made(entry: Entry) -> Tensor:
        """The mean of a tensor; one of whole numbers is that of the first model."""
        if entry.dtype.is_floating_point or entry.dtype.is_complex:
            return in_type(entry.name, mean(problem, entry.name, couplings), entry.dtype, like)
        return problem.carried(0, entry.name, couplings[0])

    return LazyState([_resized(problem, entry) for entry in entries.values()], made)


def _lazily_carried(problem: Problem, model: int, couplings: Couplings, like: State) -> LazyState:
    """The tensors of one model in the common order, in its own types."""
    entries = [_resized(problem, entry) for entry in entries_of(like).values()]
    return LazyState(
        entries, lambda entry: in_type(entry.name, problem.carried(model, entry.name, couplings), entry.dtype, like)
    )


def _resized(problem: Problem, entry: Entry) -> Entry:
    """What a tensor of a model is in the widths of the target."""
    return Entry(entry.name, entry.dtype, problem.shape(entry.name))


def made_at_once(
    problem: Problem, couplings: Sequence[Couplings], steps: Sequence[Step], states: Sequence[State], *, aligned: bool
) -> Barycenter:
    """A barycenter that is there at once, in the types of the first model; models in the common order in their own.

    The states of the problem are emptied: a tensor is let go as soon as it is carried, which happens once for all of
    these. At no time are there two more copies of all models, nor of one tensor of all of them.
    """
    own = [state for state in problem.states if isinstance(state, dict)]  # all of them: no lazy state comes here
    fused: dict[str, Tensor] = {}
    objective = 0.0
    kept: tuple[dict[str, Tensor], ...] = tuple({} for _ in own if aligned)
    for name in list(own[0]):
        if averages(own[0][name]):
            parts = [_in_place(problem, own[model], name, model, couplings[model]) for model in range(len(kept))]
            middle, term = averaged(problem, name, couplings, parts)
            objective += term
        else:
            parts = [problem.carried(model, name, couplings[model]) for model in range(len(kept))]
            middle = problem.carried(0, name, couplings[0])
        fused[name] = as_type(name, middle, states[0][name])
        for part, new, given in zip(parts, kept, states, strict=False):
            new[name] = as_type(name, part, given[name])
        for state in own:
            del state[name]
    return Barycenter(fused, kept, couplings, Step.told(steps, lambda: objective))


def _in_place(problem: Problem, state: dict[str, Tensor], name: str, model: int, couplings: Couplings) -> Tensor:
    """A carried tensor. It takes the place of the model's where no units are merged: that is not needed any more."""
    part = problem.carried(model, name, couplings)
    if all(couplings[pair.target.space].reversible for pair in problem.blocks.get(name, ())):
        state[name] = part
    return part


def as_type(name: str, tensor: Tensor, like: Tensor) -> Tensor:
    """A tensor in the type of another, which it shares no memory with.

    Raises:
        InputError: it would hold NaN or infinity there, and the other does not.
    """
    new = in_type(name, tensor, like.dtype, {name: like}).contiguous()
    shares = new.untyped_storage().data_ptr() == like.untyped_storage().data_ptr()
    return new.clone(memory_format=torch.contiguous_format) if shares else new
