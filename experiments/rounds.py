"""Federated rounds in a plain loop: clients train in turn, the federation joins what they send.

In: a job whose cell has clients, and its task. Out: accuracies after every round. No framework is needed: the same
`transfuse.Federation` is what the strategy for Flower asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import transfuse

from .data import Examples, Task
from .group import Group
from .jobs import Job
from .measuring import accuracy
from .networks import build
from .profiles import PROFILES
from .records import Clients, Setting, Training
from .rows import ROWS
from .skills import dealt

SERVER = 10_000  # the seed of the server's start is this one, and the number of the group: no client's


@dataclass(frozen=True, eq=False)
class Client:
    """A client: its network before it has seen anything, and its share of the examples."""

    number: int
    setting: Setting
    examples: Examples
    seed: int

    @cached_property
    def start(self) -> nn.Module:
        """A network with random weights of its own."""
        return _drawn(self.setting, self.seed)

    def trained(self, state: Mapping[str, Tensor], round_number: int, training: Training, mu: float) -> nn.Module:
        """Its network after some epochs from a state; `mu` is the weight of FedProx's pull back to that state."""
        model = build(self.setting.network)
        model.load_state_dict(dict(state))
        anchors = [parameter.detach().clone() for parameter in model.parameters()]
        optimiser = torch.optim.SGD(model.parameters(), training.rate, training.momentum)
        random = torch.Generator().manual_seed(1000 * self.seed + round_number)
        model.train()
        for _ in range(training.epochs):
            for rows in torch.randperm(len(self.examples), generator=random).split(training.batch):
                optimiser.zero_grad()
                loss = F.cross_entropy(model(self.examples.read(rows)), self.examples.labels[rows])
                if mu:
                    pairs = zip(model.parameters(), anchors, strict=True)
                    loss = loss + mu / 2 * sum((own - other).square().sum() for own, other in pairs)
                loss.backward()
                optimiser.step()
        return model


def clients_of(chosen: Clients, settings: Sequence[Setting], task: Task, group: int) -> list[Client]:
    """The clients of a cell; those to which no example fell are none. Settings go round among them."""
    parts = dealt(task.train.labels, chosen, group)
    return [
        Client(number, settings[number % len(settings)], task.train.part(rows), 100 * group + number)
        for number, rows in enumerate(parts)
        if len(rows)
    ]


def federated(job: Job, group: Group) -> dict[str, Any]:
    """Accuracies on the test examples after every round, of the server and of what narrower clients get."""
    row, chosen = ROWS[job.row], job.cell.clients
    assert chosen is not None, "the catalogue gives clients to cells with such rows"
    settings = {name: PROFILES[job.profile].settings[name] for name in job.cell.settings}
    members = clients_of(chosen, list(settings.values()), group.task, job.group)
    if not row.options.get("apart"):
        return _measured(job, group, members, settings)
    metrics: dict[str, float] = {}
    for name, setting in settings.items():
        own = [client for client in members if client.setting == setting]
        alone = _measured(job, group, own, {name: setting})
        metrics[_metric(name, settings)] = alone["metrics"]["accuracy"]
    return {"metrics": metrics}


def _metric(name: str, settings: Mapping[str, Setting]) -> str:
    """What the accuracy of a width is called: the widest has no name."""
    first = next(iter(settings))
    return "accuracy" if name == first else name.removeprefix(first).lstrip("-")


def _measured(job: Job, group: Group, members: Sequence[Client], settings: Mapping[str, Setting]) -> dict[str, Any]:
    row, chosen = ROWS[job.row], job.cell.clients
    assert chosen is not None, "the catalogue gives clients to cells with such rows"
    widest = next(iter(settings.values()))
    federation = transfuse.Federation.of(
        _drawn(widest, SERVER + job.group), group.task.train.read(slice(2)), layout=group.layout,
        method=row.options["method"], correct=row.options.get("correct", "none"),
        correct_until=row.options.get("until"), rematch=row.options.get("rematch", False),
        data=group.unlabeled(row.unlabeled), seed=job.group,
    )  # fmt: skip
    once = bool(row.options.get("alone"))
    training = widest.training
    rounds, epochs = (1, training.epochs) if once else (training.epochs, 1)
    curve, seconds = [_accuracy(federation, widest, group)], 0.0
    for number in range(1, rounds + 1):
        replies = [_reply(client, federation, number, chosen, epochs, row.options.get("mu", 0.0)) for client in members]
        federation, told = federation.joined(replies)
        seconds += told.details.get("seconds", 0.0)
        curve.append(_accuracy(federation, widest, group))
    widths = {
        _metric(name, settings): _accuracy(federation, setting, group, members) for name, setting in settings.items()
    }
    return {
        "metrics": {**widths, **({} if once else {"after one round": curve[1]})},
        "curve": None if once else [round(each, 2) for each in curve],
        "fusing_seconds": round(seconds, 3),
        "status": told.status,
    }


def _reply(
    client: Client, federation: transfuse.Federation, number: int, chosen: Clients, epochs: int, mu: float
) -> transfuse.Reply:
    """What a client sends: it trains what it gets, or in the first round its own start."""
    own = client.start.state_dict()
    sent = federation.sent_to(client.number)
    fits = all(own[name].shape == tensor.shape for name, tensor in sent.items())
    state = sent if fits and (chosen.same_start or number > 1) else own
    training = client.setting.training
    trained = client.trained(
        state, number, Training("sgd", training.rate, epochs, training.batch, training.momentum), mu
    )
    return transfuse.Reply(client.number, trained.state_dict(), len(client.examples))


def _accuracy(
    federation: transfuse.Federation, setting: Setting, group: Group, members: Sequence[Client] = ()
) -> float:
    """Of the server's state, or of what the first client of a setting gets."""
    client = next((each.number for each in members if each.setting == setting), None)
    model = build(setting.network)
    model.load_state_dict(dict(federation.state if client is None else federation.sent_to(client)))
    return accuracy(model, group.task.test)


def _drawn(setting: Setting, seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(setting.network)
