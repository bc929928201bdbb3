"""Fuse pairs (and larger groups) of networks trained on MNIST, without data, and measure test accuracy.

    TRANSFUSE_DATA=folder python experiments/mnist_pairs.py [--networks MLP RNN LSTM] [--methods auto wb ...]

The folder holds `mnist/` with the four original `.gz` files. Base networks (seeds 0 to 5, a few epochs) are trained
once and kept in `--cache`. Without biases, as in the paper: MLPNet 784-400-200-100-10 with ReLU; RNN and LSTM with 256
units that read the rows of the image, and a linear layer on the last state.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import transfuse

PAIRS = ((0, 1), (2, 3), (4, 5))
EPOCHS = {"MLP": 10, "RNN": 5, "LSTM": 3}


class MLPNet(nn.Module):
    """Fully connected, ReLU, no biases."""

    def __init__(self, *hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise((784, *hidden, 10)))

    def forward(self, images: Tensor) -> Tensor:
        """Scores of images [batch, 28, 28]."""
        x = images.flatten(1)
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


class Recurrent(nn.Module):
    """Rows of an image as steps."""

    def __init__(self, cell: type[nn.RNNBase]) -> None:
        super().__init__()
        self.cell = cell(28, 256, bias=False, batch_first=True)
        self.read = nn.Linear(256, 10, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of images [batch, 28, 28]."""
        return self.read(self.cell(images)[0][:, -1])


BUILD = {
    "MLP": lambda: MLPNet(400, 200, 100),
    "RNN": lambda: Recurrent(nn.RNN),
    "LSTM": lambda: Recurrent(nn.LSTM),
}


def read_idx(path: Path) -> Tensor:
    """An array in the IDX format, gzipped."""
    if not path.exists():
        raise SystemExit(f"{path} is missing; put the four original MNIST files (.gz) there, or set TRANSFUSE_DATA")
    data = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape).copy())


def mnist(part: str) -> tuple[Tensor, Tensor]:
    """Images, normalised, and labels of `train` or `t10k`."""
    folder = Path(os.environ.get("TRANSFUSE_DATA", "data")) / "mnist"
    images = (read_idx(folder / f"{part}-images-idx3-ubyte.gz").float() / 255 - 0.1307) / 0.3081
    return images, read_idx(folder / f"{part}-labels-idx1-ubyte.gz").long()


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Share of right answers, in percent."""
    model.eval()
    with torch.no_grad():
        answers = torch.cat([model(part).argmax(1) for part in images.split(1000)])
    return 100 * float((answers == labels).float().mean())


def train(kind: str, seed: int, images: Tensor, labels: Tensor) -> nn.Module:
    """One base network: SGD for the MLP, Adam with clipped gradients for the recurrent ones."""
    torch.manual_seed(seed)
    model = BUILD[kind]().train()
    plain = kind == "MLP"
    parameters = list(model.parameters())
    optimiser = (
        torch.optim.SGD(parameters, 0.05, 0.5) if plain else torch.optim.Adam(parameters, 1e-3, weight_decay=1e-4)
    )
    for epoch in range(EPOCHS[kind]):
        if not plain and epoch == EPOCHS[kind] - 1:
            optimiser.param_groups[0]["lr"] = 3e-4
        for rows in torch.randperm(len(images)).split(64 if plain else 128):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            if not plain:
                nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
    return model


def base_network(kind: str, seed: int, cache: Path, data: tuple[Tensor, Tensor]) -> nn.Module:
    """From the cache, or trained and kept there (written whole or not at all)."""
    path = cache / f"{kind}_{seed}.pt"
    model = BUILD[kind]()
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        print(f"training {kind} {seed} ...", flush=True)
        part = path.with_suffix(".part")
        torch.save(train(kind, seed, *data).state_dict(), part)
        part.replace(path)
    model.load_state_dict(torch.load(path, weights_only=True))
    return model


def report(name: str, results: list[float], started: float) -> None:
    """One line of the table."""
    spread = statistics.stdev(results) if len(results) > 1 else 0.0
    each = " ".join(f"{result:.2f}" for result in results)
    seconds = (time.perf_counter() - started) / len(results)
    print(f"  {name:<22} {statistics.mean(results):6.2f} +- {spread:.2f}   ({each})   {seconds:.1f} s each", flush=True)


def main() -> None:
    """Train or load, fuse, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=BUILD, default=list(BUILD))
    parser.add_argument("--methods", nargs="+", choices=transfuse.METHODS, default=list(transfuse.METHODS))
    parser.add_argument("--cache", type=Path, default=Path("experiments/.cache"))
    options = parser.parse_args()
    data, (images, labels) = mnist("train"), mnist("t10k")
    for kind in options.networks:
        models = [base_network(kind, seed, options.cache, data) for seed in range(6)]
        layout = transfuse.trace(models[0], images[:2])
        print(f"{kind}: test accuracy, mean and standard deviation over {len(PAIRS)} pairs")
        report("base networks", [accuracy(model, images, labels) for model in models], time.perf_counter())
        for method in options.methods:
            started = time.perf_counter()
            fused = [transfuse.fuse([models[a], models[b]], layout=layout, method=method).model for a, b in PAIRS]
            report(method, [accuracy(model, images, labels) for model in fused], started)
        if kind == "MLP":
            for group in ((0, 1), (0, 1, 2, 3), (0, 1, 2, 3, 4, 5)):
                started, target = time.perf_counter(), MLPNet(800, 400, 200)
                fused = transfuse.fuse([models[i] for i in group], layout=layout, target=target).model
                report(f"auto, {len(group)} into MLPLarge", [accuracy(fused, images, labels)], started)


if __name__ == "__main__":
    main()
