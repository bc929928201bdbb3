"""CPU time of the package `rebasin` on one network; for an environment of its own, without transfuse.

    python benchmarks/rebasin_time.py NETWORK SEED

Prints JSON: seconds of construction (which traces) and of `rebasin()`, the squared distance of the two networks before
and after, and by how much the outputs of the permuted network differ from what they were (relative).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings

import torch
from clock import Clock
from networks import CASES
from torch import nn


def distance(one: nn.Module, other: nn.Module) -> float:
    """The sum of squared differences of all parameters."""
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return sum(float((a - b).detach().double().square().sum()) for a, b in pairs)


def main() -> None:
    """Measure and print."""
    from rebasin import PermutationCoordinateDescent

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    case = {each.name: each for each in CASES}[sys.argv[1]]
    torch.manual_seed(int(sys.argv[2]))
    one, other = case.build().eval(), case.build().eval()
    x = case.inputs()
    expected, apart = other(x).detach(), distance(one, other)
    clock = Clock()
    with clock, open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        PermutationCoordinateDescent(one, other, x).rebasin()
    error = float((other(x).detach() - expected).abs().max() / expected.abs().max())
    found = {"seconds": clock.cpu, "before": apart, "after": distance(one, other), "error": error}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
