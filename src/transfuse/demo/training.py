"""Base networks for the demo: trained in seconds, kept as checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..checkpoints import open_checkpoint
from ..checkpoints.safetensors_file import write
from ..errors import InputError
from ..files import whole_file
from ..lazy import entries_of
from .data import digits
from .networks import NETWORKS

# Chosen so that all six networks are trained in about ten seconds on one core, and reach 97 to 99 percent.
EPOCHS = {"mlp": 20, "cnn": 10, "lstm": 20}  # passes over the training images
RATES = {"mlp": 3e-3, "cnn": 5e-3, "lstm": 1e-2}  # the highest learning rate of the cycle
BATCH = 64  # images


def base_network(kind: str, seed: int, folder: Path, *, fresh: bool = False) -> nn.Module:
    """A trained network: read from the folder if it is kept there, otherwise trained and kept."""
    path = folder / f"{kind}-{seed}.safetensors"
    if not fresh and path.exists() and (kept := _kept(NETWORKS[kind](), path)):
        return kept
    model = trained(NETWORKS[kind], seed, epochs=EPOCHS[kind], rate=RATES[kind])
    state = model.state_dict()
    with whole_file(path) as temporary, temporary.open("wb") as file:
        write(file, list(entries_of(state).values()), state, {"format": "pt"})
    return model


def _kept(model: nn.Module, path: Path) -> nn.Module | None:
    """A network with the weights of a file; nothing if the file is damaged, or of another version of the demo."""
    try:
        model.load_state_dict(dict(open_checkpoint(path).tensors))
    except (InputError, RuntimeError):  # from reading, and from tensors that do not fit: both are trained again
        return None
    return model.eval()


def trained(build: Callable[[], nn.Module], seed: int, *, epochs: int, rate: float) -> nn.Module:
    """A network trained on the digits, in evaluation mode."""
    images, labels = digits("train")
    torch.manual_seed(seed)
    model = build().train()
    _fit(model, images, labels, epochs, rate)
    return model.eval()


def _fit(model: nn.Module, images: Tensor, labels: Tensor, epochs: int, rate: float) -> None:
    """Train by Adam with one cycle of the learning rate, in place."""
    optimiser = torch.optim.Adam(model.parameters())
    steps = epochs * -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(BATCH):
            optimiser.zero_grad()
            F.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimiser.step()
            schedule.step()
