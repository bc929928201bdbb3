"""Base networks: trained once, kept under a fingerprint of their configuration, taken up where a kill left them.

In: a setting and a seed. Out: a network and where it comes from. After each epoch all that decides the rest is kept
(weights, optimiser, random state), so a killed training ends with the same weights as one that was left alone. The
random state of the program is neither used nor changed.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transfuse import InputError
from transfuse.landscape import Workers
from transfuse.networks import Residual

from .data import Examples, Task, load
from .keeping import save
from .measuring import accuracy, loss_of
from .networks import build
from .plain import fingerprint
from .records import Setting, Training

SUFFIXES = (".pt", ".pth", ".safetensors")
SHIFT = 4  # pixels


@dataclass(frozen=True)
class Place:
    """Where networks are kept and found.

    Args:
        cache: The folder of trained networks.
        base_models: A folder of networks from elsewhere: `<setting>_<seed>.pt` (or .pth, .safetensors).
        device: Where networks are trained.
        workers: Processes that measure landscapes, 0 for this one; or an executor.
    """

    cache: Path
    base_models: Path | None = None
    device: str = "cpu"
    workers: Workers = 0


@dataclass(frozen=True, eq=False)
class Base:
    """A base network, and what a result says about it."""

    model: nn.Module
    origin: dict[str, Any]


def base_network(name: str, setting: Setting, seed: int, place: Place) -> Base:
    """From elsewhere if it is there, else from the cache, else trained and kept."""
    if (found := _elsewhere(name, setting, seed, place.base_models)) is not None:
        origin = {"seed": seed, "file": found.name, "sha256": identity(name, setting, seed, place)}
        return Base(_with_state(setting, _read(found), found), origin)
    path = kept_at(setting, seed, place.cache)
    if not path.exists():
        train(setting, seed, place)
    kept = torch.load(path, weights_only=True)
    origin = {"seed": seed, "trained": path.stem, "seconds": kept["seconds"]}
    return Base(_with_state(setting, kept["state"], path), origin)


def identity(name: str, setting: Setting, seed: int, place: Place) -> str:
    """What tells a base network from others, before it is there."""
    if (found := _elsewhere(name, setting, seed, place.base_models)) is not None:
        return hashlib.sha256(found.read_bytes()).hexdigest()[:16]
    return fingerprint(setting.base(seed))


def kept_at(setting: Setting, seed: int, cache: Path) -> Path:
    """The file of a trained network."""
    return cache / f"{setting.network.name}-{fingerprint(setting.base(seed))}.pt"


def train(setting: Setting, seed: int, place: Place) -> None:
    """Train a network and keep it; go on where an earlier call was ended."""
    path = kept_at(setting, seed, place.cache)
    progress = path.with_suffix(".progress")
    task, course = load(setting.seen_by(seed)), Course(setting, seed, place.device)
    if progress.exists():
        course.restore(torch.load(progress, weights_only=True))
    elif (start := setting.start) is not None:
        course.go_on_from(base_network(start.name, start.setting, start.seed(seed), place).model)
    for epoch in range(course.epoch, setting.training.epochs):
        course.run_epoch(task)
        save(progress, course.state())
        print(f"  {setting.network.name} {seed}: epoch {epoch + 1} of {setting.training.epochs}", flush=True)
    save(path, {"state": course.result(), "seconds": course.seconds})
    progress.unlink(missing_ok=True)


class Course:
    """A training under way. It changes with every epoch; `state` is all of it."""

    def __init__(self, setting: Setting, seed: int, device: str) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = build(setting.network)
            if setting.training.initial == "he":
                keep_signals(model)
            # Convolutions on two cores are up to 1.6 times as fast with the channels last; others do not mind.
            self.model = model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.training, self.device = setting.training, device
        self.optimiser = _optimiser(self.model, setting.training)
        self.random = torch.Generator().manual_seed(seed)
        self.epoch, self.seconds = 0, 0.0
        self.best: dict[str, Any] = {"accuracy": -1.0, "state": {}}

    def run_epoch(self, task: Task) -> None:
        """One pass over the training examples."""
        started = time.perf_counter()
        self.model.train()
        batches = torch.randperm(len(task.train), generator=self.random).split(self.training.batch)
        for number, rows in enumerate(batches):
            rate = rate_at(self.training, self.epoch, number / len(batches))
            self.optimiser.param_groups[0]["lr"] = rate
            self._step(task.train, rows)
        self.epoch += 1
        if self.training.keep == "best":
            reached = accuracy(self.model, task.validation, self.device)
            if reached > self.best["accuracy"]:
                self.best = {"accuracy": reached, "state": _copied(self.model)}
        self.seconds += time.perf_counter() - started

    def _step(self, examples: Examples, rows: Tensor) -> None:
        inputs = examples.unpadded(rows)
        if self.training.augment:
            inputs = augmented(inputs, self.random)
        self.optimiser.zero_grad()
        with torch.autocast(self.device, torch.bfloat16, enabled=self.training.precision == "mixed"):
            scores = self.model(inputs.to(self.device))
        loss_of(scores.float(), examples.labels[rows].to(self.device)).backward()
        if self.training.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.training.clip)
        self.optimiser.step()

    def state(self) -> dict[str, Any]:
        """All that decides how it goes on."""
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "random": self.random.get_state(),
            "epoch": self.epoch,
            "seconds": self.seconds,
            "best": self.best,
        }

    def go_on_from(self, trained: nn.Module) -> None:
        """Take over the weights of a trained network; the optimiser starts anew."""
        self.model.load_state_dict(trained.state_dict())

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.random.set_state(state["random"])
        self.epoch, self.seconds, self.best = state["epoch"], state["seconds"], state["best"]

    def result(self) -> dict[str, Tensor]:
        """The weights that are kept."""
        return self.best["state"] if self.training.keep == "best" else _copied(self.model)


def rate_at(training: Training, epoch: int, done: float) -> float:
    """The learning rate in an epoch of which a share is done.

    Example:
        >>> sgd = Training("sgd", 1.0, epochs=4, batch=1, schedule="steps", milestones=(1, 3), factor=0.5)
        >>> [rate_at(sgd, epoch, 0.0) for epoch in range(4)]
        [1.0, 0.5, 0.5, 0.25]
    """
    if training.schedule == "constant":
        return training.rate
    if training.schedule == "steps":
        return training.rate * training.factor ** sum(epoch >= each for each in training.milestones)
    time_passed, top = (epoch + done) / training.epochs, 0.3
    if time_passed < top:
        return training.rate * (0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * time_passed / top)))
    return training.rate * 0.5 * (1 + math.cos(math.pi * (time_passed - top) / (1 - top)))


def augmented(images: Tensor, random: torch.Generator) -> Tensor:
    """Images [batch, channels, height, width], half of them mirrored, each shifted by up to four pixels."""
    count, _, height, width = images.shape
    mirrored = torch.rand(count, generator=random) < 0.5
    images = torch.where(mirrored.view(-1, 1, 1, 1), images.flip(3), images)
    top, left = torch.randint(0, 2 * SHIFT + 1, (2, count, 1, 1, 1), generator=random)
    rows, columns = torch.arange(height).view(1, 1, -1, 1) + top, torch.arange(width).view(1, 1, 1, -1) + left
    wide = F.pad(images, (SHIFT,) * 4)
    channels = torch.arange(images.shape[1]).view(1, -1, 1, 1)
    shifted: Tensor = wide[torch.arange(count).view(-1, 1, 1, 1), channels, rows, columns]
    return shifted


def keep_signals(model: nn.Module) -> None:
    """Give convolutions weights by which a deep network without norms learns from the first step on, in place.

    Their variances are by He et al. (2015, arXiv:1502.01852): a signal keeps its size from layer to layer. The end of
    a residual branch begins with zeros, so that a block begins as its shortcut and does not add to the signal, as in
    Fixup (Zhang, Dauphin and Ma 2019, arXiv:1901.09321), whose scalars would make other networks of them.

    Example:
        >>> from experiments.records import Build
        >>> plain = build(Build("resnet18_plain", {"width": 2}))
        >>> keep_signals(plain)
        >>> bool(plain.stages[0][0].conv1.weight.any()), bool(plain.stages[0][0].conv2.weight.any())
        (True, False)
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    for module in model.modules():
        if isinstance(module, Residual):
            nn.init.zeros_(module.conv2.weight)


