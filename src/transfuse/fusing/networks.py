"""`fuse`: modules in, modules out; the pipeline over states does the work.

The models are never modified. Everything that cannot work is refused before work starts, with all problems at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from ..activations import Batches
from ..arguments import (
    FUNCTION,
    NETWORK,
    PROGRESS,
    SEED,
    SWITCH,
    TEXT,
    WEIGHTS,
    check_arguments,
    either,
    optional,
)
from ..corrections import AUTO, AUTO_AIM, ChosenCorrection
from ..depths import Depths
from ..errors import InputError
from ..layout import LAYOUT, Layout, all_balanced, folded
from ..methods import Chosen, Method
from ..modules import (
    Arguments,
    acts_otherwise_in_training,
    alone,
    check_copies,
    check_runs,
    model_state,
    shares_of,
    told_unwrapped,
    undisturbed,
    unwrapped,
    with_state,
)
from ..progress import Progress
from ..synthetic import SyntheticInputs
from ..tracing import trace
from ..types import Forward, State
from ..workers import WORKERS, Workers
from .allowing import allowed_widths, unmixed
from .budgets import BUDGET, Limit, cost_of
from .checking import Ready, check_fit, network_list
from .correcting import Parents, corrected
from .depth import lent, of_one_depth
from .heads import CLASSES, HEADS, Classes, Joined, checked_heads
from .inputs import Inputs, TermsName
from .joining import calibrated, check_placed, placed_modules
from .pipeline import fused_states
from .results import FusedStates, Fusion, Network
from .verifying import Verified, verified
from .widths import WIDTHS, Widths

TARGET = optional(either(NETWORK, WIDTHS))
TRAINING = "model 1 is in training mode, and so the result is, too: call .eval() before using it"


def fuse(  # noqa: PLR0913
    models: Sequence[Network], example_inputs: Any = None, *, method: str = "auto",
    weights: Sequence[float] | None = None, target: nn.Module | Widths | None = None,
    layout: Layout | None = None, data: Any = None, terms: TermsName | None = None, correct: str | None = None,
    synthetic: bool = True, forward: Forward | None = None, outputs: Callable[[Any], Any] | None = None, seed: int = 0,
    progress: Progress = False, check: bool = True, aim: str = AUTO_AIM, workers: Workers = 0,
    budget: int | str | None = None, heads: str | None = None, classes: Classes | None = None, **options: Any,
) -> Fusion[Network]:  # fmt: skip
    """Fuse trained networks of one architecture, of equal or different widths and depths, into one.

    Args:
        models: One or more modules. One alone can be fused into a wider target (it grows and computes the same: where
            units are averaged, by a norm, this takes whole multiples of its width; where they are summed, by a softmax
            or between queries and keys, it cannot grow) or a narrower one.
        example_inputs: For tracing: a tensor, a tuple of positional arguments, or a dict of keyword arguments.
        method: A row of `transfuse.METHODS`.
        weights: Proportions of the models, non-negative; default: equal.
        target: Widths and depth of the result: a module that has them; or the width of some spaces, by name or
            pattern, in units or as a factor (`{"conv*": 1.5}`); or one factor for all spaces (`1.5`): the layers of the
            first model are rebuilt then, and attributes of your own, such as `model.width`, stay as they were. Default:
            the widths of the first model, the depth of the deepest, to which others are brought by layers that change
            nothing (`Fusion.depths` tells). Models of other widths compute the same in `aligned` only if they are
            narrower and can grow; a `WidthWarning` says where they cannot, and where units of a wider model merge
            though no target was given.
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
        seed: For the order of sweeps, for restarts, for synthetic inputs, and for distillation.
        progress: Show how far it is, on standard error: if that is a terminal (True), or "always". Or a function
            `watch(stage, done, total)` of your own.
        check: Run every model on the example inputs, and the first one with the state of each: what differs outside
            the states (an activation, an attribute, a buffer that is not saved) is an error. Aligned networks are run
            too. `Fusion.check` tells what it took: a few forward passes.
        aim: What a correction aims at: `mean`, the mean of the models' outputs; `evidence`, the mean of what they hold
            for each class; or `auto`: evidence where some classes are named by some of the models only.
        workers: Processes or an executor that help to couple the models; see `fuse_states`.
        budget: In place of a target, what the result may have: a number of parameters (`200_000`, "1.5M"), or of
            multiplications for one sample of the example ("40M operations"), or a factor of what the first model has
            ("1.3x", "1.3x operations"). Units that match worst stay apart first, until no unit more fits;
            `Fusion.budget` tells the widths.
        heads: `join` for models with other outputs: the result has the outputs of all, `Fusion.heads` says which are
            whose. Default: all models have the same outputs.
        classes: With `heads`, the classes of the outputs of each model, by name or number. The result has one output
            for each class: where several models know it, the mean of theirs. Outputs of different models are calibrated
            by the data, or by synthetic inputs, to compete on equal terms. Default: all outputs stand side by side.
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
    check_arguments(
        method=(method, TEXT), weights=(weights, optional(WEIGHTS)), target=(target, TARGET),
        layout=(layout, optional(LAYOUT)), terms=(terms, optional(TEXT)), correct=(correct, optional(TEXT)),
        synthetic=(synthetic, SWITCH), forward=(forward, optional(FUNCTION)), seed=(seed, SEED),
        progress=(progress, PROGRESS), check=(check, SWITCH), outputs=(outputs, optional(FUNCTION)), aim=(aim, TEXT),
        workers=(workers, WORKERS), budget=(budget, optional(BUDGET)), heads=(heads, HEADS), classes=(classes, CLASSES),
    )  # fmt: skip
    chosen = Chosen.of(method, options)
    wanted = Wanted(
        example_inputs, ChosenCorrection.of(correct or chosen.row.correct, aim, seed), weights=weights, target=target,
        budget=budget, layout=layout, data=data, terms=terms, synthetic=synthetic, forward=forward, outputs=outputs,
        seed=seed, progress=progress, check=check, workers=workers, heads=heads, classes=classes,
    )  # fmt: skip
    return fused_networks(models, chosen, wanted)


