"""Leaves: images of overlapping random shapes, which look to a network much as photographs do.

The *dead leaves* model of natural images (Matheron 1968; Lee, Mumford and Huang 2001, doi:10.1023/A:1011109015675):
shapes fall on each other, each hides what lies below it, and their radii r have the density r^-3, so that images look
alike at every scale. They have the edges, corners, smooth surfaces and statistics of photographs, without any data
(Baradad et al. 2021, arXiv:2106.05963, trained networks on such images). Here shapes are ellipses, rectangles and
triangles in the colours of a small palette for each image, shaded, with a texture of spectrum 1/f.

In: how many, an example image, random numbers. Out: images whose channels have mean and deviation of the example's, as
far as it tells (`Look.of_many`), in its type and on its device. Not here: for which networks they are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .images import TINY, Look, Size, lying_like, size_of

SHAPES = 15  # that fall on a square image: the first ones are hidden by then
MOST_SHAPES = 100  # on an image that is longer than wide: beyond that, time counts more
RADII = (0.35, 1.5)  # the smallest and the largest radius of a shape, in halves of the shorter side of the image
SLIMMEST = 0.35  # the smallest ratio of the axes of a shape; the largest is 1
OUTSIDE = 1.2  # centres lie up to here, in halves of a side: shapes enter an image from outside
COLOURS = 6  # in the palette of an image
PALETTE = (0.25, 0.1)  # deviation of the palette's brightness, and of its first opponent colour
HUES = (1.0, 0.35)  # the same of the texture, relatively
OWN = 0.08  # deviation of a shape's colour from the palette's
SHADED, SHADE = 0.6, 0.25  # share of the shapes that are shaded, and deviation of the shade's slope
TEXTURE = 1.2  # the largest weight of a texture; weights are squares of uniform numbers, so most are small
TEXTURES = 64  # at most, of which each shape takes one: they take as long as all shapes
TEXTURES_EACH = 3  # at most, for each image
SLOPES = (1.0, 1.6)  # the exponents of the spectra of textures: amplitudes fall with the frequency to this power
CONTRAST = (0.12, 0.28)  # the smallest and the largest deviation of an image, black being 0 and white 1
BRIGHTNESS = (0.5, 0.12)  # mean and deviation of the brightness of an image


def dead_leaves(count: int, example: Tensor, random: torch.Generator) -> Tensor:
    """Images [count, channels, height, width] of fallen shapes, whose channels look as those of many examples would.

    Args:
        count: How many.
        example: Images [any, channels, height, width]; one is enough.
        random: Where random numbers come from.

    Example:
        >>> dead_leaves(5, torch.zeros(1, 3, 32, 32), torch.Generator()).shape
        torch.Size([5, 3, 32, 32])
    """
    return lying_like(example, Look.of_many(example).given_to(_fallen(count, size_of(example), random)))


def _fallen(count: int, size: Size, random: torch.Generator) -> Tensor:
    """Images of fallen shapes, with numbers from 0 to 1."""
    channels, height, width = size
    palette = 0.5 + _colours((count, COLOURS), channels, random)
    textures = _textures(min(TEXTURES, TEXTURES_EACH * count), size, random)
    images = palette[:, 0, :, None, None].expand(count, *size).contiguous()
    for number in range(min(MOST_SHAPES, SHAPES * max(height, width) // min(height, width))):
        shape = _Shape.fallen(count, (height, width), random)
        images += shape.covered(number)[:, None] * (_surface(shape, palette, textures, random) - images)
    return _exposed(images, random)


def radii(count: int, random: torch.Generator) -> Tensor:
    """Radii with the density r^-3 between the smallest and the largest: by the inverse of their distribution."""
    least, most = RADII
    ratio = (least / most) ** 2
    return least / (torch.rand(count, generator=random) * (1 - ratio) + ratio).sqrt()


@dataclass(frozen=True, eq=False)
class _Shape:
    """One shape on each image, in coordinates in which it has radius 1.

    Args:
        along: How far each place is from the centre along the first axis of the shape [count, height, width].
        across: The same along the second axis.
        radius: In halves of the shorter side of the image [count, 1, 1].
        pixels: How many pixels half of the shorter side has.
    """

    along: Tensor
    across: Tensor
    radius: Tensor
    pixels: float

    @staticmethod
    def fallen(count: int, size: tuple[int, int], random: torch.Generator) -> _Shape:
        """A shape of random place, radius, direction and slimness on each image."""

        def uniform(least: float, most: float) -> Tensor:
            return least + (most - least) * torch.rand(count, 1, 1, generator=random)

        half = min(size) / 2
        (high, wide) = (length / (2 * half) for length in size)  # 1 for the shorter side
        radius = radii(count, random).view(count, 1, 1)
        y = torch.linspace(-high, high, size[0]).view(1, -1, 1) - uniform(-OUTSIDE * high, OUTSIDE * high)
        x = torch.linspace(-wide, wide, size[1]).view(1, 1, -1) - uniform(-OUTSIDE * wide, OUTSIDE * wide)
        angle, slim = uniform(0, 2 * math.pi), uniform(SLIMMEST, 1)
        along = (x * angle.cos() + y * angle.sin()) / radius
        across = (y * angle.cos() - x * angle.sin()) / (radius * slim)
        return _Shape(along, across, radius, half)

    def covered(self, number: int) -> Tensor:
        """How much of each pixel the shape hides: 1 inside, 0 outside, between on an edge of about one pixel.

        Kinds of shapes take turns, so that every image gets all of them.
        """
        reach = torch.empty_like(self.along)
        for turn, kind in enumerate(KINDS):
            mine = slice((turn + number) % len(KINDS), None, len(KINDS))
            reach[mine] = kind(self.along[mine], self.across[mine])
        return ((1 - reach) * self.radius * self.pixels + 0.5).clamp(0, 1)


# How far a place is from the centre of a shape, 1 being its edge.
KINDS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    torch.hypot,  # ellipses
    lambda along, across: torch.maximum(along.abs(), across.abs()),  # rectangles
    lambda along, across: torch.maximum(-across / 0.6, across + 1.7 * along.abs()),  # triangles
)


def _surface(shape: _Shape, palette: Tensor, textures: Tensor, random: torch.Generator) -> Tensor:
    """What a shape looks like all over each image: a colour of the palette, a shade, a texture."""
    count, _, channels = palette.shape

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=random)

    def uniform() -> Tensor:
        return torch.rand(count, 1, 1, 1, generator=random)

    chosen = torch.randint(COLOURS, (count,), generator=random)
    colour = palette[torch.arange(count), chosen] + OWN * normal(count, channels)
    slope = normal(count, 1, 1) * shape.along + normal(count, 1, 1) * shape.across
    shade = SHADE * (slope * shape.radius)[:, None] * (uniform() < SHADED)
    texture = textures[torch.randint(len(textures), (count,), generator=random)]
    return colour[:, :, None, None] + shade + TEXTURE * uniform().square() * texture


def _colours(shape: tuple[int, ...], channels: int, random: torch.Generator) -> Tensor:
    """Random colours [*shape, channels]: bright or dark above all, less so of a hue."""
    return torch.randn(*shape, channels, generator=random) @ _opponents(channels, PALETTE)


def _opponents(channels: int, spread: tuple[float, float]) -> Tensor:
    """Directions of colours [channels, channels], as long as colours deviate along them.

    The first is brightness; the others are those of a cosine transform, for three channels red against blue and green
    against both, each less than the one before: so are colours of photographs.
    """
    places, number = torch.arange(channels), torch.arange(channels)[:, None]
    waves = torch.cos(math.pi * (places + 0.5) * number / channels)
    sizes = torch.tensor([spread[0], *(spread[1] / k for k in range(1, channels))])
    lengths: Tensor = waves.square().sum(1, keepdim=True).sqrt()
    return sizes[:, None] * waves / lengths


def _textures(count: int, size: Size, random: torch.Generator) -> Tensor:
    """Textures [count, channels, height, width] whose amplitudes fall with the frequency, around 0.

    Made on a field of twice the size, since what the transform gives goes round in circles.
    """
    channels, height, width = size
    y, x = torch.fft.fftfreq(2 * height)[:, None], torch.fft.rfftfreq(2 * width)
    frequency = torch.hypot(y, x)
    frequency[0, 0] = math.inf  # no constant
    slope = SLOPES[0] + (SLOPES[1] - SLOPES[0]) * torch.rand(count, 1, 1, 1, generator=random)
    field = torch.fft.rfft2(torch.randn(count, channels, 2 * height, 2 * width, generator=random))
    smooth = torch.fft.irfft2(field * frequency**-slope, s=(2 * height, 2 * width))[..., :height, :width]
    smooth = smooth / smooth.std((2, 3), keepdim=True, correction=0).clamp_min(TINY)
    return _exposed(torch.einsum("nkhw,kc->nchw", smooth, _opponents(channels, HUES)), random) - BRIGHTNESS[0]


def _exposed(images: Tensor, random: torch.Generator) -> Tensor:
    """Images of random brightness and contrast, cut at black (0) and white (1)."""
    dims = (1, 2, 3)
    deviation = images.std(dims, keepdim=True, correction=0).clamp_min(TINY)
    contrast = CONTRAST[0] + (CONTRAST[1] - CONTRAST[0]) * torch.rand(len(images), 1, 1, 1, generator=random)
    brightness = BRIGHTNESS[0] + BRIGHTNESS[1] * torch.randn(len(images), 1, 1, 1, generator=random)
    return (brightness + contrast * (images - images.mean(dims, keepdim=True)) / deviation).clamp(0, 1)
