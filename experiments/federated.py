"""Federated rounds: settings and cells, by network, number of clients, what each has seen, and where they start.

In: nothing. Out: `SETTINGS` and `CELLS`, for `profiles` and `catalogue`. Networks and shares are small, so that ten
rounds take one core seconds; they are the same in every profile but `smoke`.
"""

from __future__ import annotations

from collections.abc import Iterator

from .records import Build, Cell, Clients, Data, Setting, Shares, Training

SEEDS = 3  # of every cell: other starts, other shares, other orders of examples
COUNTS = (4, 16)
EXAMPLES = {"mnist": 4000, "cifar10": 8000}  # all clients together: the more, the less clients differ after a round
TESTED = 2000  # test examples; accuracies are measured after every round
SHARES: dict[Shares, str] = {
    "iid": "iid",
    "dirichlet": "Dirichlet(0.5)",
    "disjoint": "disjoint classes",
}
STARTS = {True: "one start", False: "own starts"}
ROUNDED = ("fedavg", "fedprox", "fedavg-500", "rounds-auto", "rounds-auto-500", "alone-fedma", "alone-auto")
WIDTHS = {"": (64, 32), "-middle": (48, 24), "-narrow": (32, 16)}
# A local epoch a round, in so many rounds. Of the rates that were tried it is the best for FedAvg, by validation
# examples: docs/notes/federated.md.
TRAINING = Training("sgd", 0.1, epochs=10, batch=32, momentum=0.0)


def _setting(network: Build, data: str, view: str) -> Setting:
    chosen = Data(data, view, train=EXAMPLES[data], test=TESTED)  # type: ignore[arg-type]
    return Setting(network, chosen, TRAINING, SEEDS)


SETTINGS: dict[str, Setting] = {
    "federated-cnn": _setting(Build("cnn", {"widths": (8, 16), "hidden": 32}), "mnist", "channels"),
    "federated-cifar10": _setting(
        Build("cnn", {"widths": (8, 16, 32), "hidden": 32, "channels": 3, "size": 32}), "cifar10", "image"
    ),
    **{
        f"federated-mlp{name}": _setting(Build("mlpnet", {"hidden": hidden, "bias": True}), "mnist", "image")
        for name, hidden in WIDTHS.items()
    },
}
NETWORKS = {"MNIST MLP": "federated-mlp", "MNIST CNN": "federated-cnn", "CIFAR-10 CNN": "federated-cifar10"}


def _cells(title: str, setting: str) -> Iterator[Cell]:
    for count in COUNTS:
        family = f"{title}, {count} clients"
        for shares, shared in SHARES.items():
            for same, start in STARTS.items():
                clients = Clients(count, shares, same_start=same)
                yield Cell(f"{family}, {shared}, {start}", (setting,), ROUNDED, 1, family=family, clients=clients)


def _three_widths() -> Iterator[Cell]:
    """Clients of three widths, two of each, beside those of each width among themselves."""
    settings = tuple(f"federated-mlp{name}" for name in WIDTHS)
    rows = ("rounds-auto", "rounds-rematch", "rounds-apart")
    for shares, shared in SHARES.items():
        clients = Clients(6, shares, same_start=False)
        title = f"MNIST MLP, 6 clients of three widths, {shared}, own starts"
        yield Cell(title, settings, rows, 1, family="MNIST MLP, 6 clients of three widths", clients=clients)


CELLS = (
    *(cell for title, setting in NETWORKS.items() for cell in _cells(title, setting)),
    *_three_widths(),
)
