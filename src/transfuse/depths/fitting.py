"""A layer of one network fitted, by least squares, to what a layer of another one gives on the same inputs."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import torch
from torch import nn

from ..activations import Batches, observe
from ..corrections import Sample, Task, refit_site
from ..modules import numbers_in, tensors_in


def fit_to(model: nn.Module, weight: str, like: nn.Module, other: str, batches: Batches) -> None:
    """Refit the layer with a weight, in place, to what the layer with another weight gives in another network.

    Nothing is changed where the weight is applied more than once, or the fit is no nearer on held-out batches.
    """

    def samples() -> Iterator[Sample]:
        """What each batch shows of the layer, and what it shall give."""
        for batch in batches:
            own, aims = observe(model, batch.run, only=weight), observe(like, batch.run, only=other)
            if len(own) == len(aims) == 1 and own[0].output.shape == aims[0].output.shape:
                yield Sample(own[0], aims[0].pre_activations, batch)

    refit_site(Task(model, (), (), batches), samples, bent=False)


def difference(one: nn.Module, other: nn.Module, batches: Batches) -> float:
    """By how much the outputs of two networks differ on inputs, relative to those of the first.

    Where they give different numbers of tensors, as language models that give the keys of each layer, the first counts.
    """
    distance = size = 0.0
    with torch.no_grad():
        for batch in batches:
            both = [[x for x in tensors_in(batch.run(each)) if x.is_floating_point()] for each in (one, other)]
            count = None if len(both[0]) == len(both[1]) else 1
            own, found = (numbers_in(each[:count]) for each in both)
            distance += float((own - found).square().sum())
            size += float(own.square().sum())
    return sqrt(distance / size) if size else sqrt(distance)
