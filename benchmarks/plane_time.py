"""Time of a plane beside the time of as many bare forward passes in the same run.

    TRANSFUSE_DATA=folder python benchmarks/plane_time.py [--grid 21] [--json FILE]

MNIST MLPNet (784-400-200-100-10, no biases; random weights, which cost what trained ones do) on the 10,000 test images
in batches of 1,000. The folder holds `mnist/t10k-images-idx3-ubyte.gz` and the labels; without it, noise of the same
shape is used. A bare pass is the forward of one network on all images, without gradients, loss or error. Passes and
planes take turns, and the ratio is told for wall time and for processor time: the machine may be busy.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from networks import mlpnet
from torch import Tensor, nn

import transfuse


def images_and_labels() -> tuple[Tensor, Tensor]:
    """The MNIST test images, flat, and their labels; or noise."""
    folder = Path(os.environ.get("TRANSFUSE_DATA", "data")) / "mnist"
    try:
        images = gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes())
    except FileNotFoundError:
        print("no MNIST found, noise instead")
        return torch.randn(10000, 784), torch.randint(10, (10000,))
    pixels = torch.from_numpy(np.frombuffer(images, np.uint8, offset=16).copy()).view(-1, 784).float() / 255
    return pixels, torch.from_numpy(np.frombuffer(labels, np.uint8, offset=8).copy()).long()


def bare_passes(model: nn.Module, batches: list[tuple[Tensor, Tensor]], count: int) -> None:
    """Forward passes and nothing else."""
    with torch.no_grad():
        for _ in range(count):
            for images, _labels in batches:
                model(images)


def seconds(function: Callable[[], object]) -> tuple[float, float]:
    """Wall time and processor time of a call."""
    wall, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - processor


def main() -> None:
    """Measure, print and perhaps write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=21)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    torch.manual_seed(0)
    networks = [mlpnet().eval() for _ in range(3)]
    images, labels = images_and_labels()
    batches = list(zip(images.split(1000), labels.split(1000), strict=True))
    evaluate, count = transfuse.evaluator(batches), options.grid**2
    bare_passes(networks[0], batches, 5)
    rows = []
    for _ in range(options.repeats):
        bare = seconds(lambda: bare_passes(networks[0], batches, count))
        whole = seconds(lambda: transfuse.plane(*networks, evaluate, grid=options.grid))
        rows.append({"bare": bare, "plane": whole, "wall": whole[0] / bare[0], "processor": whole[1] / bare[1]})
        print(f"{count} bare passes {bare[0]:.1f} s, plane {whole[0]:.1f} s (processor {bare[1]:.1f}, {whole[1]:.1f})")
    ratios = {name: statistics.median(row[name] for row in rows) for name in ("wall", "processor")}
    told = ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())
    print(f"median ratio: {told} (at most 1.3 is wanted), {torch.get_num_threads()} thread(s)")
    if options.json:
        options.json.write_text(json.dumps({"torch": torch.__version__, **ratios, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
