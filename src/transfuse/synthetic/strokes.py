"""Strokes: images of a few curved lines on a background, for networks that read writing or drawings.

In: how many, an example image, random numbers. Out: images in the background and the ink of the example, in its type
and on its device. Not here: for which networks they are drawn.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .images import Look, Size, lying_like, size_of

STROKES = 3  # in an image, at most: each begins where the one before it ended
DRAWN = 0.7  # share of the further strokes that are drawn
POINTS = 24  # of a curve: near enough to each other that a line is seen
MIDDLE = (0.2, 0.8)  # where lines begin and end, in sides of the image
THICKNESS = (0.03, 0.07)  # half the thickness of a line, the least and the most, in shorter sides of the image


def pen_strokes(count: int, example: Tensor, random: torch.Generator) -> Tensor:
    """Images [count, channels, height, width] of curved lines, in the background and the ink of the example.

    Where the example is not sparse, it does not tell these: then images have its mean and deviation.

    Example:
        >>> pen_strokes(5, torch.zeros(1, 1, 28, 28), torch.Generator()).shape
        torch.Size([5, 1, 28, 28])
    """
    look = Look.of(example)
    lines = _lines(count, size_of(example), random)
    images = look.background + (look.ink - look.background) * lines if look.sparse else look.given_to(lines)
    return lying_like(example, images)


def _lines(count: int, size: Size, random: torch.Generator) -> Tensor:
    """Images of curves one after another: 1 on a line, 0 beside it, between on an edge of about one pixel."""
    channels, height, width = size
    least, most = THICKNESS
    thickness = min(height, width) * (least + (most - least) * torch.rand(count, 1, 1, generator=random))
    start = _places(count, random)
    images = torch.zeros(count, height, width)
    for number in range(STROKES):
        # Control points beyond the middle bend the curves more.
        control, end = 2 * _places(count, random) - 0.5, _places(count, random)
        drawn = torch.rand(count, 1, 1, generator=random) < (DRAWN if number else 1)
        line = (thickness - _distance(_curve(start, control, end), (height, width)) + 0.5).clamp(0, 1)
        images, start = torch.maximum(images, line * drawn), end
    return images[:, None].expand(count, channels, height, width).contiguous()


def _places(count: int, random: torch.Generator) -> Tensor:
    """Random places [count, 2] in the middle of an image."""
    return MIDDLE[0] + (MIDDLE[1] - MIDDLE[0]) * torch.rand(count, 2, generator=random)


def _curve(start: Tensor, control: Tensor, end: Tensor) -> Tensor:
    """Points [points, count, 2] of quadratic Bezier curves."""
    t = torch.linspace(0, 1, POINTS).view(-1, 1, 1)
    return (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end


def _distance(curve: Tensor, size: tuple[int, int]) -> Tensor:
    """How far each pixel is from the nearest point of a curve [count, height, width], in pixels."""
    height, width = size
    y, x = torch.arange(height).view(1, -1, 1), torch.arange(width).view(1, 1, -1)
    nearest = torch.full((curve.shape[1], height, width), torch.inf)
    for point in curve:
        down, right = point[:, 0].view(-1, 1, 1) * height, point[:, 1].view(-1, 1, 1) * width
        nearest = torch.minimum(nearest, (y - down) ** 2 + (x - right) ** 2)
    return nearest.sqrt()
