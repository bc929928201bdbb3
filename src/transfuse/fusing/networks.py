"""`fuse` and `align`: modules in, modules out; the pipeline over states does the work.

The models are never modified. Everything that cannot work is refused before work starts, with all problems at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from ..activations import Batches
from ..barycenter import permutes
from ..corrections import AUTO, NONE
from ..errors import InputError
from ..layout import Layout, in_scale_of
from ..lazy import in_type
from ..modules import (
    Arguments,
    check_copies,
    check_runs,
    model_state,
    told_unwrapped,
    undisturbed,
    unwrapped,
    with_state,
)
from ..progress import Progress
from ..synthetic import SyntheticInputs
from ..tracing import trace
from ..types import Forward, State
from .checking import method_row
from .correcting import Parents, check_correction, corrected
from .inputs import Inputs, TermsName
from .pipeline import fuse_states
from .results import Fusion
from .verifying import Verified, verified
from .working import type_of, working_state


def fuse(  # noqa: PLR0913
    models: Sequence[nn.Module], example_inputs: Any = None, *, method: str = "auto",
    weights: Sequence[float] | None = None, target: nn.Module | Mapping[str, int] | None = None,
    layout: Layout | None = None, data: Any = None, terms: TermsName | None = None, correct: str | None = None,
    synthetic: bool = True, forward: Forward | None = None, seed: int = 0, progress: Progress = False, check: bool = True,
    **options: Any,
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
        check: Run every model on the example inputs, and the first one with the state of each: what differs outside
            the states (an activation, an attribute, a buffer that is not saved) is an error. Aligned networks are run
            too. `Fusion.check` tells what it took: a few forward passes.
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
    given = list(models)
    if not given or not all(isinstance(model, nn.Module) for model in given):
        raise InputError("models must be one or more torch.nn.Module, in a list")
    wrapped = [f"model {number}: {text}" for number, each in enumerate(given, 1) if (text := told_unwrapped(each))]
    models = [unwrapped(model) for model in given]
    _check_copies(models, target)
    row = method_row(method, options)
    layout = layout or _traced(models[0], example_inputs)
    own = [model_state(model) for model in models]
    layout.check(*own)  # before any network is run
    tried = Arguments.of(example_inputs) if check and example_inputs is not None else None
    held = verified(models, tried) if check else Verified()
    batches = None if data is None else Batches.of(data, forward=forward)
    example = Arguments.of(example_inputs) if synthetic and example_inputs is not None else None
    correction = correct or row.correct
    check_correction(correction, models[0], inputs=batches is not None or example is not None)
    example = None if correction == NONE else example
    plain, has_data = correction != AUTO, batches is not None
    made = SyntheticInputs.of(models, example, plain=plain, data=has_data, seed=seed, progress=progress)
    inputs = Inputs(batches, made)
    states = fuse_states(
        own,
        layout,
        method=method,
        weights=weights,
        widths=layout.widths(target.state_dict()) if isinstance(target, nn.Module) else target,
        activations=inputs.activations(models, layout, terms or row.terms),
        seed=seed,
        progress=progress,
        **options,
    )
    into = target if isinstance(target, nn.Module) else models[0]
    fused = with_state(into, states.state)
    if isinstance(target, Mapping) and example_inputs is not None:
        _check_rebuilt(fused, example_inputs)
    aligned = tuple(_aligned(model, into, state) for model, state in zip(models, states.aligned, strict=True))
    couplings = [each.couplings for each in states.couplings]
    done = held.held_to([twin if permutes(each) else None for twin, each in zip(aligned, couplings, strict=True)])
    parents = Parents(models, aligned, states.weights, layout, couplings, row.balance)
    model, correction_made = corrected(correction, fused, parents, inputs, progress)
    told = replace(done, note="; ".join([*wrapped, *filter(None, [done.note])]))
    return Fusion(model, aligned, states, tuple(models), correction_made, told)


def _aligned(model: nn.Module, into: nn.Module, state: State) -> nn.Module:
    """A model in the common order: a copy of itself, or of the target where that has other widths."""
    own = model_state(model)
    same = all(own[name].shape == tensor.shape for name, tensor in state.items())
    return with_state(model if same else into, state)


def _check_copies(models: Sequence[nn.Module], target: Any) -> None:
    """Refuse what cannot be copied, before any work is done."""
    for number, model in enumerate(models, start=1):
        check_copies(model, f"model {number}")
    if isinstance(target, nn.Module):
        check_copies(target, "target")


def _traced(model: nn.Module, example_inputs: Any) -> Layout:
    """The layout of the first model, found with the example inputs."""
    if example_inputs is None:
        raise InputError("pass example_inputs, with which the first model is traced, or a layout")
    return trace(model, example_inputs)


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
    twin = fusion.aligned[1]
    own = model_state(twin)
    kind = type_of([own, model_state(to)])
    moved = in_scale_of(working_state(model_state(to), kind), working_state(own, kind), fusion.layout)
    return with_state(twin, {name: in_type(name, tensor, own[name].dtype) for name, tensor in moved.items()})
