"""Networks of other depths: settings and cells, a shallow parent and a deep one of each kind.

In: nothing. Out: `SETTINGS` and `CELLS`, for `profiles` and `catalogue`. Networks are small enough to be trained by one
core in a minute or two, in every profile but `smoke`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .records import Build, Cell, Data, Setting, Training

NETWORKS = 6  # of every setting: three pairs
TRAINING = Training("adam", 2e-3, epochs=4, batch=64, schedule="cycle", clip=1.0)
DIGITS = Data("mnist", "channels", train=10_000)
ROWS = (
    "first", "second", "better", "control", "control-500", "ensemble", "mean", "vanilla", "clafusion", "auto-plain",
    "auto", "auto-500",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A network in two depths, what both learn, and how.

    Args:
        title: In tables.
        shallow: The network of fewer layers.
        deep: The network of more layers.
        data: With all its classes.
        training: From random weights.
    """

    title: str
    shallow: Build
    deep: Build
    data: Data
    training: Training


KINDS = {
    "mnist-mlp": Kind(
        "MNIST MLP, 3 and 5 layers", Build("mlpnet", {"hidden": (100, 100), "bias": True}),
        Build("mlpnet", {"hidden": (100, 100, 100, 100), "bias": True}), DIGITS, TRAINING,
    ),
    "mnist-chain": Kind(
        "MNIST CNN, 4 and 6 convolutions", Build("chain", {"convolutions": (2, 2), "width": 8}),
        Build("chain", {"convolutions": (3, 3), "width": 8}), DIGITS, replace(TRAINING, epochs=2),
    ),
    "mnist-resnet": Kind(
        "MNIST ResNet8 and ResNet14, batch norm", Build("resnet", {"blocks": (1, 1, 1), "width": 8, "channels": 1}),
        Build("resnet", {"blocks": (2, 2, 2), "width": 8, "channels": 1}), DIGITS, replace(TRAINING, rate=5e-3),
    ),
    "mnist-vit": Kind(
        "MNIST ViT, 4 and 6 layers", Build("vit", {"layers": 4}), Build("vit", {"layers": 6}),
        Data("mnist", "channels"), replace(TRAINING, epochs=3),
    ),
    # Nguyen et al. (2021) fuse a VGG13 with a narrower VGG11, on CIFAR-10, without norms and biases; here in small.
    "cifar10-vgg": Kind(
        "CIFAR-10 VGG11 and VGG13", Build("vgg", {"convolutions": (1, 1, 2, 2, 2), "width": 8}),
        Build("vgg", {"convolutions": (2, 2, 2, 2, 2), "width": 8}), Data("cifar10", train=20_000),
        replace(TRAINING, epochs=5),
    ),
}  # fmt: skip


def _settings(name: str, kind: Kind) -> Iterator[tuple[str, Setting]]:
    for depth, network in (("shallow", kind.shallow), ("deep", kind.deep)):
        yield f"{name}-{depth}", Setting(network, kind.data, kind.training, NETWORKS)


SETTINGS = dict(pair for name, kind in KINDS.items() for pair in _settings(name, kind))
CELLS = tuple(Cell(kind.title, (f"{name}-shallow", f"{name}-deep"), ROWS) for name, kind in KINDS.items())
