"""The paper's networks, by name: `NETWORKS["vgg11"].build()`.

As in the paper and in OT fusion, linear and recurrent layers have no biases by default; widths, inputs and classes are
arguments. Names of tensors are part of the interface: checkpoints depend on them.

In: sizes. Out: modules with random weights (seed them with `torch.manual_seed`). Not here: training, data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F


class MLP(nn.Module):
    """Fully connected, with ReLU: scores [batch, classes] of inputs [batch, ...], which are flattened."""

    def __init__(
        self, hidden: tuple[int, ...] = (400, 200, 100), inputs: int = 784, classes: int = 10, *, bias: bool = False
    ) -> None:
        super().__init__()
        sizes = (inputs, *hidden, classes)
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=bias) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """Scores of a batch."""
        x = x.flatten(1)
        for layer in list(self.layers)[:-1]:
            x = F.relu(layer(x))
        scores: Tensor = self.layers[-1](x)
        return scores


class Recurrent(nn.Module):
    """A recurrent layer that reads a sequence [batch, steps, inputs], and a linear one on its last state."""

    def __init__(
        self,
        cell: type[nn.RNN] | type[nn.LSTM],
        hidden: int = 256,
        inputs: int = 28,
        classes: int = 10,
        *,
        layers: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.cell = cell(inputs, hidden, num_layers=layers, bias=bias, batch_first=True)
        self.read = nn.Linear(hidden, classes, bias=bias)

    def forward(self, sequence: Tensor) -> Tensor:
        """Scores of a batch."""
        scores: Tensor = self.read(self.cell(sequence)[0][:, -1])
        return scores


class Residual(nn.Module):
    """Two 3x3 convolutions around a skip connection, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, *, norm: bool) -> None:
        super().__init__()
        self.conv1, self.norm1 = _convolution(inputs, outputs, 3, stride, norm=norm)
        self.conv2, self.norm2 = _convolution(outputs, outputs, 3, 1, norm=norm)
        changes = stride != 1 or inputs != outputs
        self.skip = nn.Sequential(*_convolution(inputs, outputs, 1, stride, norm=norm)) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Images [batch, outputs, height / stride, width / stride]."""
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(inner + self.skip(x))


class ResNet(nn.Module):
    """For small images (CIFAR): a 3x3 stem without pooling, stages of residual blocks, a linear layer.

    Every stage after the first halves the images and doubles the width.
    """

    def __init__(
        self, blocks: tuple[int, ...], width: int, channels: int = 3, classes: int = 10, *, norm: bool = True
    ) -> None:
        super().__init__()
        self.conv, self.norm = _convolution(channels, width, 3, 1, norm=norm)
        stages = []
        for stage, count in enumerate(blocks):
            outputs, inputs = width * 2**stage, width * 2 ** max(stage - 1, 0)
            first = Residual(inputs, outputs, 1 if stage == 0 else 2, norm=norm)
            stages.append(nn.Sequential(first, *(Residual(outputs, outputs, 1, norm=norm) for _ in range(count - 1))))
        self.stages = nn.Sequential(*stages)
        self.classify = nn.Linear(outputs, classes, bias=norm)

    def forward(self, images: Tensor) -> Tensor:
        """Scores [batch, classes] of images [batch, channels, height, width]."""
        x = self.stages(F.relu(self.norm(self.conv(images))))
        scores: Tensor = self.classify(x.mean((2, 3)))
        return scores


def _convolution(inputs: int, outputs: int, size: int, stride: int, *, norm: bool) -> tuple[nn.Module, nn.Module]:
    """A convolution without bias, and its batch norm (or nothing)."""
    convolution = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    return convolution, nn.BatchNorm2d(outputs) if norm else nn.Identity()


def vgg(
    convolutions: tuple[int, ...], width: int = 64, channels: int = 3, classes: int = 10, *, norm: bool = False,
    bias: bool = False,
) -> nn.Sequential:  # fmt: skip
    """A VGG for 32 x 32 images: five stages of 3x3 convolutions with ReLU and max pooling, and one linear layer.

    Args:
        convolutions: How many there are in each of the five stages.
        width: Channels of the first stage; the others have 2, 4, 8 and 8 times as many.
        channels: Of an image.
        classes: How many scores there are.
        norm: Whether batch norm follows each convolution.
        bias: Whether layers have biases.
    """
    layers: list[nn.Module] = []
    inputs = channels
    for factor, count in zip((1, 2, 4, 8, 8), convolutions, strict=True):
        for _ in range(count):
            layers.append(nn.Conv2d(inputs, factor * width, 3, padding=1, bias=bias))
            layers += [nn.BatchNorm2d(factor * width)] if norm else []
            layers.append(nn.ReLU())
            inputs = factor * width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(inputs, classes, bias=bias))


def vgg11(
    width: int = 64, channels: int = 3, classes: int = 10, *, norm: bool = False, bias: bool = False
) -> nn.Sequential:
    """VGG11 for 32 x 32 images: eight 3x3 convolutions with ReLU, five times max pooling, one linear layer."""
    return vgg((1, 1, 2, 2, 2), width, channels, classes, norm=norm, bias=bias)


def rnn(hidden: int = 256, inputs: int = 28, classes: int = 10, *, layers: int = 1, bias: bool = False) -> Recurrent:
    """A tanh RNN; on MNIST it reads the rows of an image."""
    return Recurrent(nn.RNN, hidden, inputs, classes, layers=layers, bias=bias)


def lstm(hidden: int = 256, inputs: int = 28, classes: int = 10, *, layers: int = 1, bias: bool = False) -> Recurrent:
    """An LSTM; on MNIST it reads the rows of an image."""
    return Recurrent(nn.LSTM, hidden, inputs, classes, layers=layers, bias=bias)


def mlpnet(
    hidden: tuple[int, ...] = (400, 200, 100), inputs: int = 784, classes: int = 10, *, bias: bool = False
) -> MLP:
    """MLPNet of the paper: 784-400-200-100-10."""
    return MLP(hidden, inputs, classes, bias=bias)


def mlpsmall(inputs: int = 784, classes: int = 10, *, bias: bool = False) -> MLP:
    """MLPSmall of the paper."""
    return MLP((200, 100, 50), inputs, classes, bias=bias)


def mlplarge(inputs: int = 784, classes: int = 10, *, bias: bool = False) -> MLP:
    """MLPLarge of the paper."""
    return MLP((800, 400, 200), inputs, classes, bias=bias)


def resnet18(width: int = 64, channels: int = 3, classes: int = 10, *, norm: bool = True) -> ResNet:
    """ResNet18 for small images, with batch norm."""
    return ResNet((2, 2, 2, 2), width, channels, classes, norm=norm)


def resnet18_plain(width: int = 64, channels: int = 3, classes: int = 10) -> ResNet:
    """ResNet18 for small images, without batch norm and without biases, as OT fusion used it."""
    return ResNet((2, 2, 2, 2), width, channels, classes, norm=False)


def resnet20(width: int = 16, channels: int = 3, classes: int = 10, *, norm: bool = True) -> ResNet:
    """ResNet20 for small images, with batch norm; `width` 16 is the published one."""
    return ResNet((3, 3, 3), width, channels, classes, norm=norm)


@dataclass(frozen=True)
class Network:
    """A network that is known by name.

    Args:
        build: Makes it; every argument has a default.
        input_shape: The shape of one input, without the batch, for the default sizes.
    """

    build: Callable[..., nn.Module]
    input_shape: tuple[int, ...]


NETWORKS: dict[str, Network] = {
    "mlpnet": Network(mlpnet, (1, 28, 28)),
    "mlpsmall": Network(mlpsmall, (1, 28, 28)),
    "mlplarge": Network(mlplarge, (1, 28, 28)),
    "vgg11": Network(vgg11, (3, 32, 32)),
    "resnet18": Network(resnet18, (3, 32, 32)),
    "resnet18_plain": Network(resnet18_plain, (3, 32, 32)),
    "resnet20": Network(resnet20, (3, 32, 32)),
    "rnn": Network(rnn, (28, 28)),
    "lstm": Network(lstm, (28, 28)),
}
