"""`fuse` and `align`: modules in, modules out; `fuse_states` does the work on states.

The models are never modified. Everything that cannot work is refused before work starts, with all problems at once.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .barycenter import Problem, Step
from .errors import InputError, listing
from .layout import Layout, balanced
from .methods import METHODS
from .tracing import trace

State = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class FusedStates:
    """What fusing states gives.

    Args:
        state: The fused state, in the types of the first model.
        aligned: Every model in the common order.
        couplings: For each model {space: matrix [target units, model units]}; signs where units were negated.
        history: The objective and the number of changes after each sweep.
        status: How it ended.
        method: The method that was used.
        weights: Proportions of the models, summing to 1.
        layout: Which axes move together.
    """

    state: dict[str, Tensor]
    aligned: tuple[dict[str, Tensor], ...]
    couplings: tuple[dict[str, Tensor], ...]
    history: tuple[Step, ...]
    status: str
    method: str
    weights: tuple[float, ...]
    layout: Layout

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
    """Fused modules: `model`, and every input as a module in the common order, beside what fusing states gives."""

    model: nn.Module
    aligned: tuple[nn.Module, ...]
    states: FusedStates

    @property
    def couplings(self) -> tuple[dict[str, Tensor], ...]:
        """For each model {space: matrix [target units, model units]}."""
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
        return str(self.states)


def fuse(
    models: Sequence[nn.Module], example_inputs: Any = None, *, method: str = "auto",
    weights: Sequence[float] | None = None, layout: Layout | None = None, seed: int = 0,
) -> Fusion:  # fmt: skip
    """Fuse trained networks of one architecture and of equal widths into one.

    Args:
        models: One or more modules.
        example_inputs: For tracing: a tensor, a tuple of positional arguments, or a dict of keyword arguments.
        method: A row of `transfuse.METHODS`.
        weights: Proportions of the models, non-negative; default: equal.
        layout: A layout, instead of tracing the first model.
        seed: For the order of sweeps and for restarts.

    Raises:
        InputError: models, weights or method cannot be used as given.
        LayoutError: the models do not fit one layout, with every difference.

    Example:
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
    states = fuse_states([model.state_dict() for model in models], layout, method=method, weights=weights, seed=seed)
    return Fusion(
        _with_state(models[0], states.state),
        tuple(_with_state(model, state) for model, state in zip(models, states.aligned, strict=True)),
        states,
    )


def align(
    model: nn.Module, *, to: nn.Module, example_inputs: Any = None, layout: Layout | None = None, seed: int = 0
) -> nn.Module:
    """A copy of a network that computes the same function, with its units in the order of a reference."""
    return fuse([to, model], example_inputs, layout=layout, weights=[1.0, 1.0], seed=seed).aligned[1]


def fuse_states(
    states: Sequence[State], layout: Layout, *, method: str = "auto", weights: Sequence[float] | None = None,
    seed: int = 0,
) -> FusedStates:  # fmt: skip
    """Fuse states on a layout; see `fuse`."""
    if method not in METHODS:
        raise InputError(f"no method is called {method!r}; the methods: {', '.join(METHODS)}")
    if not states:
        raise InputError("no states to fuse; give one or more")
    layout.check(*states)
    shares = _proportions(weights, len(states))
    _check_states(states, layout)
    safe = [{name: _safe(tensor) for name, tensor in state.items()} for state in states]
    if METHODS[method].balance:
        safe = [balanced(state, layout) for state in safe]
    problem = Problem(safe, layout, shares, layout.widths(states[0]))
    couplings, history = METHODS[method].couple(problem, np.random.default_rng(seed))
    carried = [problem.carried_state(model, each) for model, each in enumerate(couplings)]
    fused = {**carried[0], **problem.barycenter(carried)}
    converged = history[-1].changed == 0 or method not in ("auto", "rebasin")
    status = "converged" if converged else f"stopped after {len(history)} sweeps, of which the last changed couplings"
    return FusedStates(
        _like(fused, states[0]),
        tuple(_like(state, own) for state, own in zip(carried, states, strict=True)),
        tuple({name: coupling.matrices[0] for name, coupling in each.items()} for each in couplings),
        tuple(history), status, method, tuple(shares), layout,
    )  # fmt: skip


def _proportions(weights: Sequence[float] | None, count: int) -> list[float]:
    """Weights that sum to 1."""
    given = [1.0] * count if weights is None else [float(weight) for weight in weights]
    if len(given) != count:
        raise InputError(f"{len(given)} weights for {count} models; give one for each")
    if not all(np.isfinite(weight) and weight >= 0 for weight in given) or sum(given) == 0:
        raise InputError(f"weights are {given}; expected non-negative numbers, not all zero")
    return [weight / sum(given) for weight in given]


def _check_states(states: Sequence[State], layout: Layout) -> None:
    """Equal widths, finite numbers, and the same constants."""
    problems = []
    widths = [layout.widths(state) for state in states]
    for number, (state, own) in enumerate(zip(states, widths, strict=True), start=1):
        for name in own:
            if own[name] != widths[0][name]:
                problems.append(f"model {number}: space {name} has {own[name]} units, model 1 has {widths[0][name]}")
        for name, tensor in state.items():
            if tensor.is_floating_point() or tensor.is_complex():
                if not bool(tensor.isfinite().all()):
                    problems.append(f"model {number}: tensor {name} holds NaN or infinity")
            elif not name.endswith("num_batches_tracked") and not torch.equal(tensor, states[0][name]):
                problems.append(f"model {number}: tensor {name} ({tensor.dtype}) differs from that of model 1")
    if problems:
        raise InputError(listing("these models cannot be fused:", problems))


def _safe(tensor: Tensor) -> Tensor:
    """A tensor in a type in which sums of products are safe; not copied where it is so already."""
    return tensor.detach().float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor.detach()


def _like(state: State, model: State) -> dict[str, Tensor]:
    """New tensors in the types of a model."""
    return {name: tensor.detach().clone().to(model[name].dtype) for name, tensor in state.items()}


def _with_state(model: nn.Module, state: State) -> nn.Module:
    """A copy of a module with another state."""
    twin = copy.deepcopy(model)
    twin.load_state_dict(state)
    return twin
