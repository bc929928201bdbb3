"""Inputs made of noise, in place of data.

What a network never saw it cannot know, but its first layer tells which directions of its inputs mattered: noise is
drawn with the covariance `sum_i w_i W_i' W_i` of the first weights W_i. Along time and space, where the network reads
one step or place after another, it is smooth. Its size is that of the example inputs. Whole numbers (tokens) are drawn
anew from the vocabulary.

In: networks and the example inputs on which they run. Out: `Batches`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..activations.batches import Batches
from ..activations.sites import Seen, observe
from ..modules.running import Arguments, tensors_in

BATCHES = 5
SMOOTH = 2.0  # standard deviation of the kernel, in steps or pixels


@dataclass(frozen=True, eq=False)
class Source:
    """How one input tensor is drawn.

    Args:
        like: The example.
        root: A root [features, features] of the covariance of the features, if it is known.
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
        """A tensor like the example, with so many samples along an axis."""
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
        return (size * noise).to(self.like)

    def _tokens(self, shape: list[int], random: torch.Generator) -> Tensor:
        if self.vocabulary:
            return torch.randint(self.vocabulary, shape, generator=random).to(self.like)
        values = self.like.flatten()
        return values[torch.randint(len(values), shape, generator=random).to(values.device)]


def drawn_inputs(models: Sequence[nn.Module], example: Arguments, *, samples: int = 500, seed: int = 0) -> Batches:
    """Batches of noise on which the models run as on the example.

    Args:
        models: Networks of one architecture, in evaluation mode.
        example: Their inputs.
        samples: How many; as many batches of the example's size, if the networks cannot take more at once.
        seed: For the noise.
    """
    leaves, tree = pytree.tree_flatten((example.args, dict(example.kwargs)))
    axis = _sample_axis(models[0], leaves, tree)
    sources = {i: _source(models, example, leaf) for i, leaf in enumerate(leaves) if _is_drawn(leaf)}
    random = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(BATCHES):
        drawn = [_repeated(leaf, samples // BATCHES, axis) for leaf in leaves]
        for i, source in sources.items():
            count = samples // BATCHES if axis is not None else source.like.shape[0]
            drawn[i] = source.draw(count, axis or 0, random)
        batches.append(pytree.tree_unflatten(drawn, tree))
    return Batches(batches, len(batches), lambda model, batch: model(*batch[0], **batch[1]))


def _is_drawn(leaf: object) -> bool:
    """Tensors with samples; masks and numbers stay as they are in the example."""
    return isinstance(leaf, Tensor) and leaf.dim() > 0 and leaf.dtype is not torch.bool


def _repeated(leaf: object, samples: int, axis: int | None) -> object:
    """What stays as it is in the example, masks for instance, for so many samples."""
    if not isinstance(leaf, Tensor) or axis is None:
        return leaf
    return leaf.index_select(axis, torch.arange(samples, device=leaf.device) % leaf.shape[axis])


def _sample_axis(model: nn.Module, leaves: Sequence[object], tree: pytree.TreeSpec) -> int | None:
    """The axis of all tensors along which samples stand: doubling the example along it doubles the outputs."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]

    def outputs(times: int, axis: int) -> list[Tensor]:
        args, kwargs = pytree.tree_unflatten(
            [torch.cat([leaf] * times, axis) if isinstance(leaf, Tensor) else leaf for leaf in leaves], tree
        )
        return [leaf for leaf in tensors_in(model(*args, **kwargs)) if leaf.is_floating_point()]

    for axis in range(min((tensor.dim() for tensor in tensors), default=0))[:2]:
        try:
            with torch.no_grad():
                single, double = outputs(1, axis), outputs(2, axis)
        except Exception:  # whatever the model raises: it cannot be run so
            continue
        if all(
            any(
                torch.cat([a, a], along).shape == b.shape and torch.allclose(torch.cat([a, a], along), b, atol=1e-4)
                for along in range(a.dim())
            )
            for a, b in zip(single, double, strict=True)
        ):
            return axis
    return None


def _source(models: Sequence[nn.Module], example: Arguments, leaf: Tensor) -> Source:
    """How a tensor is drawn, from the first site that reads it."""
    if not leaf.is_floating_point():
        sizes = {each.num_embeddings for each in models[0].modules() if isinstance(each, nn.Embedding)}
        fitting = sorted(size for size in sizes if size > int(leaf.max()))
        return Source(leaf, vocabulary=fitting[0] if fitting and int(leaf.min()) >= 0 else 0)
    for seen in observe(models[0], lambda model: model(*example.args, **example.kwargs)):
        if seen.inputs.numel() == leaf.numel():
            found = _reading(seen, leaf, models)
            if found is not None:
                return found
    return Source(leaf)


def _reading(seen: Seen, leaf: Tensor, models: Sequence[nn.Module]) -> Source | None:
    """How a site reads a tensor: its features and the covariance that its weights betray; nothing if it does not."""
    name = seen.recurrence.names[0] if seen.recurrence else seen.name
    weights = [model.get_parameter(name).detach().float() for model in models]
    if seen.kernel and seen.inputs.shape == leaf.shape and torch.equal(seen.inputs, leaf):
        axis = leaf.dim() - len(seen.kernel) - 1
        if seen.how["groups"] == 1:
            return Source(
                leaf, _root([w.transpose(0, 1).flatten(1).T for w in weights]), axis, tuple(range(axis + 1, leaf.dim()))
            )
        return Source(leaf, smooth=tuple(range(axis + 1, leaf.dim())))
    if seen.recurrence:
        for time, view in ((0, leaf), (1, leaf.transpose(0, 1) if leaf.dim() > 2 else leaf)):
            if view.shape == seen.inputs.shape and torch.equal(view, seen.inputs):
                return Source(leaf, _root(weights), -1, (time,))
        return None
    if not seen.kernel and torch.equal(seen.inputs.flatten(), leaf.flatten()):
        within = leaf.shape[-1] == seen.inputs.shape[-1]
        flat = leaf.dim() > 1 and leaf[0].numel() == seen.inputs.shape[-1]
        return Source(leaf, _root(weights), -1 if within else None) if within or flat else None
    return None


def _root(weights: Sequence[Tensor]) -> Tensor:
    """A root of the covariance of inputs that weights [outputs, features] betray, with a mean variance of 1."""
    total = sum((weight.T @ weight for weight in weights), torch.zeros(()))
    values, vectors = torch.linalg.eigh(total.double() / total.double().diagonal().mean().clamp_min(1e-30))
    root: Tensor = (vectors * values.clamp_min(1e-4).sqrt()).float().cpu()  # noise is drawn there
    return root


def _smoothed(noise: Tensor, axis: int) -> Tensor:
    """Noise with a Gaussian kernel along an axis; every element keeps its variance."""
    places = torch.arange(noise.shape[axis], dtype=noise.dtype)
    kernel = torch.exp(-((places[:, None] - places) ** 2) / (2 * SMOOTH**2))
    kernel = kernel / kernel.square().sum(1, keepdim=True).sqrt()
    return (noise.movedim(axis, -1) @ kernel.T).movedim(-1, axis)
