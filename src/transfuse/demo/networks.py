"""Small networks for the digits: an MLP, a convolutional network with batch norm, an LSTM that reads rows."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from ..networks import MLP, Recurrent


def mlp() -> MLP:
    """A fully connected network, 64-128-64-10, with ReLU."""
    return MLP((128, 64), inputs=64, bias=True)


def cnn() -> nn.Sequential:
    """A network of three convolutions with batch norm and ReLU, and a linear layer."""
    layers: list[nn.Module] = []
    for inputs, outputs, stride in ((1, 32, 1), (32, 64, 2), (64, 64, 2)):
        layers += [nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 2 * 2, 10))


class Rows(nn.Module):
    """An LSTM that reads the rows of an image as a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = Recurrent(nn.LSTM, hidden=96, inputs=8, bias=True)

    def forward(self, images: Tensor) -> Tensor:
        """Scores [batch, 10] of images [batch, 1, 8, 8]."""
        scores: Tensor = self.reader(images.flatten(1, 2))
        return scores


NETWORKS: dict[str, Callable[[], nn.Module]] = {"mlp": mlp, "cnn": cnn, "lstm": Rows}
TITLES = {"mlp": "MLP", "cnn": "CNN with batch norm", "lstm": "LSTM"}
