"""CPU time of `fuse_states`, beside the floor of the same run: the bare matrix products and one assignment per space.

    python benchmarks/fuse_time.py [--json FILE] [--plot FILE] [--networks NAME ...]

Random weights, float32, one thread. Counted are CPU seconds of this process; each figure is the least of some repeats.
The floor of one pass takes, for each model but the first and each space, the products of what the space's scores are
made of (incoming weights for `wb`, all for `auto`), from matrices that lie ready, and solves one assignment. Nothing is
checked, moved, averaged or written in it. The floor of `auto` is that of one pass, times its sweeps from all starts;
placing all models once is a sweep. Where a space stands twice on a tensor, up to 22 assignments are solved for it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import lap
import torch
from networks import CASES, Case
from torch import Tensor, nn

import transfuse
from transfuse.layout import Block, Layout

SMALL = ("MLPNet", "RNN-256", "LSTM-256")
DEFAULT = ("MLPNet", "VGG11", "ResNet18", "RNN-256", "LSTM-256", "MLP-4096")


def mlp(*sizes: int) -> nn.Module:
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


WIDE = Case("MLP-4096", lambda: mlp(1024, 4096, 4096, 10), lambda: torch.randn(2, 1024))


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """The least CPU time of a call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def matrices(state: Mapping[str, Tensor], blocks: Sequence[Block]) -> list[Tensor]:
    """What each block holds of each unit, [units, values]."""
    found = []
    for block in blocks:
        places = torch.from_numpy(block.positions.ravel())
        rows = state[block.tensor].index_select(block.axis, places).movedim(block.axis, 0)
        found.append(rows.reshape(len(block.positions), -1).contiguous())
    return found


def floor(states: Sequence[Mapping[str, Tensor]], layout: Layout, *, incoming: bool, repeats: int) -> float:
    """CPU seconds of the products and assignments of one pass over all spaces and all models but the first."""
    total = 0.0
    for space in layout.spaces:
        blocks = [
            block
            for block in layout.blocks(layout.widths(states[0]))
            if block.space == space.name
            and states[0][block.tensor].is_floating_point()
            and not (incoming and block.side == "consumes")
        ]
        ours, theirs = (matrices(state, blocks) for state in states[:2])

        def once(ours: Sequence[Tensor] = ours, theirs: Sequence[Tensor] = theirs) -> None:
            scores = torch.zeros(len(ours[0]), len(ours[0]))
            for left, right in zip(ours, theirs, strict=True):
                scores.addmm_(left, right.T)
            lap.lapjvs((scores.max() - scores).double().numpy(), return_cost=False)

        if blocks:
            total += seconds(once, repeats)
    return total * (len(states) - 1)


def measure(case: Case, count: int, methods: Sequence[str], repeats: int) -> list[dict[str, Any]]:
    """One row for each method."""
    torch.manual_seed(0)
    layout = transfuse.trace(case.build().eval(), case.inputs(), proof=False)
    states = [case.build().state_dict() for _ in range(count)]
    rows = []
    for method in methods:
        options = {"restarts": 0} if method == "auto" else {}
        ended: list[str] = []

        def watch(stage: str, done: int, total: int, ended: list[str] = ended) -> None:
            ended += [stage] if done == total else []

        result = transfuse.fuse_states(states, layout, method=method, progress=watch, **options)
        spent = seconds(lambda m=method, o=options: transfuse.fuse_states(states, layout, method=m, **o), repeats)
        bare = floor(states, layout, incoming=method != "auto", repeats=repeats)
        placings = sum("placing" in stage for stage in ended) // (count - 1)
        sweeps = placings + sum("sweep" in stage for stage in ended) if method == "auto" else 1
        rows.append({
            "network": case.name, "models": count, "method": method, "seconds": spent, "floor": bare, "sweeps": sweeps,
            "times": spent / (bare * sweeps), "status": result.status,
        })  # fmt: skip
    return rows


def growth(repeats: int) -> list[dict[str, Any]]:
    """Time against width, depth and number of models, each with the others small."""
    cases = [("width", width, mlp(64, width, width, 10), 2) for width in (128, 256, 512, 1024, 2048)]
    cases += [("depth", depth, mlp(64, *[128] * depth, 10), 2) for depth in (2, 4, 8, 16, 32)]
    cases += [("models", count, mlp(64, 128, 128, 10), count) for count in (2, 4, 8, 16)]
    rows = []
    for kind, size, model, count in cases:
        torch.manual_seed(0)
        layout = transfuse.trace(model.eval(), torch.randn(2, 64), proof=False)
        states = [{name: torch.randn_like(t) for name, t in model.state_dict().items()} for _ in range(count)]
        spent = seconds(lambda s=states, la=layout: transfuse.fuse_states(s, la, method="wb", updates=0), repeats)
        rows.append({"against": kind, "size": size, "seconds": spent})
        print(f"{kind:<8} {size:6d} {spent:9.4f} s", flush=True)
    return rows


def plot(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Growth as a picture, with a line of slope 1 (and 3 for the width)."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
    for axes, (kind, power) in zip(panels, (("width", 3), ("depth", 1), ("models", 1)), strict=True):
        own = [(row["size"], row["seconds"]) for row in rows if row["against"] == kind]
        sizes, times = zip(*own, strict=True)
        axes.loglog(sizes, times, "o-", label="measured")
        axes.loglog(sizes, [times[-1] * (s / sizes[-1]) ** power for s in sizes], "--", label=f"power {power}")
        axes.set(xlabel=kind, xticks=sizes, xticklabels=sizes)
        axes.minorticks_off()
        axes.legend(frameon=False)
    panels[0].set_ylabel("CPU seconds")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure every case and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--plot", type=Path, help="also draw the growth into this file")
    parser.add_argument("--networks", nargs="+", default=DEFAULT, choices=[case.name for case in (*CASES, WIDE)])
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    print(f"{'network':<12} n method  {'seconds':>9} {'floor':>9} sweeps  seconds / (floor x sweeps)")
    for case in (*CASES, WIDE):
        for count in ((2, 8) if case.name in SMALL else (2,)) if case.name in options.networks else ():
            methods = ("gwb" if "-256" in case.name else "wb", "auto")
            for row in measure(case, count, methods, options.repeats):
                rows.append(row)
                text = f"{row['seconds']:9.3f} {row['floor']:9.4f} {row['sweeps']:6d} {row['times']:8.1f}"
                print(f"{case.name:<12} {count} {row['method']:<6} {text}", flush=True)
    grown = growth(options.repeats)
    if options.plot:
        plot(grown, options.plot)
    if options.json:
        found = {"torch": torch.__version__, "rows": rows, "growth": grown}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
