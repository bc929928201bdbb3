"""Peers beside transfuse, on the same networks in the same run: CPU seconds on one thread, trace included.

    python benchmarks/peers.py [--rebasin PYTHON] [--networks NAME ...] [--loops] [--json FILE]

- The paper's algorithm as printed, with POT and NumPy alone (`paper_reference.py`), beside the row `wb` or `gwb`:
  its cost factorised, and where `--loops` is given, summed pair by pair. `same`: units whose largest coupling is ours.
- The package `rebasin`, in an environment of its own whose interpreter `--rebasin` names (`python -m venv`, then `pip
  install rebasin` with the torch of `constraints.txt`), beside the row `rebasin`. `error`: how much the outputs of its
  permuted network differ from what they were. Squared distances of the two networks after matching say who fits better.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import paper_reference
import torch
from clock import Clock
from networks import CASES, Case, mlp
from numpy.typing import NDArray
from torch import Tensor

import transfuse

DIGITS = Case("MLP-digits", lambda: mlp_without_biases(64, 100, 50, 10), lambda: torch.randn(2, 64))
CHAINS = ("MLP-digits", "MLPNet", "VGG11", "RNN-256", "LSTM-256")  # what the reference can take: no shortcuts
LOOPS = ("MLP-digits",)  # where 4-way sums end within minutes


def mlp_without_biases(*sizes: int) -> torch.nn.Module:
    """As in the paper."""
    model = mlp(*sizes)
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            layer.bias = None
    return model


def layers_of(state: Mapping[str, Tensor]) -> list[paper_reference.Layer]:
    """A chain of layers as arrays [units, inputs, values]: places of a kernel, or gates. Biases are left out."""
    found: list[paper_reference.Layer] = []
    hidden = next((value for name, value in state.items() if "weight_hh" in name), None)
    for name, value in state.items():
        if hidden is not None and "weight_ih" in name:
            found.append((by_gate(value, hidden.shape[1]), by_gate(hidden, hidden.shape[1])))
        elif value.dim() > 1 and "weight_hh" not in name:
            found.append((value.double().reshape(*value.shape[:2], -1).numpy(), None))
    return found


def by_gate(weights: Tensor, units: int) -> NDArray[np.float64]:
    """Weights of a recurrent layer, gate after gate, as [units, inputs, gates]."""
    found: NDArray[np.float64] = weights.double().view(-1, units, weights.shape[1]).permute(1, 2, 0).numpy()
    return found


def clocked(function: Any) -> tuple[float, Any]:
    """CPU seconds of a call, and what it gives."""
    with Clock() as clock:
        result = function()
    return clock.cpu, result


def beside_reference(case: Case, how: paper_reference.How) -> dict[str, Any]:
    """The paper's algorithm and ours, on two networks."""
    torch.manual_seed(0)
    models = [case.build().eval() for _ in range(2)]
    states = [{name: value for name, value in model.state_dict().items() if "bias" not in name} for model in models]
    method = "gwb" if "-256" in case.name else "wb"
    if method == "gwb":
        for model in models:
            for name, value in model.state_dict().items():
                value.mul_(0.0 if "bias" in name else 1.0)
        states = [dict(model.state_dict()) for model in models]
    transfuse.trace(models[0], case.inputs(), proof=False)  # libraries are loaded
    ours, fused = clocked(
        lambda: transfuse.fuse_states(states, transfuse.trace(models[0], case.inputs()), method=method)
    )
    theirs, (_, couplings) = clocked(lambda: paper_reference.fuse([layers_of(state) for state in states], how=how))
    found = [matrix.numpy().argmax(1) for matrix in fused.couplings[1].values()]
    equal = np.concatenate([a == layer[1].argmax(1) for a, layer in zip(found, couplings, strict=False)])
    return {"network": case.name, "peer": f"paper, {how}", "method": method, "seconds": theirs, "ours": ours,
            "same": float(equal.mean())}  # fmt: skip


def beside_rebasin(case: Case, python: str) -> dict[str, Any]:
    """The package and ours, on two networks."""
    command = [python, str(Path(__file__).with_name("rebasin_time.py")), case.name, "0"]
    row: dict[str, Any] = {"network": case.name, "peer": "rebasin", "method": "rebasin"}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""})
    if ran.returncode:
        return {**row, "failed": ran.stderr.strip().splitlines()[-1]}
    torch.manual_seed(0)
    models = [case.build().eval() for _ in range(2)]
    x = case.inputs()
    transfuse.trace(models[0], x, proof=False)  # libraries are loaded
    ours, fused = clocked(
        lambda: transfuse.fuse_states([m.state_dict() for m in models], transfuse.trace(models[0], x), method="rebasin")
    )
    names = dict(models[0].named_parameters())
    one, other = fused.aligned
    after = sum(float((one[name] - other[name]).double().square().sum()) for name in names)
    return {**row, **json.loads(ran.stdout.splitlines()[-1]), "ours": ours, "ours_after": after}


def show(row: Mapping[str, Any]) -> None:
    """One line."""
    head = f"{row['network']:<12} {row['peer']:<18}"
    if "failed" in row:
        print(head, "failed:", row["failed"], flush=True)
        return
    rest = f"same couplings {100 * row['same']:.0f} %" if "same" in row else (
        f"distance {row['before']:.1f} to {row['after']:.1f}, ours {row['ours_after']:.1f}, error {row['error']:.1g}"
    )  # fmt: skip
    print(f"{head} {row['seconds']:9.2f} s, {row['method']} {row['ours']:8.3f} s, "
          f"{row['seconds'] / row['ours']:6.1f} times; {rest}", flush=True)  # fmt: skip


def main() -> None:
    """Measure every peer on every network that it can take."""
    cases = {case.name: case for case in (DIGITS, *CASES)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rebasin", metavar="PYTHON", help="interpreter of an environment with the package")
    parser.add_argument("--networks", nargs="+", choices=cases, default=["MLP-digits", "MLPNet", "VGG11", "RNN-256"])
    parser.add_argument("--loops", action="store_true", help="the 4-way sum pair by pair too; minutes")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = []
    for name in options.networks:
        hows: list[paper_reference.How] = ["factorised"] if name in CHAINS else []
        hows += ["loop"] if options.loops and name in LOOPS else []
        tries = [lambda how=how, name=name: beside_reference(cases[name], how) for how in hows]
        if options.rebasin and name != DIGITS.name:
            tries.append(lambda name=name: beside_rebasin(cases[name], options.rebasin))
        for each in tries:
            rows.append(each())
            show(rows[-1])
    if options.json:
        found = {"torch": torch.__version__, "python": sys.version.split()[0], "rows": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
