"""Models of other depths in a fusion: brought to one depth before it, and tensors that do not matter to one lent to it.

In: modules, a target, inputs. Out: modules of one architecture. What is grown and lost, and how, is in `depths`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from ..activations import Batches
from ..depths import Depths, brought_to
from ..errors import InputError, listing
from ..modules import Arguments, depth_of, differ_in_depth, first_line, model_state, numbers_in, run, undisturbed
from ..synthetic import SyntheticInputs, plain_inputs
from ..types import State
from .results import FusedStates

MOST_BATCHES = 10  # of the data that layers are compared and fitted by: a thousand samples of a loader's usual size
COMPARED = 500  # samples that are drawn, in five batches: on the first one layers are compared, on all outputs


def of_one_depth(  # noqa: PLR0913
    models: Sequence[nn.Module],
    target: Any,
    example: Arguments | None,
    data: Batches | None,
    *,
    synthetic: bool,
    seed: int,
    terms: str | None = None,
) -> tuple[list[nn.Module], Depths | None]:
    """Models in the depth of the target, or of the deepest of them, and what was done to them; nothing if nothing was.

    The deepest one is the default since a shallower network can grow and compute the same, while a deeper one that
    loses layers does not. Layers are compared by what they compute, even where units are matched by their weights; only
    `terms` that are asked for say otherwise.

    Raises:
        InputError: there are no example inputs, a model does not run on them, or its layers cannot be put beside those
            of the target.
    """
    wanted = [target] if isinstance(target, nn.Module) else []
    _check_recurrent([*models, *wanted])
    if not differ_in_depth([*models, *wanted]):
        return list(models), None
    if example is None:
        counts = ", ".join(str(depth_of(model)) for model in (*models, *wanted))
        raise InputError(
            f"the models have different numbers of layers ({counts}, the target last if there is one), which are put "
            "beside each other by what they compute; pass example_inputs"
        )
    _check_inputs([*models, *wanted], example)
    like = wanted[0] if wanted else max(models, key=depth_of)
    inputs = _inputs([like, *models], example, data, synthetic=synthetic, seed=seed)
    return brought_to(like, models, inputs, likeness=terms or "activations")


def _check_recurrent(models: Sequence[nn.Module]) -> None:
    """Refuse recurrent modules of other numbers of layers, which are one module whatever their number is.

    Raises:
        InputError: with all that differ from the first model's.
    """
    first = {name: each.num_layers for name, each in models[0].named_modules() if isinstance(each, nn.RNNBase)}
    problems = [
        f"{name} of model {number} ({type(each).__name__}) has {each.num_layers} layers, that of model 1 {first[name]}"
        for number, model in enumerate(models, start=1)
        for name, each in model.named_modules()
        if isinstance(each, nn.RNNBase) and name in first and each.num_layers != first[name]
    ]
    if problems:
        raise InputError(
            listing("recurrent modules have other numbers of layers:", problems)
            + "\nLayers inside of a recurrent module cannot be grown or left out; fuse networks of one num_layers"
        )


def _check_inputs(models: Sequence[nn.Module], example: Arguments) -> None:
    """Refuse models that do not read the same inputs, before they are compared on some.

    Raises:
        InputError: a model does not run on the example inputs.
    """
    with undisturbed(*models):
        for number, model in enumerate(models, start=1):
            try:
                run(model, model_state(model), example)
            except Exception as error:  # the model's own code runs here, and may raise anything
                raise InputError(
                    f"model {number} ({type(model).__name__}) does not run on the example inputs: {first_line(error)}. "
                    "Models of other depths are compared on the same inputs: all, and the target if it is a module, "
                    "have to take them"
                ) from error


def _inputs(
    models: Sequence[nn.Module], example: Arguments, data: Batches | None, *, synthetic: bool, seed: int
) -> Batches:
    """Inputs by which layers are compared: the data, else synthetic ones, else the example.

    Where a model loses layers, others are fitted by these inputs, and it pays to take time to make them.
    """
    if data is not None:
        kept = list(islice(data.data, MOST_BATCHES))
        return replace(data, data=kept, count=len(kept))
    made = None
    if synthetic and max(map(depth_of, models)) > depth_of(models[0]):
        made = SyntheticInputs.of(models, example, plain=True, data=0, seed=seed).batches
    elif synthetic:
        made = _drawn(models, example, seed)
    return made or Batches([example], 1, lambda model, given: model(*given.args, **given.kwargs))


def _drawn(models: Sequence[nn.Module], example: Arguments, seed: int) -> Batches | None:
    """Inputs that are drawn in no time; nothing if the networks do not run on such inputs."""
    try:
        with undisturbed(*models):
            made = plain_inputs(models, example, samples=COMPARED, seed=seed)
            for batch in made:
                for model in models:
                    numbers_in(batch.run(model))
    except InputError:  # whatever a network raises on a batch comes as one; the example serves then
        return None
    return made


def lent(states: FusedStates, depths: Depths) -> FusedStates:
    """Fused states in which tensors of grown blocks that do not matter to a model are those of the others.

    They are 0 where a block was grown, and whatever they are, the model computes the same. The mean with 0 would weaken
    the block of the others once more for each such tensor.
    """
    free = [frozenset[str]() if change is None else change.free for change in depths.changes]
    fused = dict(_means(states, free))
    own = tuple(
        {**state, **{name: fused[name].to(state[name]) for name in fused.keys() & names}}
        for state, names in zip(states.aligned, free, strict=True)
    )
    return replace(states, state={**states.state, **fused}, aligned=own)


def _means(states: FusedStates, free: Sequence[frozenset[str]]) -> Iterator[tuple[str, Tensor]]:
    """Tensors that do not matter to some of the models, each as the mean of those to which it does."""
    for name in sorted(frozenset().union(*free)):
        having: list[tuple[float, State]] = [
            (weight, state)
            for weight, state, names in zip(states.weights, states.aligned, free, strict=True)
            if name not in names
        ]
        total = sum(weight for weight, _ in having)
        like = states.state[name]
        if total and like.is_floating_point():
            yield name, torch.stack([weight / total * state[name].to(like) for weight, state in having]).sum(0)
