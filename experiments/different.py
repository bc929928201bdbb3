"""Parents that know different things: settings and cells, by network and by what the two parents of a pair have seen.

In: nothing. Out: `SETTINGS` and `CELLS`, for `profiles` and `catalogue`. Section 4.1 of the paper has MLPNets of which
one alone has seen a digit; here are other networks, and parents that share less. Networks are small enough to be
trained by one core in a minute or two, in every profile but `smoke`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .records import Build, Cell, Classes, Data, Dirichlet, Setting, Skill, Start, Training
from .rows import CONTROLS, MADE

NETWORKS = 6  # of every setting: three pairs
CONCENTRATION = 0.3  # of the Dirichlet shares
ADAM = Training("adam", 1e-3, epochs=3, batch=128, decay=1e-4, schedule="cycle", clip=1.0)
SGD = Training("sgd", 0.05, epochs=10, batch=64, momentum=0.5)
ROWS_OF_MNIST = Data("mnist", "rows")
NEWS = Data("agnews", "words", length=60, vectors=50, projected_from=100)


@dataclass(frozen=True)
class Kind:
    """A network, what it learns, and how.

    Args:
        title: In tables.
        network: As wide as the parents are.
        wide: One and a half times as wide.
        data: With all its classes.
        training: From random weights.
        tuning: From a trained network, on half of the classes.
        coupled: The paper's method for such a network: `wb`, or `gwb` if it is recurrent.
    """

    title: str
    network: Build
    wide: Build
    data: Data
    training: Training
    tuning: Training
    coupled: str = "wb"


def _recurrent(title: str, name: str, data: Data, epochs: int, **sizes: int) -> Kind:
    narrow, wide = (Build(name, {"hidden": hidden, **sizes}) for hidden in (128, 192))
    training = replace(ADAM, rate=2e-3, epochs=epochs)
    return Kind(title, narrow, wide, data, training, replace(training, rate=1e-3, epochs=1), "gwb")


def _cnn(title: str, data: Data, epochs: int, widths: tuple[int, ...], hidden: int, **sizes: int) -> Kind:
    narrow = Build("cnn", {"widths": widths, "hidden": hidden, **sizes})
    wide = Build("cnn", {"widths": tuple(3 * width // 2 for width in widths), "hidden": 3 * hidden // 2, **sizes})
    training = replace(ADAM, rate=2e-3, epochs=epochs)
    return Kind(title, narrow, wide, data, training, replace(training, rate=1e-3, epochs=1))


KINDS = {
    "mnist-mlpnet": Kind(
        "MNIST MLPNet", Build("mlpnet"), Build("mlpnet", {"hidden": (600, 300, 150)}), Data("mnist"), SGD,
        replace(SGD, rate=0.01, epochs=2),
    ),
    "mnist-cnn": _cnn("MNIST CNN", Data("mnist", "channels"), 3, (16, 32), 64),
    "mnist-lstm": _recurrent("MNIST LSTM", "lstm", ROWS_OF_MNIST, 3),
    "mnist-rnn": _recurrent("MNIST RNN", "rnn", ROWS_OF_MNIST, 5),
    "cifar10-cnn": _cnn("CIFAR-10 CNN", Data("cifar10"), 8, (16, 32, 64), 96, channels=3, size=32),
    "agnews-lstm": _recurrent("AG News LSTM", "lstm", NEWS, 2, inputs=50, classes=4),
    "agnews-rnn": _recurrent("AG News RNN", "rnn", NEWS, 3, inputs=50, classes=4),
}  # fmt: skip
CLASSES = {"mnist": 10, "cifar10": 10, "agnews": 4}
# What the two parents have seen, by name.
CONDITIONS = {
    "halves": "disjoint halves of the classes",
    "dirichlet": f"Dirichlet({CONCENTRATION}) shares of every class",
    "one": "one class is known to the first parent only",
    "common": "fine-tuned on disjoint halves of the classes, from a common start",
    "own": "fine-tuned on disjoint halves of the classes, from starts of different seeds",
    "same": "all classes, different seeds",
}


def _skills(condition: str, classes: int) -> tuple[Skill | Classes | Dirichlet | None, ...]:
    """What each of two parents sees."""
    half = classes // 2
    if condition in ("halves", "common", "own"):
        return Classes(tuple(range(half))), Classes(tuple(range(half, classes)))
    if condition == "dirichlet":
        return Dirichlet(CONCENTRATION, 0), Dirichlet(CONCENTRATION, 1)
    if condition == "one":
        return Skill(half - 1, True, 0.5), Skill(half - 1, False, 0.5)
    return None, None


def _name(kind: str, condition: str, parent: int) -> str:
    return f"{kind}-{condition}-{'ab'[parent]}" if condition != "same" else f"{kind}-different"


def _settings(name: str, kind: Kind) -> Iterator[tuple[str, Setting]]:
    """All base networks of one kind, and the wide one that is a target only."""
    same = Setting(kind.network, kind.data, kind.training, NETWORKS)
    yield _name(name, "same", 0), same
    yield f"{name}-wide", replace(same, network=kind.wide)
    for condition in CONDITIONS:
        for parent, skill in enumerate(_skills(condition, CLASSES[kind.data.name])):
            own = replace(same, data=replace(kind.data, skill=skill))
            if condition in ("common", "own"):
                start = Start(_name(name, "same", 0), same, shared=condition == "common")
                own = replace(own, training=kind.tuning, start=start)
            if skill is not None:
                yield _name(name, condition, parent), own


def _cells(condition: str, told: str) -> Iterator[Cell]:
    for name, kind in KINDS.items():
        settings = tuple(dict.fromkeys(_name(name, condition, parent) for parent in (0, 1)))
        rows = ("first", "second", *CONTROLS, "vanilla", "ot", kind.coupled, *MADE)
        if condition == "common":  # elsewhere `auto` is one of the corrections above; here it leaves the average
            rows = (*rows, "auto", "auto-500")
        yield Cell(f"{kind.title}, {condition}", settings, rows, family=told)


def _wide_cells(condition: str, told: str) -> Iterator[Cell]:
    for cell, name in zip(_cells(condition, told), KINDS, strict=True):
        family = f"{told}; one and a half times as wide as a parent"
        yield replace(cell, title=f"{cell.title}, 1.5 wide", rows=MADE, target=f"{name}-wide", family=family)


SETTINGS = dict(pair for name, kind in KINDS.items() for pair in _settings(name, kind))
CELLS = tuple(
    cell for make in (_cells, _wide_cells) for condition, told in CONDITIONS.items() for cell in make(condition, told)
)
