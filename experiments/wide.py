"""Curves: accuracy by the width of the result and by numbers of images, barriers by the length of training.

In: nothing. Out: `SETTINGS`, `CURVES` and `TRAINED`, for `profiles` and `catalogue`. Images are unlabeled or synthetic.
Networks are small convolutional ones that one core trains in minutes, in every profile but `smoke`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from .records import Amount, Build, Cell, Data, Setting, Training

NETWORKS = 6  # of every setting: three pairs
CNN = Training("adam", 2e-3, epochs=5, batch=128, decay=1e-4, schedule="cycle", clip=1.0)
RESNET = Training("sgd", 0.1, epochs=4, batch=128, decay=5e-4, schedule="cycle", clip=2.0)
SETTINGS = {
    "cifar10-cnn": Setting(
        Build("cnn", {"widths": (16, 32, 64), "hidden": 64, "channels": 3, "size": 32}), Data("cifar10"), CNN, NETWORKS
    ),
    "cifar10-resnet8": Setting(Build("resnet8", {"width": 8}), Data("cifar10"), RESNET, NETWORKS),
}
EPOCHS = (1, 2, 4, 8, 16)  # each a whole cycle of the rate, to its end
SETTINGS |= {
    f"cifar10-cnn-{epochs}-epochs": replace(SETTINGS["cifar10-cnn"], training=replace(CNN, epochs=epochs))
    for epochs in EPOCHS
}
FAMILIES = {"cifar10-cnn": "CIFAR-10 CNN", "cifar10-resnet8": "CIFAR-10 ResNet8, batch norm"}
WIDTHS = (1.0, 1.25, 1.5, 1.75, 2.0)
IMAGES = (10, 30, 100, 300, 500, 1000, 2000)
SYNTHETIC = (100, 300, 1000, 1500, 3000)
MADE = ("control-given", "auto-plain", "auto", "distilled")
BARRIERS = ("plane-rebasin", "plane-auto")
ALIKE = ("base", "better", "ensemble")  # rows that are the same in all cells of a family, as lines to compare with


def _cells(told: str, amounts: Iterable[Amount], rows: tuple[str, ...]) -> Iterator[Cell]:
    """For each network and amount a cell, at its place on the horizontal axis."""
    for amount in amounts:
        place = next(each for each in (amount.width, amount.images, amount.synthetic) if each is not None)
        for setting, family in FAMILIES.items():
            title = f"{family}, {place:g} {told}"
            yield Cell(title, (setting,), (*ALIKE, *rows), place=place, family=family, amount=amount)


CURVES: dict[str, tuple[Cell, ...]] = {
    "widths": tuple(
        _cells("wide", (Amount(width=each) for each in WIDTHS), ("control", "control-500", "auto", "auto-500"))
    ),
    "images": tuple(_cells("images", (Amount(images=each) for each in IMAGES), MADE)),
    "synthetic": tuple(_cells("synthetic images", (Amount(synthetic=each) for each in SYNTHETIC), MADE)),
}
TRAINED = tuple(
    Cell(
        f"CIFAR-10 CNN, {epochs} epochs",
        (f"cifar10-cnn-{epochs}-epochs",),
        ("base", *BARRIERS),
        place=epochs,
        family="CIFAR-10 CNN",
    )
    for epochs in EPOCHS
)
