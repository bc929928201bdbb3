"""How many synthetic inputs a fusion can afford, and whether it can afford to invert them.

In: a network and example inputs. Out: numbers of samples. Not here: how they are made.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ..activations import observe
from ..modules import Arguments, tensors_in
from .images import image_place
from .inversion import INVERSION_STEPS

# How many samples of noise are made, by whether networks convolve: a convolution sees many places of each sample.
SAMPLES = {True: 200, False: 500}
MOST_IMAGES = 1000  # leaves or strokes: a refit was found to gain little from more
TOGETHER = 500  # images are cut down to so many, or a multiple, where few go beyond
# Bytes of one site of all images, at most: a refit that cannot keep them computes them again and again, and on narrow
# networks it takes more than twice as long for twice as many.
KEPT = 2**29
FEWEST = 50  # samples: fewer of them are not worth a correction
# Runs of each network that a sample takes: in each step of inversion one forth, and twice that back. Images are not
# inverted, but there are more of them, and a refit by one was found to take about as many operations.
RUNS = 3 * INVERSION_STEPS
EFFORT = {"cpu": 2e13}  # floating-point operations that all samples may take, by device: minutes
EFFORT_ELSEWHERE = 2e15  # the same on devices that are not listed, which are faster


@dataclass(frozen=True)
class Budget:
    """How many synthetic inputs a fusion makes, and whether it can afford to invert them.

    Args:
        samples: How many.
        inverted: Whether they are inverted; not so if that would take too long.
        convolutions: Whether the networks have some: noise that is not inverted is of no use to them.
        images: How many images may be drawn instead; 0 if the networks read none, or if it would take too long.
    """

    samples: int
    inverted: bool
    convolutions: bool
    images: int = 0

    @staticmethod
    def of(model: nn.Module, example: Arguments, *, models: int) -> Budget:
        """The budget for a number of networks like this one.

        Operations are counted, not seconds, so that every machine makes the same inputs.
        """
        convolutions = convolves(model, example)
        affordable = int(effort(model) / (models * _operations(model, example)))
        samples = min(SAMPLES[convolutions], affordable)
        inverted = samples >= FEWEST
        reads_images = inverted and image_place(model, example) is not None
        kept = max(FEWEST, int(KEPT / _largest_site(model, example))) if reads_images else 0
        images = _in_whole_batches(min(MOST_IMAGES, affordable, kept))
        return Budget(samples if inverted else SAMPLES[convolutions], inverted, convolutions, images)


def _in_whole_batches(images: int) -> int:
    """A number of images, without the last ones if they are not half as many again.

    What a fit looks at grows with the batches, full or not: a VGG11 took a fifth longer with 544 images than with 500.

    Example:
        >>> [_in_whole_batches(images) for images in (60, 499, 544, 749, 750, 1000)]
        [60, 499, 500, 500, 750, 1000]
    """
    over = images % TOGETHER
    return images - over if images > TOGETHER and over < TOGETHER // 2 else images


def effort(model: nn.Module) -> float:
    """Floating-point operations that all samples may take on the device of a network."""
    device = next((tensor.device.type for tensor in model.parameters()), "cpu")
    return EFFORT.get(device, EFFORT_ELSEWHERE)


def _operations(model: nn.Module, example: Arguments) -> float:
    """Floating-point operations that one sample takes, of one network."""
    first = next((each for each in tensors_in((example.args, dict(example.kwargs))) if each.dim()), None)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*example.args, **example.kwargs)
    each: float = max(counter.get_total_flops(), 1) / (len(first) if first is not None else 1)
    return RUNS * each


def _largest_site(model: nn.Module, example: Arguments) -> float:
    """Bytes of what a refit goes by at the largest convolution, for one sample: features, outputs and their weights."""
    sizes = [1.0]
    for seen in observe(model, lambda each: each(*example.args, **example.kwargs)):
        if seen.kernel:
            weight = model.get_parameter(seen.name)
            places = seen.output.numel() / len(seen.output) / len(weight)
            sizes.append(places * (weight[0].numel() + 2 * len(weight)) * weight.element_size())
    return max(sizes)


def convolves(model: nn.Module, example: Arguments) -> bool:
    """Whether a network has convolutions."""
    return any(seen.kernel for seen in observe(model, lambda each: each(*example.args, **example.kwargs)))


def recurs(model: nn.Module, example: Arguments) -> bool:
    """Whether a network has recurrent layers, which take long to be gone through backwards."""
    found = observe(model, lambda each: each(*example.args, **example.kwargs))
    return any(seen.recurrence is not None for seen in found)
