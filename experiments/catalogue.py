"""All experiments, by name: which networks are fused, into what, by which rows.

Names of settings are those of `profiles`, names of rows those of `rows`. A new experiment is an entry here.
"""

from __future__ import annotations

from .attending import BETWEEN
from .attending import CELLS as ATTENDING
from .depths import CELLS as DEPTHS
from .different import CELLS as DIFFERENT
from .federated import CELLS as FEDERATED
from .joined import CELLS as JOINED
from .records import Cell, Experiment
from .rows import CORRECTED, ENDS, SELECTED, UNLABELED, WIDER
from .wide import CURVES, TRAINED

OURS = ("better", "control", "control-500", "auto-plain", "auto", "auto-500", *SELECTED, "ensemble", "mean")
KEPT = ("better", "control-500", "ensemble", "mean")  # what a fusion by 500 inputs is compared with
SAME = ("base", "vanilla", "fedma", "ot", "wb", *OURS)
LARGER = ("base", "ot-random", "wb-random", "wb", *OURS)
RECURRENT = ("base", "vanilla", "ot", "fedma", "wb", "gwb", "rebasin", *OURS)
BEYOND = ("base", "vanilla", "wb", "rebasin", *OURS)
CONVOLUTIONAL = ("base", "vanilla", "wb", "rebasin", *OURS, "refit", "refit-500", *WIDER, "distilled-500")
PARTS = (
    "auto", "auto-plain", "no-signs", "no-scales", "no-restarts", "more-restarts", "random-start", "one-sweep",
    "rebasin", "incoming", "better", "control", "ensemble", "mean",
)  # fmt: skip
DATA_SETS = {"mnist": "MNIST", "agnews": "AG News", "dbpedia": "DBpedia", "sst2": "SST-2"}
MANY = (2, 4, 8, 16)


def _one(title: str, setting: str, rows: tuple[str, ...]) -> Cell:
    return Cell(title, (setting,), rows)


def _heterogeneous() -> tuple[Cell, ...]:
    """Model A knows a digit that model B has not seen; its proportion goes from 0 to 1."""
    cells, known, made = [], ("base", "better", "control", "control-500", "ensemble"), ("auto", *SELECTED)
    for step in range(11):
        share = step / 10
        weights = (share, round(1 - share, 1))
        pair = ("mnist-mlpnet-a", "mnist-mlpnet-b")
        small = ("mnist-mlpsmall-a", "mnist-mlpsmall-b")
        cells += [
            Cell(f"MLPNet, {share}", pair, (*known, "vanilla", "ot", "wb", *made), weights=weights, place=share,
                 family="MLPNet", turns=True),
            Cell(f"MLPSmall into MLPNet, {share}", small, (*known, "ot-distilled", "wb-distilled", *made),
                 target="mnist-mlpnet", weights=weights, place=share,
                 family="MLPSmall into MLPNet", turns=True),
        ]  # fmt: skip
    return tuple(cells)


def _corrected(*, norm: bool) -> tuple[str, ...]:
    ends = [name for name in ENDS if norm or name != "batchnorm"]
    return ("base", *KEPT, *(f"{method}+{end}" for method in (*CORRECTED, "matched") for end in ends))