@dataclass(frozen=True, eq=False, kw_only=True)
class Wanted:
    """What is asked for beside the models and the method, in the words of `fuse`; the correction is looked up."""

    example_inputs: Any = field(kw_only=False)
    correction: ChosenCorrection = field(kw_only=False)
    weights: Sequence[float] | None = None
    target: nn.Module | Widths | None = None
    budget: int | str | None = None
    layout: Layout | None = None
    data: Any = None
    terms: str | None = None
    synthetic: bool = True
    forward: Forward | None = None
    outputs: Callable[[Any], Any] | None = None
    seed: int = 0
    progress: Progress = False
    check: bool = True
    workers: Workers = 0
    heads: str | None = None
    classes: Classes | None = None

    @property
    def example(self) -> Arguments | None:
        """The example inputs, if there are any."""
        return None if self.example_inputs is None else Arguments.of(self.example_inputs)

    def verified(self, models: Sequence[nn.Module]) -> Verified:
        """Models that are alike outside their states, if that shall be checked."""
        return verified(models, self.example) if self.check and self.outputs is None else Verified()


def fused_networks(models: Sequence[Network], chosen: Chosen, wanted: Wanted) -> Fusion[Network]:
    """Fuse networks by a method that is looked up: what `fuse`, `align` and the command share.

    Args:
        models: One or more modules.
        chosen: The method and its options.
        wanted: What else is asked for.

    Raises:
        InputError: models or proportions cannot be used as given.
        LayoutError: the models do not fit one layout, with every difference.
    """
    row, spent, started = chosen.row, None, time.perf_counter()
    if wanted.budget is not None and wanted.target is not None:
        raise InputError("target and budget both say how wide the result is; pass one of them")
    row, aim = chosen.row, checked_heads(wanted.heads, wanted.classes, wanted.correction.aim)
    wanted = replace(wanted, correction=replace(wanted.correction, aim=aim))
    with alone():
        given = _Given.of(models, wanted)
        ready = given.ready(wanted)
        inputs = given.inputs(wanted)
        if given.joined and wanted.classes is not None and inputs.any is not None:
            joined = calibrated(given.joined, given.own, inputs.any, synthetic=inputs.data is None)
            given = given.with_heads(joined, wanted)
            ready = replace(ready, states=given.states)
        if wanted.budget is not None:
            cost = cost_of(given.models[0], given.layout, Limit.of(wanted.budget), wanted.example)
            plain = unmixed(ready, cost)
            activations = inputs.activations(given.models, plain.layout, wanted.terms or row.terms)
            spent = allowed_widths(cost, chosen, plain, activations, seed=wanted.seed, progress=wanted.progress)
            given = replace(given, target=spent.widths)
            ready = given.ready(wanted)
        layout = ready.layout_for(row)
        seen = _comparable(given, layout, row) if inputs.matching else given.models
        activations = inputs.activations(seen, layout, wanted.terms or row.terms)
    states = fused_states(
        chosen, ready, activations, seed=wanted.seed, progress=wanted.progress, workers=wanted.workers
    )
    states = replace(states, heads=given.joined.heads) if given.joined else states
    states = lent(states, given.depths) if row.lends else states
    with alone():
        done = _finished(given, wanted, row, states, inputs)
    return replace(done, budget=spent, seconds=time.perf_counter() - started)


