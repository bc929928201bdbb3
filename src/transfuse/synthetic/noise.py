"""Drawn inputs: random numbers that are like example inputs, as far as networks tell what inputs are like.

The first layer of a network tells which directions of its inputs mattered: noise is drawn with the covariance
`sum_i W_i' W_i` of the first weights W_i of all networks. Along time and space, where a network reads one step or place
after another, it is smooth. Its size is that of the example inputs. Whole numbers (tokens) are drawn anew from the
vocabulary.

In: networks and the example inputs on which they run. Out: `Batches`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..activations import Batches, Seen, observe
from ..modules import Arguments, tensors_in
from .images import Images, lying_like

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
        columns: The same for each position of the last axis, where each has an embedding of its own, as the categories
            of a table have.
    """

    like: Tensor
    root: Tensor | None = None
    features: int | None = -1
    smooth: tuple[int, ...] = ()
    vocabulary: int = 0
    columns: tuple[int, ...] = ()

    def draw(self, samples: int, axis: int, random: torch.Generator) -> Tensor:
        """A tensor like the example, with a number of samples along an axis."""
        shape = list(self.like.shape)
        shape[axis] = samples
        if not self.like.is_floating_point():
            return self._tokens(shape, axis, random)
        noise = torch.randn(shape, generator=random, dtype=torch.float32)
        for each in self.smooth:
            noise = _smoothed(noise, each)
        if self.root is not None:
            rows = noise.flatten(1) if self.features is None else noise.movedim(self.features, -1)
            mixed = rows @ self.root.T
            noise = mixed.reshape(shape) if self.features is None else mixed.movedim(-1, self.features)
        size = float(self.like.detach().float().square().mean().sqrt()) or 1.0
        return lying_like(self.like, size * noise)

    def _tokens(self, shape: list[int], axis: int, random: torch.Generator) -> Tensor:
        """Tokens of a vocabulary; else whole samples of the example, in its order, since lengths may be sorted."""
        if self.vocabulary:
            return torch.randint(self.vocabulary, shape, generator=random).to(self.like)
        if self.columns:
            each = [torch.randint(size, shape[:-1], generator=random) for size in self.columns]
            return torch.stack(each, -1).to(self.like)
        rows = torch.arange(shape[axis]) * self.like.shape[axis] // shape[axis]
        return self.like.index_select(axis, rows.to(self.like.device))


