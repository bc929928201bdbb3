"""Inverted inputs: inputs in which networks see every class, found by following the networks' own gradients.

On drawn inputs most networks say the same of every sample, and use little of what they were trained for. A few steps
of gradient descent change that: each sample is moved until all networks give the class that it was assigned, class
after class. What the layers see then is nearer to what they see on data; neither labels nor data are needed. This is
the inversion of networks of DeepInversion (Yin et al. 2020, arXiv:1912.08795) without its priors on images, and with
several networks that have to agree.

Networks that know different classes (`classes`) cannot agree. Inputs are then inverted for one network at a time, with
the classes that it knows, and each network gets as many as all of them would share otherwise: that takes as long.

In: networks that can be run with gradients, and batches of drawn inputs. Out: batches, or why there are none: what
comes out first is no [samples, classes], there are no inputs of floats, or there are no gradients. Not here: how inputs
are drawn, and what is done with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from ..activations import Batches
from ..errors import InputError
from ..modules import are_class_scores, first_line, tensors_in
from ..progress import unwatched
from ..types import Watch
from .classes import Known, known_classes

INVERSION_STEPS = 20  # of Adam, for each batch: after these, networks were found to see the assigned classes
RATE = 0.1  # of Adam: how far a step goes, in root mean squares of the input


@dataclass(frozen=True, eq=False)
class Inverted:
    """Inputs in which networks see classes, or why there are none.

    Args:
        batches: The inputs; nothing if they could not be made.
        why_not: What stood in the way, for the user to read; empty if nothing did.
        known: For each network the classes that it knows, where that was found to differ; else empty.
    """

    batches: Batches | None = None
    why_not: str = ""
    known: Known = ()


def inverted_inputs(
    models: Sequence[nn.Module], drawn: Batches, watch: Watch = unwatched, *, apart: bool = False, tell: bool = True
) -> Inverted:
    """Drawn inputs, moved until every network sees an assigned class in each sample.

    Where networks turn out to know different classes, they are moved once more: for one network at a time.

    Args:
        models: Networks of one architecture, in evaluation mode.
        drawn: From `drawn_inputs`: a batch holds a tree of tensors, samples along the first axis of the outputs.
        watch: Is told of each batch.
        apart: Whether the networks have outputs for different classes: inputs are moved for one at a time at once.
        tell: Whether networks that know different classes are told from others; else inputs are moved for all at once.
    """
    if apart:
        return _one_at_a_time(models, drawn, watch, [()] * len(models))
    together = _inverted(models, drawn, watch)
    if together.batches is None or not tell or len(models) < 2:
        return together
    with torch.no_grad():
        known = known_classes([torch.cat([_scores(batch.run(each)) for batch in together.batches]) for each in models])
    return replace(_one_at_a_time(models, drawn, watch, known), known=known) if known else together


def _one_at_a_time(
    models: Sequence[nn.Module], drawn: Batches, watch: Watch, classes: Sequence[Sequence[int]]
) -> Inverted:
    """Drawn inputs, moved for each network alone: all batches of the first, then all of the next.

    In this order each network has batches that judge, if it has five or more in all.
    """
    parts = [_inverted([model], drawn, watch, own) for model, own in zip(models, classes, strict=True)]
    found = [content for part in parts if part.batches is not None for content in part.batches.data]
    why_not = next((part.why_not for part in parts if part.batches is None), "")
    return Inverted(why_not=why_not) if why_not else Inverted(replace(drawn, data=found, count=len(found)))


def _inverted(models: Sequence[nn.Module], drawn: Batches, watch: Watch, classes: Sequence[int] = ()) -> Inverted:
    """Drawn inputs, moved until all networks see one of some classes after another; without any, of all that exist."""
    found = []
    for number, content in enumerate(drawn.data):
        try:
            with torch.inference_mode(mode=False), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
                found.append(_moved(models, drawn, content, number, classes))
        except InputError as error:
            return Inverted(why_not=str(error))
        except Exception as error:  # the networks' own code runs here, and may raise anything: it is told
            return Inverted(why_not=f"they cannot be run with gradients ({first_line(error)})")
        watch("inverting inputs", len(found), drawn.count)
    return Inverted(replace(drawn, data=found))


def _moved(models: Sequence[nn.Module], drawn: Batches, content: Any, number: int, classes: Sequence[int]) -> Any:
    """One batch after all steps of gradient descent.

    Raises:
        InputError: there is nothing to move, there are no classes to see, or a network gives no finite numbers.
    """
    values, tree = pytree.tree_flatten(content)
    own = {
        place: value.clone().requires_grad_()
        for place, value in enumerate(values)
        if isinstance(value, Tensor) and value.is_floating_point()
    }
    if not own:
        raise InputError("no input holds floating-point numbers, which could be moved")
    sizes = {place: float(value.detach().square().mean().sqrt()) for place, value in own.items()}
    adam = torch.optim.Adam([{"params": [value], "lr": RATE * sizes[place]} for place, value in own.items()])
    for _ in range(INVERSION_STEPS):
        # Copies: a network may write to its inputs.
        given = [own[place].clone() if place in own else value for place, value in enumerate(values)]
        scores = [_scores(drawn.forward(model, pytree.tree_unflatten(given, tree))) for model in models]
        loss = torch.stack([_distance(each, number, classes) for each in scores]).sum()
        if not bool(loss.isfinite()):
            raise InputError("they give NaN or infinity on inputs like the example")
        slopes = torch.autograd.grad(loss, list(own.values()), allow_unused=True)
        for value, slope in zip(own.values(), slopes, strict=True):
            value.grad = slope
        adam.step()
    return pytree.tree_unflatten(
        [own[place].detach() if place in own else value for place, value in enumerate(values)], tree
    )


def _scores(outputs: Any) -> Tensor:
    """What a network says of each class [samples, classes]: the first floating-point tensor that it gives.

    Raises:
        InputError: that tensor has another shape, or there is none.
    """
    floats = [each for each in tensors_in(outputs) if each.is_floating_point()]
    if not floats or not are_class_scores(floats[0]):
        got = f"is of shape {list(floats[0].shape)}" if floats else "holds no floating-point numbers"
        raise InputError(f"there are no classes to see: what they give {got}, not [samples, classes]")
    return floats[0]


def _distance(scores: Tensor, number: int, classes: Sequence[int]) -> Tensor:
    """How far scores are from saying one class after another; each batch goes on where the one before it ended."""
    count = len(scores)
    own = torch.tensor(classes or range(scores.shape[1]), device=scores.device)
    places = number * count + torch.arange(count, device=scores.device)
    return F.cross_entropy(scores.float(), own[places % len(own)])
