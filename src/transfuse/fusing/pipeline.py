"""The one pipeline: states and a layout in, a fused state out.

States are checked, brought to a safe type and a canonical scale, coupled by a method, and carried along the couplings.
Plain states give plain results; lazy states (read from files when needed) give lazy ones, which are made when they are
written. Not here: modules, data, files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
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
from ..barycenter import CouplingMatrices, Couplings, Found, Problem, barycenter_of
from ..errors import InputError
from ..layout import LAYOUT, Layout
from ..lazy import working_type
from ..methods import Chosen
from ..modules import shares_of
from ..progress import Progress, watching
from ..types import State
from ..workers import WORKERS, Workers, executing
from .checking import Ready, check_fit, check_states, warn_of_the_unmoved, warn_of_widths
from .elsewhere import ENDINGS, SENT, Sent, received
from .heads import CLASSES, HEADS, Classes, Joined, checked_heads
from .results import FusedStates
from .widths import WIDTHS, Widths

ACTIVATIONS = instance(Terms, "activations, which `fuse` makes of data")
COUPLINGS = many(optional(STATE), "a list with a mapping of matrices by space, or None, for each state")


def fuse_states(  # noqa: PLR0913
    states: Sequence[Sent], layout: Layout, *, method: str = "auto", weights: Sequence[float] | None = None,
    widths: Widths | None = None, activations: Terms | None = None, aligned: bool = True,
    low_memory: bool = False, seed: int = 0, progress: Progress = False, may_lack: Collection[str] = (),
    couplings: Sequence[State | None] | None = None, workers: Workers = 0, heads: str | None = None,
    classes: Classes | None = None, **options: Any,
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
        workers: Processes that help, 0 for none; or any `concurrent.futures.Executor` (of Dask, Ray, MPI, Slurm). The
            starts of `auto`, and the models in a layer of `ot`, `wb` and `gwb`, are coupled apart; other methods go on
            as they are. The result is the same.
        heads: `join` for states with other outputs: the result has the outputs of all, `FusedStates.heads` says which
            are whose. The layout must tell which axes are returned, as `trace` does.
        classes: With `heads`, the classes of the outputs of each state; see `fuse`. Without inputs nothing is
            calibrated.
        **options: Options of the method; `transfuse.METHODS[method].options` lists them.
    """
    check_arguments(
        states=(states, SENT), layout=(layout, LAYOUT), method=(method, TEXT), weights=(weights, optional(WEIGHTS)),
        widths=(widths, optional(WIDTHS)), activations=(activations, optional(ACTIVATIONS)),
        aligned=(aligned, SWITCH), low_memory=(low_memory, SWITCH), seed=(seed, SEED), progress=(progress, PROGRESS),
        may_lack=(may_lack, ENDINGS), couplings=(couplings, optional(COUPLINGS)), workers=(workers, WORKERS),
        heads=(heads, HEADS), classes=(classes, CLASSES),
    )  # fmt: skip
    checked_heads(heads, classes)
    chosen = Chosen.of(method, options)
    if chosen.row.terms not in (None, "weights") and activations is None:
        raise InputError(
            f"method {method} matches units by {chosen.row.terms}, which states alone do not have; use `fuse`"
        )
    if not states:
        raise InputError("states is empty; give one or more states to fuse")
    named, layout = received(states, layout, may_lack)
    joined = Joined.of(layout, named, shares_of(weights, len(named)), classes) if heads else None
    own, layout = (joined.all_placed(named), joined.layout(layout)) if joined else (named, layout)
    check_fit(layout, own)
    ready = Ready.of(own, layout, weights=weights, widths=widths, couplings=couplings)
    fused = fused_states(
        chosen, ready, activations, aligned=aligned, low_memory=low_memory, seed=seed, progress=progress,
        workers=workers,
    )  # fmt: skip
    return replace(fused, heads=joined.heads) if joined else fused


def fused_states(  # noqa: PLR0913
    chosen: Chosen, ready: Ready, activations: Terms | None = None, *, aligned: bool = True,
    low_memory: bool = False, seed: int = 0, progress: Progress = False, workers: Workers = 0,
    see: Callable[[Problem, Sequence[Couplings]], None] | None = None,
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
        workers: Who helps to couple; see `fuse_states`.
        see: Is shown what was solved, activations and all, and the couplings that were found.

    Raises:
        InputError: the numbers in the states cannot be fused.
    """
    if low_memory and workers:
        raise InputError("low_memory keeps no tensor, and workers are sent tensors; leave one of them out")
    started = time.perf_counter()
    row, states = chosen.row, ready.states
    layout = ready.layout_for(row)
    check_states(states, layout, working_type(states))
    warn_of_widths(ready)
    if chosen.row.matches:
        warn_of_the_unmoved(ready)
    rng, one_start = np.random.default_rng(seed), activations is not None and activations.of_convolutions
    given = Problem(states, layout, ready.shares, ready.widths, known=ready.known, one_start=one_start)
    with watching(progress, chosen.method) as watch, executing(workers) as executor:

        def couple(problem: Problem) -> Found:
            """Couplings by the method, which are shown to whoever wants to see them."""
            found = row.couple(problem, rng, watch, **chosen.options)
            if see is not None:
                see(problem, found[0])
            return found

        center = barycenter_of(
            replace(given, executor=executor), couple,
            beside=activations.beside if activations else None, balance=row.balance, order_free=row.order_free,
            low_memory=low_memory, aligned=aligned, apart=ready.apart,
        )  # fmt: skip
    return FusedStates(
        state=center.state,
        aligned=center.aligned,
        couplings=tuple(map(CouplingMatrices, center.couplings)),
        history=center.steps,
        status="; ".join(step.note for step in center.steps if step.note) or "converged",
        method=chosen.method,
        weights=tuple(ready.shares),
        layout=ready.layout,
        seed=seed,
        options=chosen.options,
        seconds=time.perf_counter() - started,
    )
