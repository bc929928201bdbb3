"""What is given to `fuse`: what is asked for, and the models, found to be of one architecture, of one depth and alike.

In: modules and the words of `fuse`. Out: records that hold all that follows needs. What cannot work is refused here,
before work starts. Not here: fusing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..activations import Batches
from ..corrections import AUTO, ChosenCorrection
from ..depths import Depths
from ..errors import InputError, listing
from ..layout import Layout
from ..modules import (
    Arguments,
    acts_otherwise_in_training,
    check_copies,
    check_model,
    is_mask,
    model_state,
    shares_of,
    told_unwrapped,
    unwrapped,
)
from ..progress import Progress
from ..synthetic import SyntheticInputs
from ..tracing import trace
from ..types import Forward, State
from ..workers import Workers
from .checking import Ready, check_fit, network_list
from .depth import of_one_depth
from .heads import Classes, Joined
from .inputs import Inputs
from .joining import check_placed, placed_modules
from .verifying import Verified, verified
from .widths import Widths

TRAINING = "model 1 is in training mode, and so the result is, too: call .eval() before using it"


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

    @property
    def batches(self) -> Batches | None:
        """The data, if there is any; a model gives on it what counts as output, unless `forward` says what it gives."""
        if self.data is None:
            return None
        batches = Batches.of(self.data, forward=self.forward)
        return batches if self.forward is not None else self.counting(batches)

    def counting(self, batches: Batches | None) -> Batches | None:
        """Batches on which a model gives what counts as output."""
        pick = self.outputs
        if batches is None or pick is None:
            return batches
        whole = batches.forward
        return replace(batches, forward=lambda model, batch: pick(whole(model, batch)))

    def verified(self, models: Sequence[nn.Module]) -> Verified:
        """Models that are alike outside their states, if that shall be checked."""
        return verified(models, self.example) if self.check and self.outputs is None else Verified()


@dataclass(frozen=True, eq=False)
class Given:
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
    def of(models: Sequence[nn.Module], how: Wanted) -> Given:
        """What was given, checked; the first model is traced if there is no layout."""
        listed, target = network_list(models), how.target
        notes = [f"model {number}: {text}" for number, each in enumerate(listed, 1) if (text := told_unwrapped(each))]
        own = [unwrapped(model) for model in listed]
        notes += [TRAINING] if own[0].training and acts_otherwise_in_training(own[0]) else []
        for number, model in enumerate(own, start=1):
            check_model(model, f"model {number}")
            check_copies(model, f"model {number}")
        if isinstance(target, nn.Module):
            target = unwrapped(target)
            check_copies(target, "target")
        own, depths = of_one_depth(
            own, target, how.example, how.batches, synthetic=how.synthetic, seed=how.seed, terms=how.terms
        )
        wide = [*own, target] if isinstance(target, nn.Module) else own
        layout = how.layout or traced_layout(wide, how.example_inputs, how.outputs)
        states = _detached(own)
        if how.outputs is not None:  # what is compared would be picked out of outputs that cannot be looked into
            notes.append("outputs= was given")
        given = Given(own, own, states, target, layout, Verified(), notes, depths=depths)
        if how.heads:
            shares = shares_of(how.weights, len(own))
            return given.with_heads(Joined.of(layout, states, shares, how.classes), how)
        check_fit(layout, states)  # before any other network is run
        _check_masks(own)
        return replace(given, held=how.verified(own))

    def with_heads(self, joined: Joined, how: Wanted) -> Given:
        """Models whose outputs stand among those of all, each held to what it was before."""
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
        batches = how.batches
        example = how.example if how.synthetic else None
        how.correction.check(self.models[0], inputs=batches is not None or example is not None)
        example = example if how.correction.wanted else None
        made = SyntheticInputs.of(
            self.own, example, plain=how.correction.name != AUTO, data=batches.samples if batches else 0, seed=how.seed,
            streams=bool(self.layout.rotating), apart=self.joined is not None, progress=how.progress,
        )  # fmt: skip
        counted = replace(made, batches=how.counting(made.batches), matching=how.counting(made.matching))
        return Inputs(batches, counted)


def _detached(models: Sequence[nn.Module]) -> list[dict[str, Tensor]]:
    """The states of models, without gradients."""
    return [{name: tensor.detach() for name, tensor in model_state(model).items()} for model in models]


def _check_masks(models: Sequence[nn.Module]) -> None:
    """Refuse models whose masks differ: each has weights where another has none, and the mean of masks is no mask.

    Raises:
        InputError: naming every mask that differs.
    """
    masks = {name: tensor for name, tensor in model_state(models[0]).items() if is_mask(tensor)}
    problems = [
        f"model {number}: {name}"
        for number, model in enumerate(models[1:], start=2)
        for name, tensor in model_state(model).items()
        if name in masks and tensor.shape == masks[name].shape and not torch.equal(tensor, masks[name])
    ]
    if problems:
        raise InputError(
            listing("masks (buffers of zeros and ones) differ from those of model 1:", problems)
            + "\nThe mean of two masks is no mask; multiply the weights by them once, and fuse without masks"
        )


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
