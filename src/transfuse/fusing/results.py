"""What a fusion gives: records of states, and of modules on top of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from torch import nn

from ..barycenter import CouplingMatrices, Step
from ..corrections import NONE, Corrected
from ..depths import Depths
from ..landscape import Workers
from ..layout import Layout, Rotation
from ..lazy import entries_of
from ..progress import Progress
from ..renamed import telling_new_names
from ..types import State
from .saving import saved
from .verifying import NOT_RUN, Check


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
        seconds: How long it took.
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
        spaces = ", ".join(f"{name} {width}" for name, width in widths.items()) or "none"
        shares = ", ".join(f"{weight:.3g}" for weight in self.weights)
        return (
            f"{len(self.weights)} models fused by {self.method} (weights {shares})\n"
            f"spaces: {spaces}\nobjective: {self.history[-1].objective:.6g}\nstatus: {self.status}"
        )


@telling_new_names
@dataclass(frozen=True, eq=False, repr=False)
class Fusion:
    """Fused modules: `model`, and every input as a module in the common order, beside what fusing states gives.

    `parents` are the models that were fused: themselves, not copies; those of another depth as they were brought to the
    depth of the result, of which `depths` tells. `correction` says which correction the model
    got at the end; `states.state` is as it was before. `check` says how the models were held to be alike outside their
    states, and the aligned networks to compute what the models do.
    """

    model: nn.Module
    aligned: tuple[nn.Module, ...]
    states: FusedStates
    parents: tuple[nn.Module, ...] = ()
    correction: Corrected = field(default_factory=lambda: Corrected(NONE))
    check: Check = field(default_factory=Check)
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

    def __str__(self) -> str:
        """What was fused, how it ended, which correction was made, and what was checked, in six lines.

        Where depths differed, a seventh line says what was grown or lost.
        """
        depths = "" if self.depths is None else f"\ndepths: {self.depths}"
        return f"{self.states.summary}\ncorrection: {self.correction}\ncheck: {self.check}{depths}"

    __repr__ = __str__  # networks and tensors would fill a screen

    def _repr_html_(self) -> str:
        """What `str` tells, as a table: notebooks show it."""
        headline, *lines = str(self).splitlines()
        rows = "".join(
            f'<tr><th style="text-align: left">{escape(name)}</th><td style="text-align: left">{escape(text)}</td></tr>'
            for name, _, text in (line.partition(": ") for line in lines)
        )
        return f"<table><caption>{escape(headline)}</caption>{rows}</table>"

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
        progress: Progress = False,
    ) -> Path:  # fmt: skip
        """Write one HTML page about this fusion; it needs no other file and no network.

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
        """
        from ..report import Request, write_report  # the one door upwards: `DOORS` in tests/test_rooms.py says why

        return write_report(path, self, Request(evaluate, points, grid, data, cache, workers, progress), title)
