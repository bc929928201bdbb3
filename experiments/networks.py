"""Networks by name: the paper's, which come with transfuse, and a few more.

In: a `Build`. Out: a module with random weights.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from torch import Tensor, nn

from transfuse import InputError
from transfuse.networks import NETWORKS, Recurrent, ResNet, vgg

from .records import Build
from .transformers import Characters, Llama, ViT


class Bidirectional(nn.Module):
    """An LSTM that reads a sequence in both directions, and a linear layer on both last states."""

    def __init__(self, hidden: int = 256, inputs: int = 28, classes: int = 10, *, bias: bool = False) -> None:
        super().__init__()
        self.cell = nn.LSTM(inputs, hidden, bias=bias, batch_first=True, bidirectional=True)
        self.read = nn.Linear(2 * hidden, classes, bias=bias)

    def forward(self, sequence: Tensor) -> Tensor:
        """Scores of a batch [batch, steps, inputs]."""
        last = self.cell(sequence)[1][0]
        scores: Tensor = self.read(last.transpose(0, 1).flatten(1))
        return scores


def gru(hidden: int = 256, inputs: int = 28, classes: int = 10, *, bias: bool = False) -> Recurrent:
    """A GRU; on MNIST it reads the rows of an image."""
    return Recurrent(nn.GRU, hidden, inputs, classes, bias=bias)  # type: ignore[arg-type]


def cnn(
    widths: tuple[int, ...] = (16, 32), hidden: int = 64, channels: int = 1, size: int = 28, classes: int = 10
) -> nn.Sequential:
    """A small CNN: 3x3 convolutions, each with ReLU and max pooling, then two linear layers; with biases.

    Args:
        widths: Channels of each convolution.
        hidden: Units between the linear layers.
        channels: Of an image.
        size: Pixels of an image, in height and width.
        classes: How many scores there are.
    """
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise((channels, *widths)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    flat = widths[-1] * (size // 2 ** len(widths)) ** 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def resnet8(width: int = 16, channels: int = 3, classes: int = 10) -> ResNet:
    """ResNet20 for small images with one block in each of its three stages instead of three."""
    return ResNet((1, 1, 1), width, channels, classes)


def chain(
    convolutions: tuple[int, ...] = (2, 2), width: int = 16, channels: int = 1, size: int = 28, classes: int = 10
) -> nn.Sequential:
    """A CNN as VGG is made: stages of 3x3 convolutions with ReLU, each stage ended by max pooling; with biases.

    Args:
        convolutions: How many there are in each stage.
        width: Channels of the first stage; each further one has twice as many.
        channels: Of an image.
        size: Pixels of an image, in height and width.
        classes: How many scores there are.
    """
    layers: list[nn.Module] = []
    inputs = channels
    for stage, count in enumerate(convolutions):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, width * 2**stage, 3, padding=1), nn.ReLU()]
            inputs = width * 2**stage
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(inputs * (size // 2 ** len(convolutions)) ** 2, classes))


MORE: dict[str, Callable[..., nn.Module]] = {
    "gru": gru, "bidirectional": Bidirectional, "cnn": cnn, "resnet8": resnet8, "vit": ViT, "characters": Characters,
    "llama": Llama, "chain": chain, "resnet": ResNet, "vgg": vgg,
}  # fmt: skip


def build(what: Build) -> nn.Module:
    """A network with random weights.

    Example:
        >>> build(Build("mlpnet", {"hidden": [4], "inputs": 3, "classes": 2})).layers[0].weight.shape
        torch.Size([4, 3])
    """
    known = MORE | {name: each.build for name, each in NETWORKS.items()}
    if what.name not in known:
        raise InputError(f"no network is called {what.name!r}; the networks: {', '.join(known)}")
    return known[what.name](**what.sizes)
