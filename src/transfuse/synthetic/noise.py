"""Drawn inputs: random numbers that are like example inputs, as far as networks tell what inputs are like.

The first layer of a network tells which directions of its inputs mattered: noise is drawn with the covariance
`sum_i W_i' W_i` of the first weights W_i of all networks. Along time and space, where a network reads one step or place
after another, it is smooth. Its size is that of the example inputs. Whole numbers (tokens) are drawn anew from the
vocabulary.

In: networks and the example inputs on which they run. Out: `Batches`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..activations import Batches, Seen, observe
from ..modules import Arguments, tensors_in

BATCHES = 5  # into which samples are cut: the least of which one judges what was learnt from the others
SMOOTH = 2.0  # standard deviation of the Gaussian kernel along time and space, in steps or pixels
LEAST = 1e-4  # variance of a direction in which first weights are blind, in mean variances: networks need not see it

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Drawing:
    """How one input tensor is drawn.

    Args:
        like: The example.
        root: A matrix [features, features] whose square is the covariance of the features, if that is known.
        features: The axis on which the features stand; `None` if they are all axes but the first.
        smooth: Axes along which neighbours are alike.
        vocabulary: Whole numbers below this one, for tokens.
    """

    like: Tensor
    root: Tensor | None = None
    features: int | None = -1
    smooth: tuple[int, ...] = ()
    vocabulary: int = 0

    def draw(self, samples: int, axis: int, random: torch.Generator) -> Tensor:
        """A tensor like the example, with a number of samples along an axis."""
        shape = list(self.like.shape)
        shape[axis] = samples
        if not self.like.is_floating_point():
            return self._tokens(shape, random)
        noise = torch.randn(shape, generator=random, dtype=torch.float32)
        for each in self.smooth:
            noise = _smoothed(noise, each)
        if self.root is not None:
            rows = noise.flatten(1) if self.features is None else noise.movedim(self.features, -1)
            mixed = rows @ self.root.T
            noise = mixed.reshape(shape) if self.features is None else mixed.movedim(-1, self.features)
        size = float(self.like.detach().float().square().mean().sqrt()) or 1.0
        # A copy: what counts as contiguous may still have strides by which convolutions take images for channels-last.
        return (size * noise).to(self.like).clone(memory_format=_memory_format(self.like))

    def _tokens(self, shape: list[int], random: torch.Generator) -> Tensor:
        if self.vocabulary:
            return torch.randint(self.vocabulary, shape, generator=random).to(self.like)
        values = self.like.flatten()
        return values[torch.randint(len(values), shape, generator=random).to(values.device)]


def _memory_format(like: Tensor) -> torch.memory_format:
    """How the numbers of an example lie in memory: a network may view its inputs in a way that others do not allow."""
    if like.is_contiguous():
        return torch.contiguous_format
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    found = formats.get(like.dim())
    return found if found and like.is_contiguous(memory_format=found) else torch.contiguous_format


def drawn_inputs(models: Sequence[nn.Module], example: Arguments, *, samples: int = 500, seed: int = 0) -> Batches:
    """Batches of random inputs on which networks run as on the example.

    Args:
        models: Networks of one architecture, in evaluation mode.
        example: Inputs on which the networks run.
        samples: How many in all batches; if the networks take no other number of samples than the example has, every
            batch has the size of the example.
        seed: Seed of the random numbers.
    """
    leaves, tree = pytree.tree_flatten((example.args, dict(example.kwargs)))
    axis = _sample_axis(models[0], leaves, tree)
    drawings = {i: _drawing(models, example, leaf) for i, leaf in enumerate(leaves) if _is_drawn(leaf)}
    random = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(BATCHES):
        drawn = [_repeated(leaf, samples // BATCHES, axis) for leaf in leaves]
        for i, drawing in drawings.items():
            count = samples // BATCHES if axis is not None else drawing.like.shape[0]
            drawn[i] = drawing.draw(count, axis or 0, random)
        batches.append(pytree.tree_unflatten(drawn, tree))
    return Batches(batches, len(batches), lambda model, batch: model(*batch[0], **batch[1]))


def _is_drawn(leaf: object) -> bool:
    """Whether an input is drawn: a tensor with samples that is no mask. Others stay as they are in the example."""
    return isinstance(leaf, Tensor) and leaf.dim() > 0 and leaf.dtype is not torch.bool


def _repeated(leaf: object, samples: int, axis: int | None) -> object:
    """What is not drawn, a mask for instance, repeated for a number of samples."""
    if not isinstance(leaf, Tensor) or axis is None:
        return leaf
    return leaf.index_select(axis, torch.arange(samples, device=leaf.device) % leaf.shape[axis])


def _sample_axis(model: nn.Module, leaves: Sequence[object], tree: pytree.TreeSpec) -> int | None:
    """The axis of all tensors along which samples stand: doubling the example along it doubles the outputs.

    There is none if the network does not run on a doubled example, or gives something else then.
    """
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]

    def outputs(times: int, axis: int) -> list[Tensor]:
        """What the network gives for the example, repeated along an axis."""
        args, kwargs = pytree.tree_unflatten(
            [torch.cat([leaf] * times, axis) if isinstance(leaf, Tensor) else leaf for leaf in leaves], tree
        )
        return [leaf for leaf in tensors_in(model(*args, **kwargs)) if leaf.is_floating_point()]

    for axis in range(min((tensor.dim() for tensor in tensors), default=0))[:2]:
        try:
            with torch.no_grad():
                single, double = outputs(1, axis), outputs(2, axis)
        except Exception as error:  # the network's own code runs here, and may raise anything: not its axis, then
            _log.debug("%s takes no example doubled along axis %d: %r", type(model).__name__, axis, error)
            continue
        if len(single) == len(double) and all(map(_is_doubled, single, double)):
            return axis
    return None


def _is_doubled(single: Tensor, double: Tensor) -> bool:
    """Whether an output is another one twice, along some axis."""
    twice = [torch.cat([single, single], axis) for axis in range(single.dim())]
    return any(each.shape == double.shape and torch.allclose(each, double, atol=1e-4) for each in twice)


def _drawing(models: Sequence[nn.Module], example: Arguments, leaf: Tensor) -> Drawing:
    """How a tensor is drawn, from the first site that reads it."""
    if not leaf.is_floating_point():
        return Drawing(leaf, vocabulary=_vocabulary(models[0], example, leaf))
    for seen in observe(models[0], lambda model: model(*example.args, **example.kwargs)):
        if seen.inputs.numel() == leaf.numel():
            found = _reading(seen, leaf, models)
            if found is not None:
                return found
    return Drawing(leaf)


def _vocabulary(model: nn.Module, example: Arguments, leaf: Tensor) -> int:
    """How many tokens there are, if whole numbers are tokens: an embedding reads all of them, in any order and calls.

    Nothing for lengths, masks and the like, which a network takes only as they are in the example.
    """
    read: dict[nn.Embedding, list[Tensor]] = {
        each: [] for each in model.modules() if isinstance(each, nn.Embedding) and each.num_embeddings > int(leaf.max())
    }
    hooks = [each.register_forward_pre_hook(lambda layer, args: read[layer].extend(args[:1])) for each in read]
    try:
        with torch.no_grad():
            model(*example.args, **example.kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    tokens = leaf.flatten().sort().values
    return min((layer.num_embeddings for layer, calls in read.items() if any(
        torch.equal(_values(parts), tokens) for parts in (calls, *([each] for each in calls))
    )), default=0)  # fmt: skip


def _values(tokens: Sequence[Tensor]) -> Tensor:
    """All tokens in order."""
    return torch.cat([each.flatten() for each in tokens]).sort().values if tokens else torch.zeros(0)


def _reading(seen: Seen, leaf: Tensor, models: Sequence[nn.Module]) -> Drawing | None:
    """How an input is drawn that a site reads, by the covariance of the site's weights; nothing if it reads another."""
    name = seen.recurrence.names[0] if seen.recurrence else seen.name
    weights = [model.get_parameter(name).detach().float() for model in models]
    if seen.kernel and seen.inputs.shape == leaf.shape and torch.equal(seen.inputs, leaf):
        axis = leaf.dim() - len(seen.kernel) - 1
        if seen.how["groups"] == 1:
            return Drawing(
                leaf, _root([w.transpose(0, 1).flatten(1).T for w in weights]), axis, tuple(range(axis + 1, leaf.dim()))
            )
        return Drawing(leaf, smooth=tuple(range(axis + 1, leaf.dim())))
    if seen.recurrence:
        for time, view in ((0, leaf), (1, leaf.transpose(0, 1) if leaf.dim() > 2 else leaf)):
            if view.shape == seen.inputs.shape and torch.equal(view, seen.inputs):
                return Drawing(leaf, _root(weights), -1, (time,))
        return None
    if not seen.kernel and torch.equal(seen.inputs.flatten(), leaf.flatten()):
        within = leaf.shape[-1] == seen.inputs.shape[-1]
        flat = leaf.dim() > 1 and leaf[0].numel() == seen.inputs.shape[-1]
        return Drawing(leaf, _root(weights), -1 if within else None) if within or flat else None
    return None


def _root(weights: Sequence[Tensor]) -> Tensor:
    """A root of the covariance `sum_i W_i' W_i` of weights [outputs, features], scaled to a mean variance of 1."""
    total = sum((weight.T @ weight for weight in weights), torch.zeros(()))
    values, vectors = torch.linalg.eigh(total.double() / total.double().diagonal().mean().clamp_min(1e-30))
    root: Tensor = (vectors * values.clamp_min(LEAST).sqrt()).float().cpu()  # where noise is drawn
    return root


def _smoothed(noise: Tensor, axis: int) -> Tensor:
    """Noise with a Gaussian kernel along an axis; every element keeps its variance."""
    places = torch.arange(noise.shape[axis], dtype=noise.dtype)
    kernel = torch.exp(-((places[:, None] - places) ** 2) / (2 * SMOOTH**2))
    kernel = kernel / kernel.square().sum(1, keepdim=True).sqrt()
    return (noise.movedim(axis, -1) @ kernel.T).movedim(-1, axis)
