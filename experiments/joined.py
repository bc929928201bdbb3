"""Parents that have outputs for other classes: settings and cells of networks whose heads are joined.

In: nothing. Out: `SETTINGS` and `CELLS`, for `profiles` and `catalogue`. Each parent of a pair is trained on one half
of the classes and has outputs for these alone, as in ZipIt's setting (Stoica et al. 2024, arXiv:2305.03053).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .records import Build, Cell, Data, OwnClasses, Setting, Training
from .rows import JOINED

NETWORKS = 6  # of every setting: three pairs
HALVES = (tuple(range(5)), tuple(range(5, 10)))
ADAM = Training("adam", 2e-3, epochs=3, batch=128, decay=1e-4, schedule="cycle", clip=1.0)
SGD = Training("sgd", 0.05, epochs=10, batch=64, momentum=0.5)
RESIDUAL = Training("sgd", 0.05, epochs=8, batch=128, decay=1e-4, schedule="cycle", clip=2.0, augment=True)
FEWER = 20_000  # images of CIFAR-10 for the small ResNet: one core trains a parent on one half of them in a minute


@dataclass(frozen=True)
class Kind:
    """A network, what it learns, and how.

    Args:
        title: In tables.
        network: With five outputs.
        data: With all its classes.
        training: From random weights.
    """

    title: str
    network: Build
    data: Data
    training: Training


KINDS = {
    "mnist-mlpnet": Kind("MNIST MLPNet", Build("mlpnet", {"classes": 5}), Data("mnist"), SGD),
    "mnist-cnn": Kind("MNIST CNN", Build("cnn", {"classes": 5}), Data("mnist", "channels"), ADAM),
    "mnist-vit": Kind("MNIST ViT", Build("vit", {"classes": 5}), Data("mnist", "channels"), replace(ADAM, decay=0.0)),
    "cifar10-resnet8": Kind(
        "CIFAR-10 ResNet8", Build("resnet8", {"classes": 5}), Data("cifar10", train=FEWER), replace(RESIDUAL, epochs=5)
    ),
    "cifar10-resnet20": Kind("CIFAR-10 ResNet20", Build("resnet20", {"classes": 5}), Data("cifar10"), RESIDUAL),
}


def _settings(name: str, kind: Kind) -> Iterator[tuple[str, Setting]]:
    """The two base networks of one kind: one for each half of the classes."""
    for part, own in zip("ab", HALVES, strict=True):
        data = replace(kind.data, skill=OwnClasses(own))
        yield f"{name}-joined-{part}", Setting(kind.network, data, kind.training, NETWORKS)


SETTINGS = dict(pair for name, kind in KINDS.items() for pair in _settings(name, kind))
WIDER = tuple(row for row in JOINED if "-1.5" in row or "-2.0" in row)  # of which the stream of a ViT allows none


def _cell(name: str, kind: Kind) -> Cell:
    rows = tuple(row for row in JOINED if row not in WIDER) if kind.network.name == "vit" else JOINED
    return Cell(kind.title, (f"{name}-joined-a", f"{name}-joined-b"), rows)


CELLS = tuple(_cell(name, kind) for name, kind in KINDS.items())
