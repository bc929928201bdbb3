"""How the time of one exact pass (`wb`) grows with width, depth and number of models.

    python benchmarks/growth.py [--widest 4096] [--json FILE] [--plot FILE]

MLPs with random weights, CPU seconds on one thread, the least of some repeats; beside it the floor of `fuse_time.py`.
The exponent is the slope of a line through the last three points, both axes logarithmic.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from clock import least
from fuse_time import floor, made_ready
from networks import mlp

import transfuse

LIMITS = {"width": 3, "depth": 1, "models": 1}


def cases(widest: int) -> list[tuple[str, int, tuple[int, ...], int]]:
    """What grows, how far, the sizes of the MLP, the number of models."""
    widths = [width for width in (256, 512, 1024, 2048, 4096, 8192) if width <= widest]
    return [
        *(("width", width, (64, width, width, 10), 2) for width in widths),
        *(("depth", depth, (256, *[256] * depth, 10), 2) for depth in (4, 8, 16, 32, 64)),
        *(("models", count, (256, 256, 256, 10), count) for count in (2, 4, 8, 16, 32)),
    ]


def measure(kind: str, size: int, sizes: tuple[int, ...], count: int, repeats: int) -> dict[str, Any]:
    """One point."""
    torch.manual_seed(0)
    model = mlp(*sizes).eval()
    layout = transfuse.trace(model, torch.randn(2, sizes[0]), proof=False)
    states = [mlp(*sizes).state_dict() for _ in range(count)]
    repeats = repeats if max(sizes) < 2048 else 1
    spent = least(lambda: transfuse.fuse_states(states, layout, method="wb", updates=0), repeats)
    ready = made_ready(states, layout, incoming=True)
    bare = least(lambda: floor(ready), repeats) * (count - 1)
    return {"against": kind, "size": size, "seconds": spent, "floor": bare}


def exponent(rows: Sequence[Mapping[str, Any]], kind: str) -> float:
    """The power by which the last three points grow."""
    own = [(row["size"], row["seconds"]) for row in rows if row["against"] == kind][-3:]
    sizes, times = np.log(np.array(own)).T
    return float(np.polyfit(sizes, times, 1)[0])


def plot(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Growth as a picture, with lines of the power that is allowed."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.2), layout="constrained")
    for axes, (kind, power) in zip(panels, LIMITS.items(), strict=True):
        own = [row for row in rows if row["against"] == kind]
        sizes, times = [row["size"] for row in own], [row["seconds"] for row in own]
        axes.loglog(sizes, times, "o-", color="C0", label="wb, whole")
        axes.loglog(sizes, [row["floor"] for row in own], ".:", color="C1", label="floor")
        line = [times[-1] * (size / sizes[-1]) ** power for size in sizes]
        axes.loglog(sizes, line, "--", color="0.6", label=f"{kind}$^{power}$" if power > 1 else "linear")
        axes.set_title(f"{kind}: exponent {exponent(rows, kind):.2f}", fontsize=10)
        axes.set(xlabel=kind, xticks=sizes, xticklabels=sizes)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    panels[0].set_ylabel("CPU seconds")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    """Measure every point and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widest", type=int, default=2048, help="up to 8192, which takes minutes")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--plot", type=Path, help="also draw them into this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = []
    for case in cases(options.widest):
        row = measure(*case, options.repeats)
        rows.append(row)
        print(f"{row['against']:<8} {row['size']:6d} {row['seconds']:9.4f} s, floor {row['floor']:9.4f} s", flush=True)
    print(", ".join(f"{kind}: exponent {exponent(rows, kind):.2f} (at most {top})" for kind, top in LIMITS.items()))
    if options.plot:
        plot(rows, options.plot)
    if options.json:
        options.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
