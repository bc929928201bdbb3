"""Batch norms of an averaged network: their running statistics measured anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..activations import Batch
from ..errors import InputError
from ..modules import twin_of
from .task import Task

ENOUGH = 100  # samples by which statistics are matched: a fit that follows makes the rest good

Statistics = dict[str, tuple[Tensor, Tensor]]  # by name of a batch norm: mean and variance


def norms_of(model: nn.Module) -> dict[str, _BatchNorm]:
    """Batch norms with running statistics, by name."""
    found = {name: module for name, module in model.named_modules() if isinstance(module, _BatchNorm)}
    return {name: module for name, module in found.items() if module.running_mean is not None}


def statistics_of(model: nn.Module) -> Statistics:
    """Copies of the running mean and variance of each batch norm, by name."""
    found = {}
    for name, norm in norms_of(model).items():
        mean, variance = norm.running_mean, norm.running_var
        assert mean is not None, "norms_of leaves these out"
        assert variance is not None, "norms_of leaves these out"
        found[name] = (mean.clone(), variance.clone())
    return found


def reset_statistics(task: Task) -> None:
    """Set the running statistics of the network of a task to their mean over batches, in place."""
    _measure(task.network, task.batches)


def match_statistics(task: Task) -> None:
    """Set running statistics so that norms see the batches as those of the parents do, in place.

    Where the parents' running statistics are those of the batches, this is `reset_statistics`. Elsewhere (synthetic
    inputs, inputs of another kind) the parents' norms give something else than mean 0 and variance 1, and so will the
    network's.
    """
    norms = norms_of(task.network)
    twins = [twin_of(parent) for parent in task.parents if norms]
    batches = list(_first(task.batches, ENOUGH))
    for each in (task.network, *twins):
        _measure(each, batches)
    running, measured = ([statistics_of(each) for each in kind] for kind in (task.parents, twins))
    for name, norm in norms.items():
        assert norm.running_mean is not None, "norms_of leaves these out"
        assert norm.running_var is not None, "norms_of leaves these out"
        theirs, seen = ([_moments(each[name], norm.eps) for each in kind] for kind in (running, measured))
        unit = task.mean([deviation for _, deviation in seen])
        ratio = task.mean([deviation for _, deviation in theirs]) / unit
        shift = (task.mean([mean for mean, _ in theirs]) - task.mean([mean for mean, _ in seen])) / unit
        mean, deviation = _moments((norm.running_mean, norm.running_var), norm.eps)
        norm.running_mean.copy_(mean + shift * deviation)
        norm.running_var.copy_(((ratio * deviation) ** 2 - norm.eps).clamp_min(0.0))


def _moments(statistics: tuple[Tensor, Tensor], epsilon: float) -> tuple[Tensor, Tensor]:
    """The mean, and the standard deviation as a batch norm counts it: with its epsilon."""
    return statistics[0].double(), (statistics[1].double() + epsilon).sqrt()


def _first(batches: Iterable[Batch], samples: int) -> Iterator[Batch]:
    """The first batches that hold so many samples, or all."""
    for batch in batches:
        yield batch
        samples -= batch.samples
        if samples <= 0:
            return


def _measure(model: nn.Module, batches: Iterable[Batch]) -> None:
    """Set running statistics to the mean over batches; momentum and mode stay as they were."""
    norms = norms_of(model)
    before = {name: (norm.momentum, norm.training) for name, norm in norms.items()}
    for norm in norms.values():
        norm.reset_running_stats()
        norm.momentum = None  # a cumulative mean
        norm.train()
    try:
        with torch.no_grad():
            for batch in batches if norms else ():
                batch.run(model)
    finally:
        for name, norm in norms.items():
            norm.momentum, norm.training = before[name]
    for name, statistics in statistics_of(model).items():
        if not all(bool(value.isfinite().all()) for value in statistics):
            raise InputError(f"batch norm {name} sees NaN or infinity on the data; check the inputs and the weights")
