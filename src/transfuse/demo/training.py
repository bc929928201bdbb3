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

EPOCHS = {"mlp": 20, "cnn": 10, "lstm": 20}
RATES = {"mlp": 3e-3, "cnn": 5e-3, "lstm": 1e-2}
BATCH = 64


def base_network(kind: str, seed: int, folder: Path, *, fresh: bool = False) -> nn.Module:
    """A trained network, from the folder if it is kept there."""
    model = NETWORKS[kind]()
    path = folder / f"{kind}-{seed}.safetensors"
    if not fresh and path.exists():
        try:
            model.load_state_dict(dict(open_checkpoint(path).tensors))
            return model.eval()
        except (InputError, RuntimeError):  # of another version of the demo, or damaged: train again
            model = NETWORKS[kind]()
    model = trained(NETWORKS[kind], seed, epochs=EPOCHS[kind], rate=RATES[kind])
    state = model.state_dict()
    with whole_file(path) as temporary, temporary.open("wb") as file:
        write(file, list(entries_of(state).values()), state, {"format": "pt"})
    return model


def trained(build: Callable[[], nn.Module], seed: int, *, epochs: int, rate: float) -> nn.Module:
    """A network trained on the digits."""
    images, labels = digits("train")
    torch.manual_seed(seed)
    model = build().train()
    _fit(model, images, labels, epochs, rate)
    return model.eval()


def _fit(model: nn.Module, images: Tensor, labels: Tensor, epochs: int, rate: float) -> None:
    """Adam with one cycle of the learning rate."""
    optimiser = torch.optim.Adam(model.parameters())
    steps = epochs * -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(BATCH):
            optimiser.zero_grad()
            F.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimiser.step()
            schedule.step()
