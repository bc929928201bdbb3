"""Distillation: a corrected network is trained for a few steps to give what its parents give, on unlabeled inputs.

It is a training, if a short one, and so nothing that `auto` does by itself. In every step the parents are run on a
batch; the network shall give the mean of their outputs, and at each site the mean of their pre-activations, as in a
refit. Inputs are varied, so that few of them show much: images are mirrored and shifted, and inputs of numbers are
mixed with each other. Labels are nowhere needed, for the parents say what is right about inputs of any kind.

Running statistics of batch norms stay as they are. If, at the end, outputs on held-out batches are no nearer to the
parents' mean than before, the network stays as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..activations import Batch, Seen, observe
from ..modules import tensors_in, twin_of
from .task import Task

INPUTS = 20_000  # that the training goes through, a batch in each step
STEPS = (200, 400)  # of the training, at least and at most, however large batches are
# Of Adam at its highest, relative to the size of each tensor (the root of its mean square): one rate serves networks
# whose weights are of other sizes, as layer-wise rates do in large batches (You et al. 2017, arXiv:1708.03888).
RATE = 0.02
RISING = 0.1  # share of the steps in which the rate rises from nothing, since Adam's first ones go by little
BETAS = (0.9, 0.95)  # of Adam: what it remembers of the squares must be much shorter than the training
SMALLEST_SIZE = 1e-3  # of a tensor, so that one of zeros may move too
SITES = 1.0  # how much all sites together count, where the outputs count 1
SHIFT = 0.125  # of the height and the width of an image: how far it is shifted at most
MIXED = 0.5  # share of the inputs that are mixed with another one
SMALLEST = 8  # pixels: an array of fewer in height or width is taken for something else than an image
NOTHING = 1e-10  # relative squared distance: outputs that are so near cannot come nearer in single precision


def distill_towards_parents(task: Task) -> None:
    """Train the network of a task towards its parents, in place; without an improvement it stays as it is."""
    before = task.disagreement(task.network)
    if before < NOTHING:
        return
    with torch.inference_mode(mode=False):
        trained = twin_of(task.network)  # gradients are asked of a copy: the network may be frozen
        whole = _train(trained, task)
    if whole and task.disagreement(trained) < before:
        task.write(dict(trained.named_parameters()))


def _train(network: nn.Module, task: Task) -> bool:
    """Train a network, in place; whether that came to its end, and all was numbers."""
    parameters = [each for each in network.parameters() if each.is_floating_point()]
    for each in parameters:
        each.requires_grad_(True)
    sizes = [float(each.detach().square().mean().sqrt().clamp_min(SMALLEST_SIZE)) for each in parameters]
    optimiser = torch.optim.Adam([{"params": [each]} for each in parameters], RATE, betas=BETAS)
    steps = _steps(task)
    for number, batch in enumerate(_varied_batches(task, steps)):
        task.step(number, steps)
        for group, size in zip(optimiser.param_groups, sizes, strict=True):
            group["lr"] = size * rate_at((number + 0.5) / steps)
        optimiser.zero_grad()
        with torch.enable_grad():
            distance = distance_to_parents(network, task, batch)
        if not bool(distance.isfinite()):
            return False
        distance.backward()
        optimiser.step()
    for each in parameters:
        each.requires_grad_(False)
    return all(bool(each.isfinite().all()) for each in parameters)


def rate_at(done: float) -> float:
    """The rate, relative to the size of a tensor, where a share of the training is done: it rises, then falls to zero.

    Example:
        >>> [round(rate_at(done) / RATE, 3) for done in (0.0, 0.05, 0.1, 0.55, 1.0)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if done < RISING:
        return RATE * done / RISING
    return RATE * 0.5 * (1 + math.cos(math.pi * (done - RISING) / (1 - RISING)))


def distance_to_parents(network: nn.Module, task: Task, batch: Batch) -> Tensor:
    """How far a network is from its parents on a batch: squared distances, each relative to what is aimed at.

    That of the outputs, and `SITES` times the mean of those at sites which all networks apply equally often.
    """
    own_outputs, own = _run(network, batch, gradients=True)
    theirs = [_run(parent, batch) for parent in task.parents]
    mine = _joined(task.aimed(each, own=True) for each in _floats(own_outputs))
    aims = [_joined(task.aimed(each) for each in _floats(outputs)) for outputs, _ in theirs]
    total = _relative(mine, task.mean(aims))
    means = task.means_of([seen for _, seen in theirs])
    values: dict[str, list[Tensor]] = {}
    for seen in own:
        values.setdefault(seen.name, []).append(task.compared(seen.name, seen.pre_activations, own=True))
    pairs = [pair for name in means if len(values.get(name, ())) == len(means[name])
             for pair in zip(values[name], means[name], strict=True)]  # fmt: skip
    sites = [_relative(value, target) for value, target in pairs if value.shape == target.shape]
    return total + SITES * torch.stack(sites).mean() if sites else total


def _run(network: nn.Module, batch: Batch, *, gradients: bool = False) -> tuple[Any, list[Seen]]:
    """What a network gives on a batch, and its sites, by one run."""
    given: list[Any] = []

    def call(model: nn.Module) -> Any:
        """Run the model, and keep what it gives."""
        given.append(batch.run(model))
        return given[0]

    sites = observe(network, call, gradients=gradients)
    return given[0], sites


def _floats(outputs: Any) -> list[Tensor]:
    """The tensors of floating-point numbers in what a network gives."""
    return [tensor for tensor in tensors_in(outputs) if tensor.is_floating_point()]


def _joined(tensors: Iterable[Tensor]) -> Tensor:
    """All numbers of some tensors, one after another."""
    return torch.cat([tensor.flatten() for tensor in tensors])


def _relative(value: Tensor, target: Tensor) -> Tensor:
    """The squared distance of a value to its target, relative to the square of that."""
    size = target.square().sum()
    return (value - target).square().sum() / size.clamp_min(torch.finfo(size.dtype).tiny)


def _steps(task: Task) -> int:
    """How many steps the training has: more where batches are small."""
    sizes = [batch.samples for batch in task.batches if batch.fits]
    least, most = STEPS
    return min(max(round(INPUTS * len(sizes) / sum(sizes)), least), most)


def _varied_batches(task: Task, steps: int) -> Iterator[Batch]:
    """As many batches as there are steps, from pass after pass over the inputs; those that count less come less often.

    The same ones for the same seed.
    """
    random = torch.Generator().manual_seed(task.seed)
    done = 0
    while done < steps:
        for batch in task.batches:
            if batch.fits and done < steps and float(torch.rand((), generator=random)) < batch.weight:
                yield batch.varied(partial(varied, random=random))
                done += 1


def varied(inputs: Tensor, random: torch.Generator) -> Tensor:
    """Inputs of numbers [samples, ...], mixed, and images mirrored and shifted; others, such as tokens, as they are."""
    if not inputs.is_floating_point() or inputs.dim() < 2:
        return inputs
    if inputs.dim() == 4 and min(inputs.shape[2:]) >= SMALLEST:
        inputs = _shifted(_mirrored(inputs, random), random)
    return _mixed(inputs, random)


def _mirrored(images: Tensor, random: torch.Generator) -> Tensor:
    """Images, half of them mirrored, left to right."""
    which = torch.rand(len(images), 1, 1, 1, generator=random) < 0.5
    return torch.where(which.to(images.device), images.flip(3), images)


def _shifted(images: Tensor, random: torch.Generator) -> Tensor:
    """Images, all shifted by the same random number of pixels; beyond their edges they are mirrored."""
    most = [max(1, round(SHIFT * size)) for size in images.shape[2:]]
    down, right = (int(torch.randint(-each, each + 1, (), generator=random)) for each in most)
    wide = nn.functional.pad(images, (most[1], most[1], most[0], most[0]), mode="reflect")
    top, left = most[0] + down, most[1] + right
    return wide[:, :, top : top + images.shape[2], left : left + images.shape[3]].contiguous()


def _mixed(inputs: Tensor, random: torch.Generator) -> Tensor:
    """Inputs of which some are mixed with another one, by a random share."""
    count = len(inputs)
    other = torch.randperm(count, generator=random).to(inputs.device)
    shares = torch.rand(count, generator=random) * (torch.rand(count, generator=random) < MIXED)
    shares = shares.to(inputs).view(-1, *[1] * (inputs.dim() - 1))
    return torch.lerp(inputs, inputs[other], shares)
