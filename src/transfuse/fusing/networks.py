"""`fuse` and `align`: modules in, modules out; `fuse_states` does the work on states.

The models are never modified. Everything that cannot work is refused before work starts, with all problems at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from ..activations import Batches
from ..barycenter import Matrices, Problem, Step
from ..corrections import AUTO, NONE, Corrected
from ..errors import InputError, listing
from ..layout import Layout, balanced, in_scale_of
from ..layout import Run as UnitRun
from ..methods import METHODS, Method, Run
from ..modules import Arguments, check_runs, model_state, undisturbed, with_state
from ..progress import Progress, watching
from ..renamed import missing_attribute
from ..synthetic.budget import SyntheticInputs
from ..tracing import trace
from ..types import Forward, State
from .correcting import Activations, Correcting, Parents, TermsName, check_correction, corrected, seen_activations
from .preparing import as_first_model, carried_away, check_states, own_order, working_states, working_type


@dataclass(frozen=True, eq=False)
class FusedStates:
    """What fusing states gives.

    Args:
        state: The fused state, in the types of the first model.
        aligned: Every model in the common order; empty if that was not wanted.
        couplings: For each model a mapping {space: matrix [target units, model units]}, with signs where units were
            negated. A matrix is made when it is asked for.
        history: The objective and the number of changes after each sweep.
        status: How it ended.
        method: The method that was used.
        weights: Proportions of the models, summing to 1.
        layout: Which axes move together.
        seed: Of the order of sweeps and of restarts.
        options: Options of the method that were given.
        seconds: How long it took.
    """

    state: dict[str, Tensor]
    aligned: tuple[dict[str, Tensor], ...]
    couplings: tuple[Matrices, ...]
    history: tuple[Step, ...]
    status: str
    method: str
    weights: tuple[float, ...]
    layout: Layout
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def __str__(self) -> str:
        """A summary of a few lines."""
        spaces = ", ".join(f"{space.name} {space.units}" for space in self.layout.spaces) or "none"
        shares = ", ".join(f"{weight:.3g}" for weight in self.weights)
        return (
            f"{len(self.weights)} models fused by {self.method} (weights {shares})\n"
            f"spaces: {spaces}\nobjective: {self.history[-1].objective:.6g}\nstatus: {self.status}"
        )


@dataclass(frozen=True, eq=False)
class Fusion:
    """Fused modules: `model`, and every input as a module in the common order, beside what fusing states gives.

    `parents` are the models that were fused: themselves, not copies. `correction` says which correction the model
    got at the end; `states.state` is as it was before.
    """

    model: nn.Module
    aligned: tuple[nn.Module, ...]
    states: FusedStates
    parents: tuple[nn.Module, ...] = ()
    correction: Corrected = field(default_factory=lambda: Corrected(NONE))

    if not TYPE_CHECKING:  # a type checker shall go on to find attributes that do not exist
        __getattr__ = missing_attribute

    @property
    def couplings(self) -> tuple[Matrices, ...]:
        """For each model a mapping {space: matrix [target units, model units]}."""
        return self.states.couplings

    @property
    def history(self) -> tuple[Step, ...]:
        """The objective and the number of changes after each sweep."""
        return self.states.history

    @property
    def status(self) -> str:
        """How it ended."""
        return self.states.status

    @property
    def layout(self) -> Layout:
        """Which axes move together."""
        return self.states.layout

    def __str__(self) -> str:
        """A summary of a few lines."""
        return f"{self.states}\ncorrection: {self.correction}"

    def report(  # noqa: PLR0913
        self, path: str | os.PathLike[str], evaluate: Any = None, *, title: str | None = None, points: int = 25,
        grid: int = 21, data: Any = None, cache: str | os.PathLike[str] | None = None, workers: int = 0,
        progress: Progress = False,
    ) -> Path:  # fmt: skip
        """Write one HTML page about this fusion; it needs no other file and no network.

        Args:
            path: The file; it is written whole or not at all.
            evaluate: `evaluate(model) -> float | dict`, as for `transfuse.barrier`; without it nothing is measured.
            title: Of the page.
            points: Of each barrier.
            grid: Points along each side of the plane; 0 for no plane.
            data: Unlabeled batches: batch norm is computed anew where networks were averaged; see `transfuse.barrier`.
            cache: A file that remembers values; see `transfuse.barrier`.
            workers: Processes to use; 0 for this one.
            progress: Tell on stderr how long it will take.
        """
        from ..report import Request, write_report  # the one door upwards: `DOORS` in tests/test_rooms.py says why

        return write_report(path, self, Request(evaluate, points, grid, data, cache, workers, progress), title)


def fuse(  # noqa: PLR0913
    models: Sequence[nn.Module], example_inputs: Any = None, *, method: str = "auto",
    weights: Sequence[float] | None = None, target: nn.Module | Mapping[str, int] | None = None,
    layout: Layout | None = None, data: Any = None, terms: TermsName | None = None, correct: str | None = None,
    synthetic: bool = True, forward: Forward | None = None, seed: int = 0, progress: Progress = False, **options: Any,
) -> Fusion:  # fmt: skip
    """Fuse trained networks of one architecture, of equal or different widths, into one.

    Args:
        models: One or more modules. One alone can be fused into a wider target (it grows and computes the same) or a
            narrower one.
        example_inputs: For tracing: a tensor, a tuple of positional arguments, or a dict of keyword arguments.
        method: A row of `transfuse.METHODS`.
        weights: Proportions of the models, non-negative; default: equal.
        target: Widths of the result: a module of these widths, or the width of some spaces (the layers of the first
            model are rebuilt then); default: the widths of the first model.
        layout: A layout, instead of tracing the first model.
        data: Inputs without labels, to match units by their activations and to correct the result: tensors (samples
            along the first dimension), an iterable of batches, or a `DataLoader`. Of a tuple the first element counts,
            a dict holds keyword arguments.
        terms: What units are matched by: `weights`, `activations` of the data, or `both`; default: `both` if there is
            data, unless the method says.
        correct: The correction at the end: a row of `transfuse.CORRECTIONS`, `auto` (the one that is judged best
            without labels) or `none`; default: what the method says (`auto` ends with one, published methods do not).
        synthetic: Without data, correct by synthetic inputs, if that is judged an improvement; networks with
            convolutions are matched by them too. See `transfuse.synthetic_inputs`.
        forward: Runs a model on a batch of the data, where batches are of another kind.
        seed: For the order of sweeps, for restarts, and for synthetic inputs.
        progress: Show how far it is, on standard error: if that is a terminal (True), or "always". Or a function
            `watch(stage, done, total)` of your own.
        **options: Options of the method; `transfuse.METHODS[method].options` lists them.

    Raises:
        InputError: models, weights or method cannot be used as given.
        LayoutError: the models do not fit one layout, with every difference.

    Example:
        >>> import copy, torch
        >>> net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
        >>> order = torch.tensor([4, 2, 0, 1, 3])
        >>> twin = copy.deepcopy(net)
        >>> for name, axis in (("0.weight", 0), ("0.bias", 0), ("2.weight", 1)):
        ...     twin.get_parameter(name).data = net.get_parameter(name).data.index_select(axis, order)
        >>> x = torch.randn(4, 3)
        >>> torch.allclose(fuse([net, twin], x).model(x), net(x), atol=1e-6)
        True
    """
    models = list(models)
    if not models or not all(isinstance(model, nn.Module) for model in models):
        raise InputError("models must be one or more torch.nn.Module, in a list")
    if layout is None:
        if example_inputs is None:
            raise InputError("pass example_inputs, with which the first model is traced, or a layout")
        layout = trace(models[0], example_inputs)
    row, own = method_row(method), [model.state_dict() for model in models]
    layout.check(*own)  # before any network is run
    batches = None if data is None else Batches.of(data, forward=forward)
    example = Arguments.of(example_inputs) if synthetic and example_inputs is not None else None
    by = correct or row.correct
    check_correction(by, models[0], inputs=batches is not None or example is not None)
    made = SyntheticInputs.of(
        models,
        None if by == NONE else example,
        plain=by != AUTO,
        data=batches is not None,
        seed=seed,
        progress=progress,
    )
    seen = batches or (made.batches if made.matches else None)
    activations = seen_activations(models, layout, seen, terms or row.terms or ("both" if seen else "weights"))
    states = fuse_states(
        own,
        layout,
        method=method,
        weights=weights,
        widths=layout.widths(target.state_dict()) if isinstance(target, nn.Module) else target,
        activations=activations,
        seed=seed,
        progress=progress,
        **options,
    )
    into = target if isinstance(target, nn.Module) else models[0]
    fused = with_state(into, states.state)
    if isinstance(target, Mapping) and example_inputs is not None:
        _check_rebuilt(fused, example_inputs)
    aligned = tuple(with_state(into, state) for state in states.aligned)
    parents = Parents(
        models, aligned, states.weights, layout, [each.couplings for each in states.couplings], row.balance
    )
    model, done = corrected(Correcting(by, batches, made, progress), fused, parents)
    return Fusion(model, aligned, states, tuple(models), done)


def _check_rebuilt(model: nn.Module, example_inputs: Any) -> None:
    """Run a network whose layers were rebuilt: some sizes stand in code, or in layers without tensors."""
    try:
        with undisturbed(model):
            check_runs(model, model_state(model), Arguments.of(example_inputs))
    except InputError as error:
        raise InputError(
            f"the network cannot be rebuilt with these widths ({error})\nPass a module of the wanted widths as target"
        ) from error


def align(
    model: nn.Module, *, to: nn.Module, example_inputs: Any = None, layout: Layout | None = None, seed: int = 0
) -> nn.Module:
    """A copy of a network that computes the same function, with its units in the order (and scale) of a reference."""
    fusion = fuse([to, model], example_inputs, layout=layout, weights=[1.0, 1.0], correct="none", seed=seed)
    (reference,) = working_states([model_state(to)])
    twin = fusion.aligned[1]
    return with_state(twin, in_scale_of(reference, model_state(twin), fusion.states.layout))


def fuse_states(  # noqa: PLR0913
    states: Sequence[State], layout: Layout, *, method: str = "auto", weights: Sequence[float] | None = None,
    widths: Mapping[str, int] | None = None, activations: Activations | None = None, aligned: bool = True,
    seed: int = 0, progress: Progress = False, **options: Any,
) -> FusedStates:  # fmt: skip
    """Fuse states on a layout; see `fuse`.

    Args:
        states: One or more.
        layout: Which axes move together.
        method: As in `fuse`.
        weights: As in `fuse`.
        widths: Of the result, by space.
        activations: What units are matched by, beside weights or instead.
        aligned: Give every model in the common order as well: as much memory as the models.
        seed: As in `fuse`.
        progress: As in `fuse`.
        **options: Of the method.
    """
    started = time.perf_counter()
    row = method_row(method)
    if problems := row.problems(options):
        raise InputError(listing(f"method {method} cannot be used so:", problems))
    if not states:
        raise InputError("no states to fuse; give one or more")
    layout.check(*states)
    shares = proportions(weights, len(states))
    check_states(states, layout, working_type(tensor.dtype for state in states for tensor in state.values()))
    wanted = target_widths(layout, layout.widths(states[0]), widths or {})
    own = working_states(states)
    if row.balance:
        own = [balanced(state, layout) for state in own]
    order = own_order(own, shares) if row.order_free else list(range(len(own)))
    labelled = activations.terms.beside(own, layout, weights=activations.weights) if activations else None
    problem = Problem(
        [(labelled.states if labelled else own)[model] for model in order],
        labelled.layout if labelled else layout,
        [shares[model] for model in order],
        wanted,
        labelled.importance if labelled else {},
    )
    with watching(progress, method) as watch:
        found, steps = row.couple(problem, Run(np.random.default_rng(seed), watch), **options)
    if labelled:  # activations count too
        steps = Step.told(steps, lambda: problem.objective(found))
    couplings = as_first_model([found[order.index(model)] for model in range(len(own))])
    plain = Problem(own, layout, shares, wanted)
    state, twins, objective = carried_away(plain, own, couplings, states, aligned=aligned)
    history = Step.told(steps, lambda: objective)
    return FusedStates(
        state, twins, tuple(map(Matrices, couplings)), history,
        "; ".join(step.note for step in history if step.note) or "converged", method, tuple(shares), layout, seed,
        options, time.perf_counter() - started,
    )  # fmt: skip


def method_row(method: str) -> Method:
    """The row of a method.

    Raises:
        InputError: there is none.
    """
    if method not in METHODS:
        raise InputError(f"no method is called {method!r}; the methods: {', '.join(METHODS)}")
    return METHODS[method]


def proportions(weights: Sequence[float] | None, count: int) -> list[float]:
    """Weights that sum to 1."""
    given = [1.0] * count if weights is None else [float(weight) for weight in weights]
    if len(given) != count:
        raise InputError(f"{len(given)} weights for {count} models; give one for each")
    if not all(np.isfinite(weight) and weight >= 0 for weight in given) or sum(given) == 0:
        raise InputError(f"weights are {given}; expected non-negative numbers, not all zero")
    return [weight / sum(given) for weight in given]


def target_widths(layout: Layout, own: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """The widths of the result: those asked for, and the first model's where none is."""
    problems = [f"no space is called {name!r}" for name in wanted if name not in own]
    problems += [f"space {name} cannot have {width!r} units" for name, width in wanted.items() if width < 1]
    listed = {
        slot.space
        for axes in layout.tensors.values()
        for axis in axes
        for run in axis.segments
        if isinstance(run, UnitRun) and run.units is not None
        for slot in run.cell
    }
    for name in sorted(listed & wanted.keys()):
        if wanted[name] != own[name]:
            problems.append(f"space {name} is listed unit by unit in the layout and keeps its {own[name]} units")
    if problems:
        known = ", ".join(own) or "none"
        raise InputError(listing(f"these widths cannot be (the spaces: {known}):", problems))
    return {**own, **wanted}
