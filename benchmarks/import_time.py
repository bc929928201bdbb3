"""CPU time of `import transfuse` with its public names, beside that of `import torch`, and what is imported too early.

    python benchmarks/import_time.py [--json FILE]

Each import runs in an interpreter of its own, in turn, so that both meet the same machine; medians. At most 1.3
is wanted.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path

HEAVY = (
    "matplotlib",
    "transformers",
    "ot",
    "scipy",
    "pandas",
    "PIL",
    "torchvision",
    "sympy",
    "torch._dynamo",
    "numpy.random",
)
SCRIPTS = {
    "python": "pass",
    "torch": "import torch",
    "transfuse": "import transfuse",
    "transfuse.fuse": "import transfuse; transfuse.fuse",
}


def seconds(script: str) -> float:
    """CPU seconds of an interpreter that runs a script."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", script], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def imported(script: str) -> set[str]:
    """The heavy modules that are there after a script."""
    text = f"import sys; {script}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    return set(subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True).stdout.split())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in SCRIPTS}
    for _ in range(options.repeats):
        for name, script in SCRIPTS.items():
            times[name].append(seconds(script))
    found = {name: statistics.median(each) for name, each in times.items()}
    early = sorted(imported(SCRIPTS["transfuse.fuse"]) - imported(SCRIPTS["torch"]))
    for name, each in found.items():
        print(f"{name:<15} {each:6.3f} s, {each / found['torch']:.2f} x torch")
    print("heavy modules that transfuse imports and torch does not:", ", ".join(early) or "none")
    if options.json:
        options.json.write_text(json.dumps({"seconds": found, "early": early}, indent=1) + "\n")


if __name__ == "__main__":
    main()