EXPERIMENTS: dict[str, Experiment] = {
    "table1": Experiment(
        "Table 1: fully connected and convolutional networks",
        (
            _one("MNIST MLPNet", "mnist-mlpnet", SAME),
            Cell("MNIST MLPNet into MLPLarge", ("mnist-mlpnet",), LARGER, target="mnist-mlplarge"),
            _one("CIFAR-10 VGG11", "cifar10-vgg11", SAME),
            _one("CIFAR-10 ResNet18", "cifar10-resnet18", SAME),
        ),
    ),
    "table2": Experiment(
        "Table 2: recurrent networks",
        tuple(
            _one(f"{title} {cell.upper()}", f"{name}-{cell}", RECURRENT)
            for name, title in DATA_SETS.items()
            for cell in ("rnn", "lstm")
        ),
    ),
    "table3": Experiment(
        "Table 3: several networks into a larger one",
        tuple(
            Cell(f"{count} MLPNet into MLPLarge", ("mnist-mlpnet",), LARGER, count, "mnist-mlplarge", place=count,
                 family="MLPNet into MLPLarge")
            for count in (2, 4, 6)
        ),
    ),
    "heterogeneous": Experiment("Section 4.1: heterogeneous data, by the proportion of model A", _heterogeneous()),
    "different": Experiment("Parents that know different things", DIFFERENT, apart=True),
    "joined": Experiment("Parents that have outputs for other classes: digits 0-4 and 5-9, halves of CIFAR-10", JOINED),
    "depths": Experiment("Parents of other depths", DEPTHS),
    "federated": Experiment("Federated rounds", FEDERATED, apart=True),
    "transformers": Experiment("Transformers", ATTENDING, apart=True),
    "convolutional": Experiment(
        "Convolutional networks: no data, few images, and the width between one and two",
        (
            _one("CIFAR-10 VGG11", "cifar10-vgg11", CONVOLUTIONAL),
            _one("CIFAR-10 ResNet18", "cifar10-resnet18", CONVOLUTIONAL),
            _one("CIFAR-10 ResNet18, batch norm", "cifar10-resnet18-norm", CONVOLUTIONAL),
            _one("CIFAR-10 ResNet20, batch norm", "cifar10-resnet20", CONVOLUTIONAL),
        ),
    ),
    "widths": Experiment("Between one width and two", CURVES["widths"], apart=True),
    "images": Experiment("Numbers of unlabeled images", CURVES["images"], apart=True),
    "synthetic": Experiment("Numbers of synthetic images", CURVES["synthetic"], apart=True),
    "epochs": Experiment("Barriers by the length of training", TRAINED),
    "landscapes": Experiment(
        "Figures 1, 3 and the appendix's: barriers and planes",
        (
            _one("MNIST MLPNet", "mnist-mlpnet", ("plane-wb", "plane-auto")),
            Cell("MNIST heterogeneous", ("mnist-mlpnet-a", "mnist-mlpnet-b"), ("plane-wb", "plane-auto")),
            Cell("MNIST MLPNet into MLPLarge", ("mnist-mlpnet",), ("plane-wb", "plane-auto"), target="mnist-mlplarge"),
            _one("CIFAR-10 VGG11", "cifar10-vgg11", ("plane-wb", "plane-auto")),
            _one("CIFAR-10 ResNet18", "cifar10-resnet18", ("plane-wb", "plane-auto")),
            *(
                _one(f"{title} {cell.upper()}", f"{name}-{cell}", ("plane-gwb", "plane-auto"))
                for name, title in DATA_SETS.items()
                for cell in ("rnn", "lstm")
            ),
            *BETWEEN,
        ),
    ),
    "beyond": Experiment(
        "Beyond the paper: biases, batch norm, GRU, two directions, two layers, other widths",
        (
            _one("MLPNet with biases", "mnist-mlpnet-bias", BEYOND),
            _one("LSTM with biases", "mnist-lstm-bias", BEYOND),
            _one("LSTM of two layers", "mnist-lstm-two", BEYOND),
            _one("bidirectional LSTM", "mnist-bidirectional", BEYOND),
            _one("GRU", "mnist-gru", BEYOND),
            _one("VGG11, batch norm", "cifar10-vgg11-norm", BEYOND),
            _one("ResNet18, batch norm", "cifar10-resnet18-norm", BEYOND),
            Cell("MLPNet and MLPSmall into MLPNet", ("mnist-mlpnet", "mnist-mlpsmall"), ("base", "wb", *OURS)),
            Cell("MLPSmall and MLPLarge into MLPNet", ("mnist-mlpsmall", "mnist-mlplarge"), ("base", "wb", *OURS),
                 target="mnist-mlpnet"),
        ),
    ),
    "many": Experiment(
        "Beyond the paper: up to 16 networks of equal widths",
        tuple(
            Cell(f"{count} MLPNet", ("mnist-mlpnet",), ("base", "vanilla", "wb", "rebasin", *OURS), count, place=count,
                 family="MLPNet")
            for count in MANY
        ),
    ),
    "parts": Experiment(
        "What each part of auto buys",
        tuple(_one(f"MNIST {title}", f"mnist-{title.lower()}", PARTS) for title in ("MLPNet", "RNN", "LSTM")),
    ),
    "unlabeled": Experiment(
        "Numbers of unlabeled inputs",
        tuple(
            _one(f"MNIST {title}", f"mnist-{title.lower()}", ("base", *KEPT, *(f"auto-{count}" for count in UNLABELED)))
            for title in ("MLPNet", "RNN", "LSTM")
        ),
    ),
    "corrections": Experiment(
        "Methods and corrections by 500 unlabeled images",
        (
            _one("CIFAR-10 VGG11", "cifar10-vgg11", _corrected(norm=False)),
            _one("CIFAR-10 ResNet20, batch norm", "cifar10-resnet20", _corrected(norm=True)),
        ),
    ),
}  # fmt: skip
