"""What a fusion gives: records of states, and of modules on top of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from torch import nn

from ..arguments import check_arguments, count, optional
from ..barycenter import CouplingMatrices, Step
from ..corrections import NONE, Corrected
from ..depths import Depths
from ..errors import InputError
from ..landscape import Workers
from ..layout import Layout, Rotation
from ..lazy import entries_of
from ..plots import couplings as couplings_drawn
from ..plots import inline_picture
from ..progress import Progress
from ..renamed import telling_new_names
from ..types import State
from .budgets import Spent
from .heads import Heads
from .saving import saved
from .verifying import NOT_RUN, Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from typing_extensions import TypeVar

    Network = TypeVar("Network", bound=nn.Module)
    Fused_co = TypeVar("Fused_co", bound=nn.Module, default=nn.Module, covariant=True)
else:  # Python knows defaults from 3.13 on
    from typing import TypeVar

    Network = TypeVar("Network", bound=nn.Module)  # the class of the user's models
    Fused_co = TypeVar("Fused_co", bound=nn.Module, covariant=True)  # the same, of what was fused
UNMOVED = "none: no unit can move, so weights were averaged as they are; layout.fixed says why"
SHOWN = 3  # heat maps in a notebook, where a fusion is shown unasked: one row of them


@dataclass(frozen=True, eq=False, repr=False)
class FusedStates:
    """What fusing states gives.

    Args:
        state: The fused state, in the types of the first model; lazy if lazy states were fused.
        aligned: Every model in the common order, lazy like the state; empty if that was not wanted.
        couplings: For each model a mapping {space: matrix [target units, model units]}, with signs where units were
            negated. A matrix is made when it is asked for.
        history: The objective and the number of changes after each sweep.
        status: How the fusion ended: "converged", or what has not, and what to raise.
        method: The method that was used.
        weights: Proportions of the models, summing to 1.
        layout: Which axes move together.
        seed: Seed of the order of sweeps and of restarts.
        options: Options of the method that were given.
        seconds: How long matching and averaging took.
        heads: Where the outputs of each model stand, if heads were joined; `aligned` have the outputs of all then, each
            with zeros where it has none of its own.
    """

    state: State
    aligned: tuple[State, ...]
    couplings: tuple[CouplingMatrices, ...]
    history: tuple[Step, ...]
    status: str
    method: str
    weights: tuple[float, ...]
    layout: Layout
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    heads: Heads | None = None

    @property
    def rotated(self) -> tuple[str, ...]:
        """Spaces whose units were rotated in some model: norms over them are folded, in the result and in `aligned`."""
        return tuple(
            name
            for name in self.layout.rotating
            if any(isinstance(each.couplings[name], Rotation) for each in self.couplings)
        )

    def __str__(self) -> str:
        """What was fused, how it ended, and that nothing was run, in five lines."""
        return f"{self.summary}\ncheck: {NOT_RUN}"

    __repr__ = __str__  # tensors and couplings would fill a screen

    @property
    def summary(self) -> str:
        """What was fused, how, and how it ended, in four lines."""
        widths = self.layout.widths(entries_of(self.state))
        spaces = ", ".join(f"{name} {width}" for name, width in widths.items())
        shares = ", ".join(f"{weight:.3g}" for weight in self.weights)
        return (
            f"{len(self.weights)} models fused by {self.method} (weights {shares})\n"
            f"spaces: {spaces or UNMOVED}\nobjective: {self.history[-1].objective:.6g}\nstatus: {self.status}"
            + (f"\nheads: {self.heads}" if self.heads else "")
        )


@telling_new_names
@dataclass(frozen=True, eq=False, repr=False)
class Fusion(Generic[Fused_co]):
    """Fused modules: `model`, and every input as a module in the common order, beside what fusing states gives.

    Modules are of the class of the models. `parents` are the models that were fused: themselves; or copies, with the
    outputs of all where heads were joined, and of the depth of the result where depths differed (`depths` tells).
    `correction` says which correction the model got at the end; `states.state` is as it was before. `check` says how
    the models were held to be alike outside their states, and the aligned networks to compute what the models do.
    `seconds` is the time of the whole call: tracing, matching, corrections and checks. `budget` says what the model
    has of what it may have, where a budget was given.
    """

    model: Fused_co
    aligned: tuple[Fused_co, ...]
    states: FusedStates
    parents: tuple[Fused_co, ...] = ()
    correction: Corrected = field(default_factory=lambda: Corrected(NONE))
    check: Check = field(default_factory=Check)
    seconds: float = 0.0
    budget: Spent | None = None
    depths: Depths | None = None

    @property
    def couplings(self) -> tuple[CouplingMatrices, ...]:
        """For each model a mapping {space: matrix [target units, model units]}."""
        return self.states.couplings

    @property
    def history(self) -> tuple[Step, ...]:
        """The objective and the number of changes after each sweep."""
        return self.states.history

    @property
    def status(self) -> str:
        """How the fusion ended: "converged", or what has not, and what to raise."""
        return self.states.status

    @property
    def layout(self) -> Layout:
        """Which axes move together."""
        return self.states.layout

    @property
    def heads(self) -> Heads | None:
        """Where the outputs of each model stand among those of the network, if heads were joined."""
        return self.states.heads

    def __str__(self) -> str:
        """What was fused, how it ended, which correction was made, what was checked, and the time: a line each."""
        told = [
            self.states.summary,
            f"depths: {self.depths}" if self.depths else "",
            f"budget: {self.budget}" if self.budget else "",
            f"correction: {self.correction}",
            f"check: {self.check}",
            f"time: {self.seconds:.1f} s, all in all",
        ]
        return "\n".join(filter(None, told))

    __repr__ = __str__  # networks and tensors would fill a screen

    def _repr_html_(self) -> str:
        """What `str` tells, as a table, and a small picture of couplings: notebooks show it."""
        headline, *lines = str(self).splitlines()
        rows = "".join(
            f'<tr><th style="text-align: left">{escape(name)}</th><td style="text-align: left">{escape(text)}</td></tr>'
            for name, _, text in (line.partition(": ") for line in lines)
        )
        drawn = len(self.parents) > 1 and bool(self.layout.spaces)
        picture = inline_picture(lambda: self.plot(spaces=SHOWN)) if drawn else ""
        return f"<table><caption>{escape(headline)}</caption>{rows}</table>{picture}"

    def plot(self, *, model: int | None = None, spaces: int = 9) -> Figure:
        """Draw how the units of a model were matched: its couplings as heat maps; see `transfuse.plots.couplings`.

        Args:
            model: The number of the model, from 1; the last one by default.
            spaces: How many spaces are shown, the first ones of the layout.

        Raises:
            InputError: there is no such model, nothing was matched, or matplotlib is not installed.
        """
        check_arguments(model=(model, optional(count(1))), spaces=(spaces, count(1)))
        number = len(self.couplings) if model is None else model
        if number > len(self.couplings):
            raise InputError(f"model is {number}, but {len(self.couplings)} models were fused; give one of these")
        own = self.couplings[number - 1]
        return couplings_drawn({name: own[name].detach().double().cpu() for name in list(own)[:spaces]})

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fused network, with its provenance, whole or not at all; what is there is replaced.

        Args:
            path: A file that ends in `.safetensors`, `.pt`, `.pth`, `.ckpt` or `.bin`, with the state of the network;
                for a model of transformers also a folder, which `from_pretrained` loads.
        """
        return saved(self, path)

    def report(  # noqa: PLR0913
        self, path: str | os.PathLike[str], evaluate: Any = None, *, title: str | None = None, points: int = 25,
        grid: int = 21, data: Any = None, cache: str | os.PathLike[str] | None = None, workers: Workers = 0,
        progress: Progress = False, url: str | None = None,
    ) -> Path:  # fmt: skip
        """Write one HTML page about this fusion, which needs no other file and no network, and its preview card.

        The card, a picture that chats and feeds show of a link, is written beside the page: `report.card.png` for
        `report.html`.

        Args:
            path: The file; it is written whole or not at all.
            evaluate: `evaluate(model) -> float | dict`, as for `transfuse.barrier`; without it nothing is measured.
            title: Title of the page; default: what was fused.
            points: How many networks are evaluated on each barrier.
            grid: Points along each side of the plane; 0 for no plane.
            data: Unlabeled batches: batch norm is computed anew where networks were averaged; see `transfuse.barrier`.
            cache: A file that remembers values; see `transfuse.barrier`.
            workers: Processes to use, 0 for this one; or an executor, as for `transfuse.barrier`.
            progress: Show how far it is; see `fuse`.
            url: Where the page will be, if it is to be shared: previews of links ask for the whole address of the card.
        """
        from ..report import Request, write_report  # the one door upwards: `DOORS` in tests/test_rooms.py says why

        return write_report(path, self, Request(evaluate, points, grid, data, cache, workers, progress), title, url)
