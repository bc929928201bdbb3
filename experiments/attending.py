"""Transformers: settings and cells, by network and by what the two parents of a pair have seen.

In: nothing. Out: `SETTINGS`, `CELLS` and `BETWEEN`, for `profiles` and `catalogue`. Networks are small enough to be
trained by one core in a minute or two, in every profile but `smoke`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .records import Build, Cell, Classes, Data, Setting, Training
from .rows import BY_FEW, CONTROLS, MADE, MATCHED

NETWORKS = 9  # that know all classes: three triples; pairs are made of the same ones
HALVES = 6  # that know one half: three pairs, for seeds are counted over both halves
TRAINING = Training("adam", 2e-3, epochs=3, batch=128, schedule="cycle", clip=1.0)
WRITING = replace(TRAINING, rate=3e-3, epochs=1, batch=32)
TEXTS = Data("agnews", "characters", train=40_000, test=500, validation=500, length=64)


@dataclass(frozen=True)
class Kind:
    """A transformer, what it learns, and how.

    Args:
        title: In tables.
        network: As wide as the parents are.
        data: With all its classes.
        training: From random weights.
        classes: How many classes there are, of which each parent of a pair may have seen one half.
    """

    title: str
    network: Build
    data: Data
    training: Training
    classes: int


KINDS = {
    "mnist-vit": Kind("MNIST ViT", Build("vit"), Data("mnist", "channels"), TRAINING, 10),
    "agnews-characters": Kind("AG News characters", Build("characters"), TEXTS, WRITING, 4),
    "cifar10-vit": Kind(
        "CIFAR-10 ViT", Build("vit", {"width": 64, "patch": 8, "image": (3, 32)}), Data("cifar10"),
        replace(TRAINING, epochs=6), 10,
    ),
    "agnews-llama": Kind("AG News characters, Llama", Build("llama"), TEXTS, WRITING, 4),
}  # fmt: skip
CONDITIONS = {
    "same": "all classes, different seeds",
    "three": "all classes, three networks of different seeds",
    "halves": "disjoint halves of the classes",
}


def _settings(name: str, kind: Kind) -> Iterator[tuple[str, Setting]]:
    """All base networks of one kind."""
    half = kind.classes // 2
    yield name, Setting(kind.network, kind.data, kind.training, NETWORKS)
    for part, classes in (("a", range(half)), ("b", range(half, kind.classes))):
        data = replace(kind.data, skill=Classes(tuple(classes)))
        yield f"{name}-halves-{part}", Setting(kind.network, data, kind.training, HALVES)


def _cells(name: str, kind: Kind) -> Iterator[Cell]:
    rows = (*CONTROLS, "vanilla", "rebasin", "procrustes", *MATCHED, *MADE, *BY_FEW, "auto", "auto-10", "auto-500")
    yield Cell(kind.title, (name,), ("base", *rows), family=CONDITIONS["same"])
    yield Cell(f"{kind.title}, three", (name,), ("base", *rows), 3, family=CONDITIONS["three"])
    pair = (f"{name}-halves-a", f"{name}-halves-b")
    halves = ("first", "second", *rows, "distilled-500")  # where a fusion pays, a short training is worth its time
    yield Cell(f"{kind.title}, halves", pair, halves, family=CONDITIONS["halves"])


SETTINGS = dict(pair for name, kind in KINDS.items() for pair in _settings(name, kind))
CELLS = tuple(cell for name, kind in KINDS.items() for cell in _cells(name, kind))
# Between two networks: permutations, and rotations, which `auto` takes where there are some.
BETWEEN = tuple(Cell(kind.title, (name,), ("plane-rebasin", "plane-auto")) for name, kind in KINDS.items())