def _optimiser(model: nn.Module, training: Training) -> torch.optim.Optimizer:
    if training.optimiser == "sgd":
        return torch.optim.SGD(model.parameters(), training.rate, training.momentum, weight_decay=training.decay)
    return torch.optim.Adam(
        model.parameters(), training.rate, betas=(training.momentum, 0.999), weight_decay=training.decay
    )


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}


def _elsewhere(name: str, setting: Setting, seed: int, folder: Path | None) -> Path | None:
    if folder is None:
        return None
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; --base-models takes one with files such as {name}_{seed}.pt")
    stems = [f"{prefix}_{seed}" for prefix in (name, *setting.files)]
    paths: Sequence[Path] = [folder / (stem + suffix) for stem in stems for suffix in SUFFIXES]
    return next((path for path in paths if path.is_file()), None)


def _read(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return dict(load_file(path))
    found = torch.load(path, weights_only=True, map_location="cpu")
    return dict(found.get("state", found))


def _with_state(setting: Setting, state: dict[str, Tensor], path: Path) -> nn.Module:
    """A network with the weights of a file, in evaluation mode and single precision."""
    model = build(setting.network)
    try:
        model.load_state_dict({name: x.float() if x.is_floating_point() else x for name, x in state.items()})
    except RuntimeError as error:
        raise InputError(f"{path} does not hold {setting.network}: {error}") from error
    return model.eval()
