"""Peak memory of `fuse_states`, beside the sizes of what goes in and what comes out.

    python benchmarks/fuse_memory.py [--json FILE]

Every case runs in a process of its own. Counted is the resident memory of the process, every millisecond, over what it
was before the call: the inputs are there before and not counted.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

import transfuse

MEGABYTE = 2**20


def mlp() -> nn.Module:
    layers = [part for a, b in pairwise((512, 1024, 1024, 512, 10)) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def convolutional() -> nn.Module:
    layers: list[nn.Module] = []
    for a, b in pairwise((3, 128, 256, 512, 512)):
        layers += [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 4, 512), nn.ReLU(), nn.Linear(512, 10))


CASES = {
    "mlp": (mlp, lambda: torch.randn(2, 512)),
    "convolutional": (convolutional, lambda: torch.randn(2, 3, 32, 32)),
}


def size_of(state: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())


def resident() -> int:
    """Bytes of memory that the process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Peak(threading.Thread):
    """The most resident memory between start and end."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before, self.highest, self.over = resident(), 0, False

    def run(self) -> None:
        while not self.over:
            self.highest = max(self.highest, resident() - self.before)
            time.sleep(0.001)

    def end(self) -> int:
        self.over = True
        self.join()
        return self.highest


def measure(name: str, count: int, method: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    build, inputs = CASES[name]
    layout = transfuse.trace(build().eval(), inputs(), proof=False)
    states = [build().state_dict() for _ in range(count)]
    options = {"restarts": 0, "sweeps": 2} if method == "auto" else {}
    small = transfuse.parse("{spaces: {a: 64}, tensors: {up: [a, 64], down: [64, < a]}}")
    transfuse.fuse_states([{name: torch.randn(64, 64) for name in ("up", "down")}] * 2, small)  # libraries are loaded
    watch = Peak()
    watch.start()
    result = transfuse.fuse_states(states, layout, method=method, **options)
    highest = watch.end()
    output = size_of(result.state) + sum(map(size_of, (*result.aligned, *result.couplings)))
    largest = max(tensor.numel() * tensor.element_size() for tensor in states[0].values())
    return {
        "network": name, "models": count, "method": method, "inputs": sum(map(size_of, states)), "output": output,
        "largest": largest, "peak": highest, "over": (highest - output) / largest,
    }  # fmt: skip


def main() -> None:
    """Measure every case and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--methods", nargs="+", default=["auto", "wb"])
    options = parser.parse_args()
    columns = ("inputs", "output", "largest", "peak")
    print(
        f"{'network':<14} n {'method':<8} " + " ".join(f"{c:>8}" for c in columns) + "   MB; (peak - output) / largest"
    )
    rows = []
    for name in CASES:
        for count in (2, 8):
            for method in options.methods:
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    row = pool.apply(measure, (name, count, method))
                rows.append(row)
                sizes = " ".join(f"{row[key] / MEGABYTE:8.1f}" for key in columns)
                print(f"{name:<14} {count} {method:<8} {sizes} {row['over']:6.1f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
