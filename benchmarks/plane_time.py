"""Time of a plane beside the time of as many bare forward passes in the same run.

    TRANSFUSE_DATA=folder python benchmarks/plane_time.py [--grid 21] [--json FILE]

MNIST MLPNet (784-400-200-100-10, no biases; random weights, which cost what trained ones do) on the 10,000 test images
in batches of 1,000. The folder holds `mnist/t10k-images-idx3-ubyte.gz` and the labels; without it, noise of the same
shape is used. A bare pass is the forward of one network on all images, without gradients, loss or error. One is run
beside each point of the plane, so that both meet the same machine, however busy; the ratio is that of the time of the
plane, without them, to 441 of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from networks import mlpnet
from torch import Tensor, nn

import transfuse
from transfuse.types import Array


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


def clocks() -> Array:
    """Wall time and processor time."""
    return np.array([time.perf_counter(), time.process_time()])


def turn(networks: list[nn.Module], batches: list[tuple[Tensor, Tensor]], grid: int) -> tuple[Array, Array]:
    """The times of as many bare passes as the plane has points, and of the plane."""
    evaluate, bare, calls = transfuse.evaluator(batches), np.zeros(2), 0

    def beside(model: nn.Module) -> dict[str, float]:
        nonlocal bare, calls
        start = clocks()
        for images, _labels in batches:
            networks[0](images)
        bare, calls = bare + clocks() - start, calls + 1
        return evaluate(model)

    start = clocks()
    transfuse.plane(*networks, beside, grid=grid)
    whole = clocks() - start - bare
    return bare * grid**2 / calls, whole


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
    turn(networks, batches, 3)
    rows = []
    for _ in range(options.repeats):
        bare, whole = turn(networks, batches, options.grid)
        rows.append({"bare": bare.tolist(), "plane": whole.tolist(), "ratio": (whole / bare).tolist()})
        print(f"{options.grid**2} bare passes {bare[0]:.1f} s, plane {whole[0]:.1f} s, ratio {whole[0] / bare[0]:.3f} "
              f"(processor {bare[1]:.1f}, {whole[1]:.1f}, {whole[1] / bare[1]:.3f})", flush=True)  # fmt: skip
    ratio = statistics.median(row["ratio"][0] for row in rows)
    print(f"median ratio {ratio:.3f} (at most 1.3 is wanted), {torch.get_num_threads()} thread(s)")
    if options.json:
        options.json.write_text(json.dumps({"torch": torch.__version__, "ratio": ratio, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
