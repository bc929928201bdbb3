"""Images among the inputs of networks: where they stand, what an example of them looks like, and what draws them.

In: a network and its example inputs. Out: the tensor that a two-dimensional convolution reads, or a linear layer patch
by patch, with its look: colours, background, mean and deviation of each channel. Not here: the generators (`leaves`,
`strokes`), and who chooses one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..activations import IMAGES, Seen, observe
from ..modules import Arguments

Size = tuple[int, int, int]  # of an image: channels, height, width
Generator = Callable[[int, Tensor, torch.Generator], Tensor]  # how many, an example, random numbers -> images

SMALLEST = 8  # pixels of the shorter side: on smaller images no shapes are seen
SPARSE = 0.5  # share of the pixels that are background, from which on an image counts as sparse
NEAR = 0.02  # what differs from the background by less than this counts as background, in ranges of the example
BATCH = IMAGES  # in a batch, at most
PIXELS = 200_000  # in a batch, at most: what networks make of it has to fit into memory
TINY = 1e-6  # keeps divisions by zero away; a deviation below this, relatively, is none
# How much more images differ in their colours than quarters of one image do. Of photographs; with less, one or two of
# them still stain what is drawn, and with more, scenes that do have a colour lose it.
CHANCE = 4.0
ALIKE = 0.5  # correlation of neighbouring pixels, from which on images show something; noise has none


@dataclass(frozen=True, eq=False)
class Look:
    """What example images [count, channels, height, width] look like.

    Args:
        mean: The mean of each channel [channels].
        deviation: The standard deviation of each channel [channels].
        background: The middle value of all pixels: in sparse images it is that of the background.
        ink: The value that is farthest from the background.
        share: How many of the pixels are background, from 0 to 1.
    """

    mean: Tensor
    deviation: Tensor
    background: float
    ink: float
    share: float

    @staticmethod
    def of(images: Tensor) -> Look:
        """The look of images; of those with one value only, mean 0 and deviation 1 are assumed."""
        values = images.detach().float().cpu().movedim(1, 0).flatten(1)
        mean, deviation = values.mean(1), values.std(1, correction=0)
        if float(deviation.max()) <= TINY * max(1.0, float(values.abs().max())):
            return Look(torch.zeros_like(mean), torch.ones_like(mean), 0.0, 1.0, 0.0)
        background, least, most = float(values.median()), float(values.min()), float(values.max())
        ink = most if most - background >= background - least else least
        share = float(((values - background).abs() <= NEAR * (most - least)).float().mean())
        return Look(mean, deviation, background, ink, share)

    @staticmethod
    def of_many(images: Tensor) -> Look:
        """The look that many such images would have, as far as a few of them tell.

        One photograph is red and another one blue; thousands are neither. So channels differ from each other only by
        that part of what is seen which is not chance: `1 - c v / (n |d|^2)`, with d how the channels' means differ from
        their common one in n images, v how much the quarters of the images differ in that, and c how much more images
        do (a mean is shrunk in this way by James and Stein 1961). A channel of one value keeps it.
        """
        look = Look.of(images)
        lively = look.deviation > TINY * look.deviation.max()
        if int(lively.sum()) < 2 or min(images.shape[2:]) < 2:
            return look
        quarters = nn.functional.adaptive_avg_pool2d(images.detach().float().cpu()[:, lively], 2)
        apart = (quarters - quarters.mean(1, keepdim=True)).movedim(1, 0).flatten(1)
        size, chance = apart.mean(1).square().sum(), CHANCE * apart.var(1).sum() / len(images)
        told = (1 - chance / size.clamp_min(torch.finfo(size.dtype).tiny)).clamp_min(0.0)
        mean, deviation = look.mean.clone(), look.deviation.clone()
        common = mean[lively].mean(), deviation[lively].log().mean()
        mean[lively] = common[0].lerp(mean[lively], told)
        deviation[lively] = common[1].lerp(deviation[lively].log(), told).exp()
        return replace(look, mean=mean, deviation=deviation)

    @property
    def sparse(self) -> bool:
        """Whether images are grey and mostly background, as scans of writing and drawings are."""
        return len(self.mean) == 1 and self.share >= SPARSE

    def given_to(self, images: Tensor) -> Tensor:
        """Images, each channel scaled to the mean and the deviation of this look."""
        own = images.movedim(1, 0).flatten(1)
        factor = self.deviation / own.std(1, correction=0).clamp_min(TINY)
        shift = self.mean - factor * own.mean(1)
        return images * factor.view(-1, 1, 1) + shift.view(-1, 1, 1)


def has_spread(images: Tensor) -> bool:
    """Whether images differ anywhere from one value: an example of zeros says nothing of the mean and the deviation."""
    return bool(images.max() > images.min())


def shows_something(images: Tensor) -> bool:
    """Whether neighbouring pixels of images are alike, as in photographs and scans; in noise they are not.

    Example:
        >>> shows_something(torch.randn(2, 3, 32, 32)), shows_something(torch.eye(32).cumsum(0).view(1, 1, 32, 32))
        (False, True)
    """
    values = images.detach().double()
    values = values - values.mean((0, 2, 3), keepdim=True)
    down = (values[..., 1:, :] * values[..., :-1, :]).mean()
    right = (values[..., 1:] * values[..., :-1]).mean()
    return bool(down + right > 2 * ALIKE * values.square().mean())


def size_of(images: Tensor) -> Size:
    """Channels, height and width of images [count, channels, height, width]."""
    channels, height, width = images.shape[1:]
    return channels, height, width


def lying_like(like: Tensor, values: Tensor) -> Tensor:
    """Numbers in the type, on the device and in the order in memory of an example.

    A network may view its inputs in a way that another order does not allow.
    """
    # A copy: what counts as contiguous may still have strides by which convolutions take images for channels-last.
    return values.to(like).clone(memory_format=_memory_format(like))


def _memory_format(like: Tensor) -> torch.memory_format:
    """How the numbers of an example lie in memory."""
    if like.is_contiguous():
        return torch.contiguous_format
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    found = formats.get(like.dim())
    return found if found and like.is_contiguous(memory_format=found) else torch.contiguous_format


@dataclass(frozen=True, eq=False)
class Images:
    """Images among the inputs of networks, and what draws them.

    Args:
        place: Where they stand among all inputs, in the order in which those are flattened.
        like: The example [count, channels, height, width].
        generator: Draws images like the example.
    """

    place: int
    like: Tensor
    generator: Generator

    def draw(self, samples: int, axis: int, random: torch.Generator) -> Tensor:
        """A number of images; the axis of samples is the first, where convolutions have it."""
        assert axis == 0, "images that a convolution reads have samples along their first axis"
        return lying_like(self.like, self.generator(samples, self.like, random))

    def batches(self, samples: int, *, least: int) -> int:
        """Into how many batches images are cut: few enough in each for memory, a whole multiple of the least."""
        _, height, width = size_of(self.like)
        each = max(1, min(BATCH, PIXELS // (height * width)))
        return least * max(1, -(-samples // (each * least)))


def image_place(model: nn.Module, example: Arguments) -> int | None:
    """Where images stand among the inputs of a network; nowhere, maybe.

    They are what a two-dimensional convolution reads, or the first linear layer patch by patch. Images may be
    normalised before they are read: the shape counts, not the values.
    """
    values = pytree.tree_leaves((example.args, dict(example.kwargs)))
    seen = observe(model, lambda each: each(*example.args, **example.kwargs))
    for place, value in enumerate(values):
        if isinstance(value, Tensor) and value.is_floating_point() and value.dim() == 4 and _reads(seen, value):
            return place if min(value.shape[2:]) >= SMALLEST else None
    return None


def _reads(sites: Sequence[Seen], images: Tensor) -> bool:
    """Whether a network reads images: by a convolution, or by its first layer in patches, and not as a whole."""
    first = sites[0] if sites else None
    if any(len(seen.kernel) == 2 and seen.inputs.shape == images.shape for seen in sites):
        return True
    patches = first is not None and not first.kernel and first.recurrence is None and first.inputs.dim() > 2
    return first is not None and patches and first.inputs.numel() == images.numel()
