"""`fuse` and `align`: modules in, modules out; the pipeline over states does the work.

The models are never modified. Everything that cannot work is refused before work starts, with all problems at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from ..activations import Batches
from ..corrections import AUTO, NONE
from ..errors import InputError, listing
from ..layout import Layout, in_scale_of
from ..modules import Arguments, check_runs, model_state, state_of, undisturbed, with_state
from ..progress import Progress
from ..synthetic import SyntheticInputs
from ..tracing import trace
from ..types import Forward, State
from .checking import method_row
from .correcting import Parents, check_correction, corrected
from .inputs import Inputs, TermsName
from .pipeline import fuse_states
from .results import Fusion
from .working import type_of, working_state


def fuse(  # noqa: PLR0913
    models: Sequence[nn.Module], example_inputs: Any = None, *, method: str = "auto",
    weights: Sequence[float] | None = None, target: nn.Module | Mapping[str, int] | None = None,
    layout: Layout | None = None, data: Any = None, terms: TermsName | None = None, correct: str | None = None,
    synthetic: bool = True, forward: Forward | None = None, outputs: Callable[[Any], Any] | None = None, seed: int = 0,
    progress: Progress = False, **options: Any,
) -> Fusion:  # fmt: skip
    """Fuse trained networks of one architecture, of equal or different widths, into one.

    Args:
        models: One or more modules. One alone can be fused into a wider target (it grows and computes the same: where
            units are averaged, by a norm, this takes whole multiples of its width; where they are summed, by a softmax
            or between queries and keys, it cannot grow) or a narrower one.
        example_inputs: For tracing: a tensor, a tuple of positional arguments, or a dict of keyword arguments.
        method: A row of `transfuse.METHODS`.
        weights: Proportions of the models, non-negative; default: equal.
        target: Widths of the result: a module of these widths, or the width of some spaces (the layers of the first
            model are rebuilt then); default: the widths of the first model. Models of other widths compute the same in
            `aligned` only if they are narrower and can grow; a `WidthWarning` says where they cannot.
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
        outputs: What counts as output in tracing, from what a model returns; see `transfuse.trace`.
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
    row = method_row(method, options)
    wide = [*models, target] if isinstance(target, nn.Module) else models
    layout = layout or _traced(_shown_by(wide), example_inputs, outputs)
    own = [state_of(model) for model in models]
    layout.check(*own)  # before any network is run
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
        widths=layout.widths(state_of(target)) if isinstance(target, nn.Module) else target,
        activations=inputs.activations(models, layout, terms or row.terms),
        seed=seed,
        progress=progress,
        **options,
    )
    into = target if isinstance(target, nn.Module) else models[0]
    fused = with_state(into, states.state)
    if isinstance(target, Mapping) and example_inputs is not None:
        _check_rebuilt(fused, example_inputs)
    aligned = tuple(with_state(into, state) for state in states.aligned)
    couplings = [each.couplings for each in states.couplings]
    parents = Parents(models, aligned, states.weights, layout, couplings, row.balance)
    model, done = corrected(correction, fused, parents, inputs, progress)
    return Fusion(model, aligned, states, tuple(models), done)


def _shown_by(models: Sequence[nn.Module]) -> nn.Module:
    """The model that shows the layout: the first, unless it has one unit where another has several.

    A single unit cannot be moved, and is not seen to be one.
    """
    single = {name for name, tensor in model_state(models[0]).items() if 1 in tensor.shape}
    first = {name: model_state(models[0])[name].shape for name in single}
    for model in models[1:]:
        shapes = {name: tensor.shape for name, tensor in model_state(model).items() if name in first}
        if any(
            len(shape) == len(first[name]) and shape.numel() > first[name].numel() for name, shape in shapes.items()
        ):
            return model
    return models[0]


def _traced(model: nn.Module, example_inputs: Any, outputs: Callable[[Any], Any] | None) -> Layout:
    """The layout of a model, found with the example inputs."""
    if example_inputs is None:
        raise InputError("pass example_inputs, with which the first model is traced, or a layout")
    return trace(model, example_inputs, outputs=outputs)


def _check_rebuilt(model: nn.Module, example_inputs: Any) -> None:
    """Run a network whose layers were rebuilt: some sizes stand in code, or in layers without tensors."""
    try:
        with undisturbed(model):
            check_runs(model, model_state(model), Arguments.of(example_inputs))
    except InputError as error:
        raise InputError(
            f"the network cannot be rebuilt with these widths ({error})\nPass a module of the wanted widths as target"
        ) from error


def _check_alignable(layout: Layout, reference: State, state: State) -> None:
    """Refuse to align networks of different widths: units are merged or mixed then, which changes the function."""
    wanted, own = layout.widths(reference), layout.widths(state)
    problems = [
        f"space {name} has {own[name]} units, {width} in the reference"
        for name, width in wanted.items()
        if own[name] != width
    ]
    if problems:
        raise InputError(
            listing("the network cannot be aligned to this reference and compute the same:", problems)
            + "\nAlign to a network of the same widths, or fuse into other widths"
        )


def align(
    model: nn.Module, *, to: nn.Module, example_inputs: Any = None, layout: Layout | None = None, seed: int = 0
) -> nn.Module:
    """A copy of a network that computes the same function, with its units in the order (and scale) of a reference.

    Raises:
        InputError: the reference has other widths, in which the network cannot compute the same.
    """
    layout = layout or _traced(_shown_by([to, model]), example_inputs, None)
    _check_alignable(layout, model_state(to), model_state(model))
    fusion = fuse([to, model], example_inputs, layout=layout, weights=[1.0, 1.0], correct="none", seed=seed)
    reference = working_state(model_state(to), type_of([model_state(to)]))
    twin = fusion.aligned[1]
    return with_state(twin, in_scale_of(reference, model_state(twin), fusion.states.layout))
