"""Replies that count become one state: matched and averaged, then corrected if that is wanted.

In: states and weights, couplings to start from. Out: the server's next state, and notes on what did not go as asked. A
method that fails, and a correction that cannot be made, leave what is simpler: the plain average, the network as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from ..corrections import NONE, correct
from ..errors import FusionError
from ..fusing import FusedStates, fuse_states
from ..layout import Layout
from ..lazy import in_type
from ..methods import METHODS
from ..modules import state_of, with_state
from ..synthetic.making import synthetic_inputs
from ..types import State
from ..workers import Workers
from .carrying import unmoved
from .records import one_line

PLAIN = "vanilla"
# Sweeps of a round: of 30 networks from starts of their own, further ones lower the objective by 0.3 %, and there
# are the more of them the more clients there are. The next round goes on where this one stopped.
SWEEPS = 10


@dataclass(frozen=True, eq=False)
class Rules:
    """How replies become one state; `Federation.of` says what each means."""

    method: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    correct: str = NONE
    correct_until: int | None = None
    data: Any = None
    example_inputs: Any = None
    may_lack: tuple[str, ...] = ()
    beyond: float | None = None
    rematch: bool = False
    least: int = 1
    seed: int = 0
    workers: Workers = 0

    @property
    def capped(self) -> Mapping[str, Any]:
        """The options of the method, with at most `SWEEPS` sweeps where none are asked for."""
        takes = "sweeps" in METHODS[self.method].options
        return {"sweeps": SWEEPS, **self.options} if takes else self.options

    def in_round(self, number: int) -> Rules:
        """The rules of a round: without a correction where none is to be made any more."""
        late = self.correct_until is not None and number > self.correct_until
        return replace(self, correct=NONE) if late else self

    @property
    def aligned(self) -> bool:
        """Whether every client in the common order is needed, and not only their mean."""
        return self.correct != NONE or self.beyond is not None


@dataclass(frozen=True, eq=False)
class Merged:
    """The server's next state, the fusion it comes from (none if none was possible), and notes."""

    state: State
    fused: FusedStates | None
    notes: tuple[str, ...] = ()


def merged(
    model: nn.Module, layout: Layout, server: State, rules: Rules, states: Sequence[tuple[State, float]],
    known: Sequence[State | None] | None,
) -> Merged:  # fmt: skip
    """States with their weights as one state.

    Args:
        model: The server's network.
        layout: Which axes move together.
        server: The server's state. From the second round on it is the first model, with weight 0, so that its order of
            units is kept.
        rules: How.
        states: Of the clients that count, with their numbers of examples.
        known: For each client couplings to start from, or None; nothing in the first round.
    """
    models, weights = [state for state, _ in states], [float(examples) for _, examples in states]
    if known is not None:
        models, weights = [server, *models], [0.0, *weights]
        known = [unmoved(layout.widths(server)), *known]
    call = dict(
        weights=weights, widths=layout.widths(server), aligned=rules.aligned, seed=rules.seed, couplings=known,
        may_lack=rules.may_lack, workers=rules.workers,
    )  # fmt: skip
    fused, notes = _fused(models, layout, rules, call)
    if fused is None:
        return Merged(server, None, tuple(notes))
    state: State = {
        **server,
        **{name: in_type(name, each, server[name].dtype, server) for name, each in fused.state.items()},
    }
    if rules.correct != NONE:
        state, note = _corrected(model, layout, state, fused, rules, len(states))
        notes.append(note)
    return Merged(state, fused, tuple(notes))


def _fused(
    models: Sequence[State], layout: Layout, rules: Rules, call: Mapping[str, Any]
) -> tuple[FusedStates | None, list[str]]:
    """The states fused; the plain average if nothing can move or the method fails; nothing if that fails too."""
    notes = []
    if layout.spaces and rules.method != PLAIN:
        try:
            fused = fuse_states(models, layout, method=rules.method, **call, **rules.capped)
        except (FusionError, LinAlgError) as error:
            notes.append(f"plain average, for {rules.method} failed ({one_line(error)})")
        else:
            told = fused.status != "converged" and rules.capped == rules.options  # a cap of ours is no news
            return fused, [fused.status] if told else []
    elif not layout.spaces:
        notes.append("plain average, for no unit of this network can move")
    try:
        return fuse_states(models, layout, method=PLAIN, **call), notes
    except (FusionError, LinAlgError) as error:
        return None, [*notes, f"the state stays, for the plain average failed too ({one_line(error)})"]


def _corrected(
    model: nn.Module, layout: Layout, state: State, fused: FusedStates, rules: Rules, clients: int
) -> tuple[State, str]:
    """The state of the corrected network, and what was done to it."""
    parents = [with_state(model, {**state, **own}) for own in fused.aligned[-clients:]]
    weights = fused.weights[-clients:]
    if clients < 2:
        return state, "not corrected: one client has no mean to come nearer to"
    try:
        data = synthetic_inputs(parents, rules.example_inputs, seed=rules.seed) if rules.data is None else rules.data
        network = correct(with_state(model, state), data, parents, method=rules.correct, weights=weights, layout=layout)
    except (FusionError, LinAlgError) as error:
        return state, f"not corrected: {one_line(error)}"
    return state_of(network), f"correction: {one_line(str(network.correction))}"
