"""The paper's own numbers: {experiment: {cell: {row: (mean, standard deviation)}}}, in percent of test accuracy.

Akash, Li and Garcia Trillos, Wasserstein Barycenter-based Model Fusion and Linear Mode Connectivity of Neural Networks,
Tables 1, 2 and 3.
"""

from __future__ import annotations

Number = tuple[float, float]


def _rows(names: str, *numbers: Number) -> dict[str, Number]:
    return dict(zip(names.split(), numbers, strict=True))


ALL = "base vanilla ot fedma wb gwb"
PAPER: dict[str, dict[str, dict[str, Number]]] = {
    "table1": {
        "MNIST MLPNet": _rows(
            "base vanilla fedma ot wb", (98.31, 0.02), (86.50, 4.60), (97.89, 0.10), (97.84, 0.12), (97.92, 0.12)
        ),
        "MNIST MLPNet into MLPLarge": _rows("base ot-random wb-random", (98.31, 0.02), (91.53, 2.64), (94.93, 1.18)),
        "CIFAR-10 VGG11": _rows(
            "base vanilla fedma ot wb", (90.14, 0.19), (30.82, 4.49), (85.42, 1.01), (85.39, 0.93), (85.39, 0.93)
        ),
        "CIFAR-10 ResNet18": _rows("base vanilla ot wb", (91.56, 0.34), (20.56, 3.90), (71.37, 6.53), (73.75, 4.39)),
    },
    "table2": {
        "MNIST RNN": _rows(
            ALL, (96.68, 0.29), (28.54, 10.70), (36.78, 14.13), (34.16, 7.26), (29.41, 7.05), (81.39, 2.97)
        ),
        "MNIST LSTM": _rows(
            ALL, (98.99, 0.09), (31.92, 4.86), (68.33, 7.07), (66.98, 5.17), (67.66, 6.27), (93.27, 1.86)
        ),
        "AG News RNN": _rows(
            ALL, (88.68, 0.12), (40.77, 4.94), (53.05, 4.30), (55.78, 3.64), (55.63, 4.18), (61.01, 3.87)
        ),
        "AG News LSTM": _rows(
            ALL, (92.38, 0.17), (74.01, 3.89), (86.19, 2.14), (86.30, 2.40), (86.25, 2.37), (87.96, 0.91)
        ),
        "DBpedia RNN": _rows(
            ALL, (97.12, 0.21), (30.95, 4.53), (37.91, 4.86), (42.16, 6.24), (42.52, 6.26), (55.15, 5.97)
        ),
        "DBpedia LSTM": _rows(
            ALL, (98.62, 0.11), (50.93, 2.17), (77.95, 3.20), (81.81, 3.29), (82.57, 3.55), (87.50, 2.89)
        ),
        "SST-2 RNN": _rows(
            ALL, (87.32, 1.03), (73.91, 2.73), (78.92, 2.97), (79.17, 2.27), (79.57, 2.36), (82.60, 1.05)
        ),
        "SST-2 LSTM": _rows(
            ALL, (90.31, 0.27), (74.25, 1.92), (82.13, 0.60), (82.53, 1.01), (82.87, 1.09), (84.04, 0.77)
        ),
    },
    "table3": {
        f"{count} MLPNet into MLPLarge": _rows("base ot-random wb-random", (98.31, 0.02), ot, wb)
        for count, ot, wb in (
            (2, (91.53, 2.64), (94.93, 1.18)),
            (4, (52.10, 8.35), (89.03, 4.05)),
            (6, (43.16, 6.17), (86.40, 4.29)),
        )
    },
}


def best(numbers: dict[str, Number]) -> float:
    """The paper's best method of a cell."""
    return max(mean for row, (mean, _) in numbers.items() if row != "base")
