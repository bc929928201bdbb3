"""Time of a trace, step by step, beside the time of a forward pass in the same run.

    python benchmarks/trace_time.py [--json FILE]

The first trace of a process pays for imports inside torch; it is not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from networks import CASES, Case, mlpnet

import transfuse
from transfuse.modules import Arguments, canonical_names, check_runs, model_state, undisturbed
from transfuse.tracing import RULES
from transfuse.tracing.proof import verify
from transfuse.tracing.reading import read
from transfuse.tracing.recording import record
from transfuse.tracing.resolving import resolve


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """Median wall time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(case: Case, repeats: int) -> dict[str, Any]:
    """Seconds of each step of a trace."""
    torch.manual_seed(0)
    model = case.build().eval()
    x = case.inputs()
    inputs, state = Arguments.of(x), model_state(model)
    with undisturbed(model):
        recording = record(model, state, inputs)
        shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
        layout = resolve(read(recording, state, rules=RULES), shapes, canonical_names(state))
        steps = {
            "forward": seconds(lambda: check_runs(model, state, inputs), repeats) / 2,
            "record": seconds(lambda: record(model, state, inputs), repeats),
            "read": seconds(lambda: read(recording, state, rules=RULES), repeats),
            "resolve": seconds(
                lambda: resolve(read(recording, state, rules=RULES), shapes, canonical_names(state)), repeats
            ),
            "prove": seconds(lambda: verify(model, state, inputs, layout), repeats),
        }
    steps["resolve"] -= steps["read"]
    steps["trace"] = seconds(lambda: transfuse.trace(model, x), repeats)
    parameters = sum(tensor.numel() for tensor in model.parameters())
    return {"network": case.name, "parameters": parameters, "spaces": len(layout.spaces), **steps}


def main() -> None:
    """Measure every network and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transfuse.trace(mlpnet(), torch.randn(2, 784))
    columns = ("forward", "record", "read", "resolve", "prove", "trace")
    print(f"{'network':<12} {'parameters':>11} {'spaces':>6} " + " ".join(f"{c:>8}" for c in columns) + "   seconds")
    rows = []
    for case in CASES:
        row = measure(case, options.repeats)
        rows.append(row)
        figures = " ".join(f"{row[column]:8.3f}" for column in columns)
        print(f"{row['network']:<12} {row['parameters']:>11,} {row['spaces']:>6} {figures}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
