"""The one pipeline: states and a layout in, a fused state out.

States are checked, brought to a safe type and a canonical scale, coupled by a method, and carried along the couplings.
Plain states give plain results; lazy states (read from files when needed) give lazy ones, which are made when they are
written. Not here: modules, data, files.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ..activations import Terms
from ..arguments import (
    PROGRESS,
    SEED,
    STATE,
    SWITCH,
    TEXT,
    WEIGHTS,
    check_arguments,
    instance,
    many,
    optional,
)
from ..barycenter import CouplingMatrices, Problem, Step, importance_by_layer, objective_of
from ..errors import InputError
from ..layout import LAYOUT, Layout, Rotation
from ..lazy import LazyState
from ..progress import Progress, watching
from ..types import State
from .checking import Chosen, Ready, check_states, warn_of_widths
from .elsewhere import ENDINGS, SENT, Sent, received
from .outputs import as_first_model, eager_outputs, lazy_outputs
from .results import FusedStates
from .widths import WIDTHS, Widths
from .working import own_order, type_of, working_states

ACTIVATIONS = instance(Terms, "activations, which `fuse` makes of data")
COUPLINGS = many(optional(STATE), "a list with a mapping of matrices by space, or None, for each state")


def fuse_states(  # noqa: PLR0913
    states: Sequence[Sent], layout: Layout, *, method: str = "auto", weights: Sequence[float] | None = None,
    widths: Widths | None = None, activations: Terms | None = None, aligned: bool = True,
    low_memory: bool = False, seed: int = 0, progress: Progress = False, may_lack: Collection[str] = (),
    couplings: Sequence[State | None] | None = None, **options: Any,
) -> FusedStates:  # fmt: skip
    """Fuse states on a layout, without running any network.

    Args:
        states: One or more: mappings of tensors (or NumPy arrays) by name, or lists of them in the order of
            `layout.tensors`; counts of batches (`num_batches_tracked`) may be missing. Lazy states give lazy results:
            tensors are read when needed and made when asked for.
        layout: Which axes move together.
        method: A row of `transfuse.METHODS`.
        weights: Proportions of the states, non-negative; default: equal.
        widths: Widths of the result by space or pattern, in units or as a factor, or one factor for all; see `fuse`.
        activations: What units are matched by, beside weights or instead.
        aligned: Give every model in the common order as well: as much memory as the models.
        low_memory: Keep no tensor of lazy states: nothing but couplings, factors of units and a sum of the models
            (the size of the result) is there, and every tensor is read again whenever it is needed.
        seed: Seed of the order of sweeps and of restarts.
        progress: Show how far it is; see `fuse`.
        may_lack: Endings of names of tensors that a state may lack, such as `("running_mean", "running_var")`. What one
            lacks is left out of all of them, and of the result.
        couplings: Couplings to start from, for each state those that an earlier fusion found (`FusedStates.couplings`)
            or matrices [target units, model units] by space, or None where nothing is known. If all are known, `auto`
            starts nowhere else, and `vanilla` is the average along them.
        **options: Options of the method; `transfuse.METHODS[method].options` lists them.
    """
    check_arguments(
        states=(states, SENT), layout=(layout, LAYOUT), method=(method, TEXT), weights=(weights, optional(WEIGHTS)),
        widths=(widths, optional(WIDTHS)), activations=(activations, optional(ACTIVATIONS)),
        aligned=(aligned, SWITCH), low_memory=(low_memory, SWITCH), seed=(seed, SEED), progress=(progress, PROGRESS),
        may_lack=(may_lack, ENDINGS), couplings=(couplings, optional(COUPLINGS)),
    )  # fmt: skip
    chosen = Chosen.of(method, options)
    if chosen.row.terms not in (None, "weights") and activations is None:
        raise InputError(
            f"method {method} matches units by {chosen.row.terms}, which states alone do not have; use `fuse`"
        )
    if not states:
        raise InputError("states is empty; give one or more states to fuse")
    named, layout = received(states, layout, may_lack)
    layout.check(*named)
    ready = Ready.of(named, layout, weights=weights, widths=widths, couplings=couplings)
    return fused_states(
        chosen, ready, activations, aligned=aligned, low_memory=low_memory, seed=seed, progress=progress
    )


def fused_states(  # noqa: PLR0913
    chosen: Chosen, ready: Ready, activations: Terms | None = None, *, aligned: bool = True,
    low_memory: bool = False, seed: int = 0, progress: Progress = False,
) -> FusedStates:  # fmt: skip
    """Fuse what was checked before: the pipeline that `fuse`, `fuse_states` and the command share.

    Args:
        chosen: The method and its options.
        ready: The states, their layout and proportions, and the widths of the target.
        activations: What units are matched by, beside weights or instead.
        aligned: Give every model in the common order as well.
        low_memory: Keep no tensor of lazy states; see `fuse_states`.
        seed: Seed of the order of sweeps and of restarts.
        progress: Show how far it is; see `fuse`.

    Raises:
        InputError: the numbers in the states cannot be fused.
    """
    started = time.perf_counter()
    row, states, shares, wanted = chosen.row, ready.states, ready.shares, ready.widths
    layout = ready.layout_for(row)
    check_states(states, layout, type_of(states))
    warn_of_widths(ready)
    own = working_states(states, layout, balance=row.balance, low_memory=low_memory, apart=ready.apart)
    order = own_order(own, shares) if row.order_free else list(range(len(own)))
    problem = _problem(ready, own, layout, order, activations)
    with watching(progress, chosen.method) as watch:
        found, steps = row.couple(problem, np.random.default_rng(seed), watch, **chosen.options)
    if activations:  # they count in the objective that is told
        steps = Step.told(steps, lambda: objective_of(problem, found))
    first = ready.known[0] if ready.known else None
    couplings = as_first_model([found[order.index(model)] for model in range(len(own))], first)
    if still := [name for name in layout.rotating if not any(isinstance(each[name], Rotation) for each in couplings)]:
        layout = layout.without_rotations(still)  # where nothing is rotated, norms stay as they were
        own = working_states(states, layout, balance=row.balance, low_memory=low_memory, apart=ready.apart)
    plain = Problem(own, layout, shares, wanted)
    if any(isinstance(state, LazyState) for state in states):
        made = lazy_outputs(plain, couplings, states)
    else:
        kept = [state for state in own if isinstance(state, dict)]  # all of them; they are emptied on the way
        made = eager_outputs(plain, kept, couplings, states, aligned=aligned)
    history = Step.told(steps, made.objective)
    return FusedStates(
        state=made.state,
        aligned=made.aligned,
        couplings=tuple(map(CouplingMatrices, couplings)),
        history=history,
        status="; ".join(step.note for step in history if step.note) or "converged",
        method=chosen.method,
        weights=tuple(shares),
        layout=ready.layout,
        seed=seed,
        options=chosen.options,
        seconds=time.perf_counter() - started,
    )


def _problem(
    ready: Ready, own: Sequence[State], layout: Layout, order: Sequence[int], activations: Terms | None
) -> Problem:
    """The models in an order, with activations as further terms if they count."""
    proportions = [ready.shares[model] for model in order]
    known = [ready.known[model] for model in order] if ready.known else ()
    moving = [name for name, axes in layout.tensors.items() if any(axis.spaces for axis in axes)]
    importance = importance_by_layer(own, moving) if layout.rotating else {}
    if activations:
        own, layout, beside = activations.beside(own, layout, importance)
        importance = {**importance, **beside}
    return Problem([own[model] for model in order], layout, proportions, ready.widths, importance, known)
