"""Networks of the sizes that people fuse, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Case:
    """A network and an input for it."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]


def mlpnet() -> nn.Module:
    """784-400-200-100-10 without biases, as in the paper."""
    sizes = [784, 400, 200, 100, 10]
    layers = [nn.Linear(a, b, bias=False) for a, b in pairwise(sizes)]
    return nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1])


def mlp(*sizes: int) -> nn.Module:
    """Linear layers of these sizes, with biases and ReLU."""
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def vgg11() -> nn.Module:
    """VGG11 for 32 x 32 images, without norms and biases."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"):
        if isinstance(width, str):
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.ReLU()]
            channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10, bias=False))


class Residual(nn.Module):
    """A block of convolutions with batch norm, and its shortcut."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        kernels = ((inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1))
        plain = ((inputs, width, 3, stride), (width, outputs, 3, 1))
        parts: list[nn.Module] = []
        for a, b, kernel, step in kernels if bottleneck else plain:
            convolution = nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False)
            parts += [convolution, nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*parts[:-1])
        same = inputs == outputs and stride == 1
        shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity() if same else nn.Sequential(*shortcut)

    def forward(self, x: Tensor) -> Tensor:
        """The body plus the shortcut."""
        return torch.relu_(self.body(x) + self.shortcut(x))


def resnet(blocks: tuple[int, ...], *, bottleneck: bool) -> nn.Module:
    """ResNet18 is (2, 2, 2, 2), ResNet50 is (3, 4, 6, 3) with bottlenecks; for 32 x 32 images."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    channels = 64
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        outputs = width * 4 if bottleneck else width
        for block in range(count):
            stride = 2 if stage and not block else 1
            layers.append(Residual(channels, width, outputs, stride, bottleneck=bottleneck))
            channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


class Recurrent(nn.Module):
    """Rows of an image as steps, then a linear layer on the last state."""

    def __init__(self, cell: type[nn.RNNBase]) -> None:
        super().__init__()
        self.cell, self.read = cell(28, 256, batch_first=True), nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores from the last step."""
        return self.read(self.cell(x)[0][:, -1])


class Decoder(nn.Module):
    """A causal transformer of the size of GPT-2 small, with a smaller vocabulary."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 5000) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        block = nn.TransformerEncoderLayer(
            width, heads, 4 * width, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the next word; the head is tied to the embedding."""
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        hidden = self.blocks(self.words(x) + self.places(torch.arange(x.shape[1])), mask=mask, is_causal=True)
        return self.norm(hidden) @ self.words.weight.T


CASES = (
    Case("MLPNet", mlpnet, lambda: torch.randn(2, 784)),
    Case("VGG11", vgg11, lambda: torch.randn(1, 3, 32, 32)),
    Case("ResNet18", lambda: resnet((2, 2, 2, 2), bottleneck=False), lambda: torch.randn(1, 3, 32, 32)),
    Case("ResNet50", lambda: resnet((3, 4, 6, 3), bottleneck=True), lambda: torch.randn(1, 3, 32, 32)),
    Case("RNN-256", lambda: Recurrent(nn.RNN), lambda: torch.randn(2, 28, 28)),
    Case("LSTM-256", lambda: Recurrent(nn.LSTM), lambda: torch.randn(2, 28, 28)),
    Case("MLP-4096", lambda: mlp(1024, 4096, 4096, 10), lambda: torch.randn(2, 1024)),
    Case("GPT-2 small", Decoder, lambda: torch.randint(5000, (1, 16))),
)
