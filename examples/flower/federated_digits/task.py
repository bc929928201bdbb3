"""What is learnt: digits that ship with transfuse, a small network, and how both are trained and measured."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transfuse.demo.data import digits

CLASSES, SEEN = 10, 6  # every client has seen so many of the ten digits


def network(seed: int) -> nn.Module:
    """Two convolutions and a linear layer, with random weights that depend on the seed alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 2 * 2, 32), nn.ReLU(), nn.Linear(32, CLASSES),
        )  # fmt: skip


def share(client: int, clients: int) -> tuple[Tensor, Tensor]:
    """The images and labels of a client: its own part of the training images, and of six digits only."""
    images, labels = digits("train")
    images, labels = images[client::clients], labels[client::clients]
    known = torch.tensor([(3 * client + number) % CLASSES for number in range(SEEN)])
    rows = torch.isin(labels, known)
    return images[rows], labels[rows]


def train(model: nn.Module, images: Tensor, labels: Tensor, *, epochs: int, rate: float) -> float:
    """Train a model in place; the mean loss of the last epoch."""
    optimiser = torch.optim.SGD(model.parameters(), rate)
    random, total = torch.Generator().manual_seed(0), 0.0
    model.train()
    for _ in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(labels), generator=random).split(16):
            optimiser.zero_grad()
            loss = F.cross_entropy(model(images[rows]), labels[rows])
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(rows)
    return total / len(labels)


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The share of right answers, in percent."""
    model.eval()
    return 100 * float((model(images).argmax(1) == labels).float().mean())
