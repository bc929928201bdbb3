"""Fuse pairs (and larger groups) of networks trained on MNIST, and measure test accuracy.

    TRANSFUSE_DATA=folder python experiments/mnist_pairs.py [--networks MLP RNN LSTM] [--methods auto wb ...]
        [--unlabeled 10 100 ...] [--groups] [--results lines.jsonl]

The folder holds `mnist/` with the four original `.gz` files. Base networks (seeds 0 to 9, a few epochs) are trained
once and kept in `--cache`. As in the paper, without biases: MLPNet 784-400-200-100-10 with ReLU; RNN and LSTM with 256
units that read the rows of the image, and a linear layer on the last state. Methods get no data; `auto` is measured
with and without its last step (a refit on noise), and with the first images of the training set, without labels.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import transfuse
from transfuse.networks import lstm, mlplarge, mlpnet, rnn

PAIRS = tuple((2 * i, 2 * i + 1) for i in range(5))
GROUPS = {2: PAIRS, 4: ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)), 6: ((0, 1, 2, 3, 4, 5), (6, 7, 8, 9, 10, 11))}
EPOCHS = {"MLP": 10, "RNN": 5, "LSTM": 3}
BUILD: dict[str, Callable[[], nn.Module]] = {"MLP": mlpnet, "RNN": rnn, "LSTM": lstm}


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


@dataclass(frozen=True)
class Bench:
    """What is measured, and where results go: one JSON line each."""

    kind: str
    images: Tensor
    labels: Tensor
    results: Path | None

    def measure(self, name: str, groups: Sequence[Sequence[nn.Module]], options: Mapping[str, Any]) -> None:
        """Fuse every group, print mean and standard deviation, write the lines."""
        accuracies, started = [], time.process_time()
        for number, models in enumerate(groups):
            fusion = transfuse.fuse(models, self.images[:2], **options)
            accuracies.append(accuracy(fusion.model, self.images, self.labels))
            self._write({"row": name, "group": number, "accuracy": accuracies[-1], "finish": str(fusion.recalibration)})
        self.show(name, accuracies, (time.process_time() - started) / len(groups))

    def show(self, name: str, accuracies: Sequence[float], seconds: float) -> None:
        """One line of the table."""
        spread = statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0
        each = " ".join(f"{result:.2f}" for result in accuracies)
        print(
            f"  {name:<28} {statistics.mean(accuracies):6.2f} +- {spread:.2f}   ({each})   {seconds:.1f} s", flush=True
        )

    def _write(self, line: dict[str, Any]) -> None:
        if self.results is not None:
            with self.results.open("a") as file:
                file.write(json.dumps({"network": self.kind, "version": transfuse.__version__, **line}) + "\n")


def main() -> None:
    """Train or load, fuse, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=BUILD, default=list(BUILD))
    parser.add_argument(
        "--methods", nargs="*", choices=transfuse.METHODS, default=["vanilla", "ot", "wb", "gwb", "auto"]
    )
    parser.add_argument(
        "--unlabeled", nargs="*", type=int, default=[], help="numbers of training images without labels"
    )
    parser.add_argument("--groups", action="store_true", help="also two, four and six MLPNets into MLPLarge")
    parser.add_argument("--cache", type=Path, default=Path("experiments/.cache"))
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    data, (images, labels) = mnist("train"), mnist("t10k")
    for kind in options.networks:
        bench = Bench(kind, images, labels, options.results)
        models = [base_network(kind, seed, options.cache, data) for seed in range(12 if kind == "MLP" else 10)]
        pairs = [[models[a], models[b]] for a, b in PAIRS]
        print(f"{kind}: test accuracy, mean and standard deviation over {len(pairs)} pairs")
        bench.show("base networks", [accuracy(model, images, labels) for model in models[:10]], 0.0)
        for method in options.methods:
            if method == "auto":
                bench.measure("auto, no last step", pairs, {"finish": "none"})
            bench.measure(method, pairs, {"method": method, "seed": 0})
        for count in options.unlabeled:
            bench.measure(f"auto, {count} unlabeled images", pairs, {"data": data[0][:count]})
        if kind == "MLP" and options.groups:
            for size, groups in GROUPS.items():
                chosen = [[models[i] for i in group] for group in groups]
                bench.measure(f"auto, {size} into MLPLarge", chosen, {"target": mlplarge()})
                if size == 4:
                    bench.measure("auto, 4 of equal widths", chosen, {})
                    bench.measure("the same, 500 images", chosen, {"data": data[0][:500]})


if __name__ == "__main__":
    main()
