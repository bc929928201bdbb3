"""Inverted inputs: inputs in which networks see every class, found by following the networks' own gradients.

On drawn inputs most networks say the same of every sample, and use little of what they were trained for. A few steps
of gradient descent change that: each sample is moved until all networks give the class that it was assigned, class
after class. What the layers see then is nearer to what they see on data; neither labels nor data are needed. This is
the inversion of networks of DeepInversion (Yin et al. 2020, arXiv:1912.08795) without its priors on images, and with
several networks that have to agree. Networks that know different classes cannot: they take turns (`assigning`).

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
from .assigning import ANOTHERS, TOGETHER, Assigned, known_classes

INVERSION_STEPS = 20  # of Adam, for each batch: after these, networks were found to see the assigned classes
RATE = 0.1  # of Adam: how far a step goes, in root mean squares of the input


@dataclass(frozen=True, eq=False)
class Inverted:
    """Inputs in which networks see classes, or why there are none.

    Args:
        batches: The inputs; nothing if they could not be made.
        why_not: What stood in the way, for the user to read; empty if nothing did.
        assigned: Which classes the networks are to see in them.
    """

    batches: Batches | None = None
    why_not: str = ""
    assigned: Assigned = TOGETHER


def inverted_inputs(
    models: Sequence[nn.Module], drawn: Batches, watch: Watch = unwatched, *, apart: bool = False
) -> Inverted:
    """Drawn inputs, moved until every network sees an assigned class in each sample.

    Where it turns out that networks know different classes, they are moved once more: each sample until one of the
    networks, in turn, sees a class that it knows, whatever the others see.

    Args:
        models: Networks of one architecture, in evaluation mode.
        drawn: From `drawn_inputs`: a batch holds a tree of tensors, samples along the first axis of the outputs.
        watch: Is told of each batch.
        apart: Whether the networks have outputs for different classes, so that they take turns, each with all its own.
    """
    if apart:
        return _inverted(models, drawn, watch, Assigned(((),) * len(models)))
    together = _inverted(models, drawn, watch, TOGETHER)
    if together.batches is None:
        return together
    own = known_classes(models, together.batches, _scores)
    return _inverted(models, drawn, watch, Assigned(own)) if own else together


def _inverted(models: Sequence[nn.Module], drawn: Batches, watch: Watch, assigned: Assigned) -> Inverted:
    """Drawn inputs, moved until networks see the classes that are assigned."""
    found = []
    for number, content in enumerate(drawn.data):
        try:
            with torch.inference_mode(mode=False), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
                found.append(_moved(models, drawn, content, number, assigned))
        except InputError as error:
            return Inverted(why_not=str(error))
        except Exception as error:  # the networks' own code runs here, and may raise anything: it is told
            return Inverted(why_not=f"they cannot be run with gradients ({first_line(error)})")
        watch("inverting inputs", len(found), drawn.count)
    return Inverted(replace(drawn, data=found), assigned=assigned)


def _moved(models: Sequence[nn.Module], drawn: Batches, content: Any, number: int, assigned: Assigned) -> Any:
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
        samples = number * len(scores[0]) + torch.arange(len(scores[0]), device=scores[0].device)
        wanted = [assigned.classes(network, samples, each.shape[1]) for network, each in enumerate(scores)]
        loss = torch.stack(list(map(_distance, scores, wanted))).sum()
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


def _distance(scores: Tensor, wanted: Tensor) -> Tensor:
    """How far scores are from saying the wanted classes, on average over the samples in which some are wanted."""
    count = (wanted != ANOTHERS).sum().clamp_min(1)
    return F.cross_entropy(scores.float(), wanted, ignore_index=ANOTHERS, reduction="sum") / count