def drawn_inputs(
    models: Sequence[nn.Module], example: Arguments, *, samples: int = 500, seed: int = 0, images: Images | None = None
) -> Batches:
    """Batches of random inputs on which networks run as on the example.

    Args:
        models: Networks of one architecture, in evaluation mode.
        example: Inputs on which the networks run.
        samples: How many in all batches; if the networks take no other number of samples than the example has, every
            batch has the size of the example.
        seed: Seed of the random numbers.
        images: How images are drawn, and in which place of the inputs; default: all inputs are noise.
    """
    values, tree = pytree.tree_flatten((example.args, dict(example.kwargs)))
    axis = _sample_axis(models[0], values, tree)
    drawings = _drawings(models, example, values, images)
    random = torch.Generator().manual_seed(seed)
    count = BATCHES if images is None else images.batches(samples, least=BATCHES)
    batches = []
    for _ in range(count):
        drawn = [_repeated(value, samples // count, axis) for value in values]
        for i, drawing in drawings.items():
            size = samples // count if axis is not None else drawing.like.shape[0]
            drawn[i] = drawing.draw(size, axis or 0, random)
        batches.append(pytree.tree_unflatten(drawn, tree))
    return Batches(batches, len(batches), lambda model, batch: model(*batch[0], **batch[1]))


def _drawings(
    models: Sequence[nn.Module], example: Arguments, values: Sequence[object], images: Images | None
) -> Mapping[int, Drawing | Images]:
    """How each input is drawn, by its place among all of them."""
    noise = {
        place: _drawing(models, example, value)
        for place, value in enumerate(values)
        if isinstance(value, Tensor) and _is_drawn(value) and (images is None or place != images.place)
    }
    return noise if images is None else {**noise, images.place: images}


def _is_drawn(value: object) -> bool:
    """Whether an input is drawn: a tensor with samples that is no mask. Others stay as they are in the example."""
    return isinstance(value, Tensor) and value.dim() > 0 and value.dtype is not torch.bool


def _repeated(value: object, samples: int, axis: int | None) -> object:
    """What is not drawn, a mask for instance, repeated for a number of samples."""
    if not isinstance(value, Tensor) or axis is None:
        return value
    return value.index_select(axis, torch.arange(samples, device=value.device) % value.shape[axis])


def _sample_axis(model: nn.Module, values: Sequence[object], tree: pytree.TreeSpec) -> int | None:
    """The axis of all tensors along which samples stand: doubling the example along it doubles the outputs.

    There is none if the network does not run on a doubled example, or gives something else then.
    """
    tensors = [value for value in values if isinstance(value, Tensor)]

    def outputs(times: int, axis: int) -> list[Tensor]:
        """What the network gives for the example, repeated along an axis."""
        args, kwargs = pytree.tree_unflatten(
            [torch.cat([value] * times, axis) if isinstance(value, Tensor) else value for value in values], tree
        )
        return [value for value in tensors_in(model(*args, **kwargs)) if value.is_floating_point()]

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


def _drawing(models: Sequence[nn.Module], example: Arguments, value: Tensor) -> Drawing:
    """How a tensor is drawn, from the first site that reads it."""
    if not value.is_floating_point():
        size = vocabulary_of(models[0], example, value)
        return Drawing(value, vocabulary=size, columns=() if size else _columns_of(models[0], example, value))
    for seen in observe(models[0], lambda model: model(*example.args, **example.kwargs)):
        if seen.inputs.numel() == value.numel():
            found = _reading(seen, value, models)
            if found is not None:
                return found
    return Drawing(value)


def vocabulary_of(model: nn.Module, example: Arguments, value: Tensor) -> int:
    """How many tokens there are, if whole numbers are tokens: an embedding reads all of them, in any order and calls.

    Nothing for lengths, masks and the like, which a network takes only as they are in the example.
    """
    read: dict[nn.Embedding, list[Tensor]] = {
        each: []
        for each in model.modules()
        if isinstance(each, nn.Embedding) and each.num_embeddings > int(value.max())
    }
    hooks = [each.register_forward_pre_hook(lambda layer, args: read[layer].extend(args[:1])) for each in read]
    try:
        with torch.no_grad():
            model(*example.args, **example.kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    tokens = value.flatten().sort().values
    return min((layer.num_embeddings for layer, calls in read.items() if any(
        torch.equal(_values(parts), tokens) for parts in (calls, *([each] for each in calls))
    )), default=0)  # fmt: skip


def _columns_of(model: nn.Module, example: Arguments, value: Tensor) -> tuple[int, ...]:
    """How many tokens there are in each position of the last axis; nothing if one of them is read by no embedding."""
    if value.dim() < 2:
        return ()
    sizes = tuple(vocabulary_of(model, example, column) for column in value.unbind(-1))
    return sizes if all(sizes) else ()


def _values(tokens: Sequence[Tensor]) -> Tensor:
    """All tokens in order."""
    return torch.cat([each.flatten() for each in tokens]).sort().values if tokens else torch.zeros(0)


def _reading(seen: Seen, value: Tensor, models: Sequence[nn.Module]) -> Drawing | None:
    """How an input is drawn that a site reads, by the covariance of the site's weights; nothing if it reads another."""
    name = seen.recurrence.names[0] if seen.recurrence else seen.name
    weights = _weights_of(models, name)
    if seen.kernel and seen.inputs.shape == value.shape and torch.equal(seen.inputs, value):
        axis = value.dim() - len(seen.kernel) - 1
        if seen.how["groups"] == 1:
            return Drawing(
                value,
                _root([w.transpose(0, 1).flatten(1).T for w in weights]),
                axis,
                tuple(range(axis + 1, value.dim())),
            )
        return Drawing(value, smooth=tuple(range(axis + 1, value.dim())))
    if seen.recurrence:
        for time, view in ((0, value), (1, value.transpose(0, 1) if value.dim() > 2 else value)):
            if view.shape == seen.inputs.shape and torch.equal(view, seen.inputs):
                return Drawing(value, _root(weights), -1, (time,))
        return None
    if not seen.kernel and torch.equal(seen.inputs.flatten(), value.flatten()):
        within = value.shape[-1] == seen.inputs.shape[-1]
        flat = value.dim() > 1 and value[0].numel() == seen.inputs.shape[-1]
        return Drawing(value, _root(weights), -1 if within else None) if within or flat else None
    return None


def _weights_of(models: Sequence[nn.Module], name: str) -> list[Tensor]:
    """The weights of some name that read as many features as that of the first model.

    Models of other depths may have none of this name, or another layer there.
    """
    known = [dict(model.named_parameters(remove_duplicate=False)).get(name) for model in models]
    first = models[0].get_parameter(name)
    return [each.detach().float() for each in known if each is not None and each.shape[1:] == first.shape[1:]]


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