@dataclass(frozen=True, eq=False)
class _Given:
    """The models, found to be of one architecture and to be alike outside their states.

    Args:
        own: The models as they were given.
        models: What is fused: these models, or copies of them with the outputs of all.
        states: The states of what is fused.
        target: Widths of the result, or a module of them.
        layout: Which axes move together.
        held: The runs by which the models were found to be alike.
        notes: What is told of the models.
        joined: Where the outputs of each model are placed; nothing if all models have the same.
        depths: How the models were brought to one depth; nothing if they had the same.
    """

    own: list[nn.Module]
    models: list[nn.Module]
    states: Sequence[State]
    target: nn.Module | Widths | None
    layout: Layout
    held: Verified
    notes: list[str]
    joined: Joined | None = None
    depths: Depths | None = None

    @staticmethod
    def of(models: Sequence[nn.Module], how: Wanted) -> _Given:
        """What was given, checked; the first model is traced if there is no layout."""
        listed, target = network_list(models), how.target
        notes = [f"model {number}: {text}" for number, each in enumerate(listed, 1) if (text := told_unwrapped(each))]
        own = [unwrapped(model) for model in listed]
        notes += [TRAINING] if own[0].training and acts_otherwise_in_training(own[0]) else []
        for number, model in enumerate(own, start=1):
            check_copies(model, f"model {number}")
        if isinstance(target, nn.Module):
            target = unwrapped(target)
            check_copies(target, "target")
        data = None if how.data is None else Batches.of(how.data, forward=how.forward)
        own, depths = of_one_depth(own, target, how.example, data, synthetic=how.synthetic, seed=how.seed)
        wide = [*own, target] if isinstance(target, nn.Module) else own
        layout = how.layout or traced_layout(wide, how.example_inputs, how.outputs)
        states = _detached(own)
        if how.outputs is not None:  # what is compared would be picked out of outputs that cannot be looked into
            notes.append("outputs= was given")
        given = _Given(own, own, states, target, layout, Verified(), notes, depths=depths)
        if how.heads:
            shares = shares_of(how.weights, len(own))
            return given.with_heads(Joined.of(layout, states, shares, how.classes), how)
        check_fit(layout, states)  # before any other network is run
        return replace(given, held=how.verified(own))

    def with_heads(self, joined: Joined, how: Wanted) -> _Given:
        """The same models, with the outputs of all, held to what they were."""
        layout, states = joined.layout(self.layout), joined.all_placed(_detached(self.own))
        check_fit(layout, states)
        placed = placed_modules(joined, self.own, states)
        if how.check and how.example is not None and how.outputs is None:
            check_placed(joined, self.own, placed, how.example)
        return replace(self, models=placed, states=states, layout=layout, held=how.verified(placed), joined=joined)

    def ready(self, wanted: Wanted) -> Ready:
        """The states with their proportions and the widths of the result."""
        ready = Ready.of(self.states, self.layout, weights=wanted.weights, widths=self.widths)
        return replace(ready, apart=self.apart)

    @property
    def widths(self) -> Widths | None:
        """The widths that were asked for."""
        if not isinstance(self.target, nn.Module):
            return self.target
        state = model_state(self.target)
        return self.layout.widths(self.joined.placed_alike(state) if self.joined else state)

    @property
    def apart(self) -> frozenset[str]:
        """Names of the tensors of blocks that some of the models had to grow."""
        return frozenset() if self.depths is None else self.depths.apart

    @property
    def into(self) -> nn.Module:
        """The module that the fused state is put into."""
        return self.target if isinstance(self.target, nn.Module) else self.models[0]

    def inputs(self, how: Wanted) -> Inputs:
        """The data, and synthetic inputs in place of it or beside it."""
        batches = None if how.data is None else Batches.of(how.data, forward=how.forward)
        example = how.example if how.synthetic else None
        how.correction.check(self.models[0], inputs=batches is not None or example is not None)
        example = example if how.correction.wanted else None
        made = SyntheticInputs.of(
            self.own, example, plain=how.correction.name != AUTO, data=batches is not None, seed=how.seed,
            streams=bool(self.layout.rotating), apart=self.joined is not None, progress=how.progress,
        )  # fmt: skip
        return Inputs(batches, made)


