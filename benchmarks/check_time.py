"""What it costs to hold a fusion to its models: the runs of `fuse(..., check=True)` beside the whole of it.

    python benchmarks/check_time.py [--networks NAME ...] [--method auto]

Two networks with random weights, no correction (which would make the whole longer and the share smaller). Columns: the
whole `fuse`, trace included; the check, in CPU seconds, in runs of a network, in forward passes of one model (a run
takes longer than a pass, for the network is kept as it was), and as a share of the whole; the share that one forward
pass for each model would have; what of the check is no run but keeps networks as they were. At most 5 % of the whole or
one forward pass for each model is wanted, whichever is more.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from networks import CASES, Case

import transfuse
from transfuse.fusing.verifying import verified
from transfuse.modules import Arguments, model_state, run


def measure(case: Case, method: str) -> str:
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(case.build().eval())
    inputs = case.inputs()
    arguments = Arguments.of(inputs)
    with torch.no_grad():
        forward = least(lambda: models[0](inputs))
    made: list[transfuse.Fusion] = []
    whole = least(lambda: made.append(transfuse.fuse(models, inputs, method=method, correct="none")), repeats=1)
    check = least(lambda: verified(models, arguments).held_to(made[0].aligned))
    with torch.no_grad():
        run_once = least(lambda: run(models[0], model_state(models[0]), arguments))
    runs = made[0].check.passes
    return (
        f"{case.name:<10} {whole:8.2f} s {check:8.3f} s {runs:3} runs {check / forward:6.1f} passes "
        f"{100 * check / whole:5.1f} % ({100 * len(models) * forward / whole:.1f} %) "
        f"{100 * (check - runs * run_once) / whole:5.1f} % kept"
    )


def least(function: Callable[[], object], repeats: int = 5) -> float:
    """The least CPU time of a call, which is not longer when the machine is busy."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="*", default=["MLPNet", "VGG11", "ResNet18", "ResNet50"])
    parser.add_argument("--method", default="auto")
    options = parser.parse_args()
    torch.set_num_threads(1)
    measure(next(case for case in CASES if case.name == "MLPNet"), "vanilla")  # imports inside torch
    for case in (case for case in CASES if case.name in options.networks):
        print(measure(case, options.method), flush=True)


if __name__ == "__main__":
    main()
