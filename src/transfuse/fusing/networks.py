"""`fuse`: modules in, modules out; the pipeline over states does the work.

The models are never modified. Everything that cannot work is refused before work starts, with all problems at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

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
from ..corrections import AUTO_AIM, ChosenCorrection
from ..errors import InputError
from ..layout import LAYOUT, Layout, all_balanced, folded
from ..methods import Chosen, Method
from ..modules import alone, model_state, with_state
from ..progress import Progress
from ..types import Forward, State
from ..workers import WORKERS, Workers
from .allowing import allowed_widths, unmixed
from .budgets import BUDGET, Limit, Spent, cost_of
from .checking import Ready
from .correcting import Parents, corrected
from .depth import lent
from .given import Given, Wanted
from .heads import CLASSES, HEADS, Classes, checked_heads
from .inputs import Inputs, TermsName, check_terms
from .joining import calibrated
from .pipeline import fused_states
from .resized import check_rebuilt
from .results import FusedStates, Fusion, Network
from .widths import WIDTHS, Widths

TARGET = optional(either(NETWORK, WIDTHS))


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
            units are averaged, by a norm, this takes whole multiples of its width; where they are summed, by a softmax,
            between queries and keys or by a tied weight, it cannot grow) or a narrower one.
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
            data, unless the method says. Layers of models of other depths are put beside each other by the same; by
            default by `activations`, on inputs that are drawn where there is no data.
        correct: The correction at the end: a row of `transfuse.CORRECTIONS`, `auto` (the one that is judged best
            without labels) or `none`; default: what the method says (`auto` ends with one, published methods do not).
        synthetic: Without data, correct by synthetic inputs, if that is judged an improvement; networks with
            convolutions are matched by them too. See `transfuse.synthetic_inputs`.
        forward: Runs a model on a batch of the data, where batches are of another kind.
        outputs: What counts as output, from what a model returns: in tracing (see `transfuse.trace`), and where
            outputs are compared, corrected or calibrated.
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
    started = time.perf_counter()
    if wanted.budget is not None and wanted.target is not None:
        raise InputError("target and budget both say how wide the result is; pass one of them")
    check_terms(wanted.terms)
    row, aim = chosen.row, checked_heads(wanted.heads, wanted.classes, wanted.correction.aim)
    wanted = replace(wanted, correction=replace(wanted.correction, aim=aim))
    with alone():
        given = Given.of(models, wanted)
        ready = given.ready(wanted)
        inputs = given.inputs(wanted)
        if given.joined and wanted.classes is not None and inputs.any is not None:
            joined = calibrated(given.joined, given.own, inputs.any, synthetic=inputs.data is None)
            given = given.with_heads(joined, wanted)
            ready = replace(ready, states=given.states)
        spent = _spent(given, ready, inputs, chosen, wanted) if wanted.budget is not None else None
        if spent is not None:
            given = replace(given, target=spent.widths)
            ready = given.ready(wanted)
        if not isinstance(given.target, nn.Module | None):
            check_rebuilt(given.into, given.layout.shapes(ready.widths), wanted.example)
        layout = ready.layout_for(row)
        seen = _comparable(given, layout, row) if inputs.matching else given.models
        activations = inputs.activations(seen, layout, wanted.terms or row.terms)
    states = fused_states(
        chosen, ready, activations, seed=wanted.seed, progress=wanted.progress, workers=wanted.workers
    )
    states = replace(states, heads=given.joined.heads) if given.joined else states
    with alone():
        done = _finished(given, wanted, row, states, inputs)
    return replace(done, budget=spent, seconds=time.perf_counter() - started)


def _spent(given: Given, ready: Ready, inputs: Inputs, chosen: Chosen, wanted: Wanted) -> Spent:
    """The widths that a budget allows, by how the units of the models match in widths of their own."""
    assert wanted.budget is not None, "only asked where there is one"
    cost = cost_of(given.models[0], given.layout, Limit.of(wanted.budget), wanted.example)
    plain = unmixed(ready, cost)
    activations = inputs.activations(given.models, plain.layout, wanted.terms or chosen.row.terms)
    return allowed_widths(cost, chosen, plain, activations, seed=wanted.seed, progress=wanted.progress)


def _finished(given: Given, how: Wanted, row: Method, states: FusedStates, inputs: Inputs) -> Fusion[Any]:
    """Modules with the fused states, held to their models and corrected.

    They are held to them before tensors are lent, which may change what a model returns beside its outputs: keys of a
    layer that it grew, say.
    """
    fused = with_state(given.into, states.state)
    aligned = _all_aligned(given, states)
    pairs = zip(aligned, states.couplings, strict=True)
    check = given.held.held_to([twin if own.reversible else None for twin, own in pairs])
    if row.lends and given.depths is not None:
        states = lent(states, given.depths)
        fused, aligned = with_state(given.into, states.state), _all_aligned(given, states)
    couplings = [each.couplings for each in states.couplings]
    parents = Parents(given.models, aligned, states.weights, given.layout, couplings, row.balance, given.apart)
    model, correction = corrected(how.correction, fused, parents, inputs, how.progress)
    told = replace(check, note="; ".join(filter(None, [*given.notes, check.note])))
    return Fusion(model, aligned, states, tuple(given.models), correction, told, depths=given.depths)


def _comparable(given: Given, layout: Layout, row: Method) -> Sequence[nn.Module]:
    """The models, with norms folded and frames in balance, so that a rotation can bring together what they compute."""
    if not layout.folds and not layout.frames:
        return given.models
    states = [
        all_balanced(folded(state, layout), layout, scales=row.balance, apart=given.apart) for state in given.states
    ]
    return [with_state(model, state) for model, state in zip(given.models, states, strict=True)]


def _all_aligned(given: Given, states: FusedStates) -> tuple[nn.Module, ...]:
    """All models in the common order."""
    pairs = zip(given.models, states.aligned, strict=True)
    return tuple(_aligned(model, given.into, state) for model, state in pairs)


def _aligned(model: nn.Module, into: nn.Module, state: State) -> nn.Module:
    """A model in the common order: a copy of itself, or of the target where that has other widths."""
    own = model_state(model)
    same = all(own[name].shape == tensor.shape for name, tensor in state.items())
    return with_state(model if same else into, state)