def _finished(given: _Given, how: Wanted, row: Method, states: FusedStates, inputs: Inputs) -> Fusion[Any]:
    """Modules with the fused states, held to their models and corrected."""
    fused = with_state(given.into, states.state)
    if not isinstance(given.target, nn.Module | None) and how.example_inputs is not None:
        _check_rebuilt(fused, how.example_inputs)
    pairs = zip(given.models, states.aligned, strict=True)
    aligned = tuple(_aligned(model, given.into, state) for model, state in pairs)
    couplings = [each.couplings for each in states.couplings]
    check = given.held.held_to(
        [twin if own.reversible else None for twin, own in zip(aligned, states.couplings, strict=True)]
    )
    parents = Parents(given.models, aligned, states.weights, given.layout, couplings, row.balance, given.apart)
    model, correction = corrected(how.correction, fused, parents, inputs, how.progress)
    told = replace(check, note="; ".join(filter(None, [*given.notes, check.note])))
    return Fusion(model, aligned, states, tuple(given.models), correction, told, depths=given.depths)


def _detached(models: Sequence[nn.Module]) -> list[dict[str, Tensor]]:
    """The states of models, without gradients."""
    return [{name: tensor.detach() for name, tensor in model_state(model).items()} for model in models]


def _comparable(given: _Given, layout: Layout, row: Method) -> Sequence[nn.Module]:
    """The models, with norms folded and frames in balance, so that a rotation can bring together what they compute."""
    if not layout.folds and not layout.frames:
        return given.models
    states = [
        all_balanced(folded(state, layout), layout, scales=row.balance, apart=given.apart) for state in given.states
    ]
    return [with_state(model, state) for model, state in zip(given.models, states, strict=True)]


def _aligned(model: nn.Module, into: nn.Module, state: State) -> nn.Module:
    """A model in the common order: a copy of itself, or of the target where that has other widths."""
    own = model_state(model)
    same = all(own[name].shape == tensor.shape for name, tensor in state.items())
    return with_state(model if same else into, state)


def traced_layout(
    models: Sequence[nn.Module], example_inputs: Any, outputs: Callable[[Any], Any] | None = None
) -> Layout:
    """The layout of models of one architecture, found with the example inputs by tracing one of them.

    Raises:
        InputError: there are no example inputs.
    """
    if example_inputs is None:
        raise InputError("pass example_inputs, with which the first model is traced, or a layout")
    return trace(_shown_by(models), example_inputs, outputs=outputs)


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


def _check_rebuilt(model: nn.Module, example_inputs: Any) -> None:
    """Run a network whose layers were rebuilt: some sizes stand in code, or in layers without tensors."""
    try:
        with undisturbed(model):
            check_runs(model, model_state(model), Arguments.of(example_inputs))
    except InputError as error:
        raise InputError(
            f"the network cannot be rebuilt with these widths ({error})\nPass a module of the wanted widths as target"
        ) from error
