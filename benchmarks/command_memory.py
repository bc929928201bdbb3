"""Peak memory of the command `transfuse fuse` on two files, as the operating system counts it.

    python benchmarks/command_memory.py [--megabytes 1000] [--width 1024] [--json FILE]

Two MLPs of equal layers with ReLU and random weights, of which only the state dicts and a layout are given. The peak is
the largest resident set (pages of mapped files included) of the real command. Limits: inputs + output + 25 %, with
--low-memory output + 50 %. Random weights share nothing, so that sweeps converge slowly; they are cut short (`sweeps`):
more of them take time, not memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from transfuse.checkpoints.safetensors_file import write
from transfuse.lazy import Entry, LazyState


def make(folder: Path, megabytes: int, width: int) -> None:
    """Two checkpoints and their layout."""
    count = max(2, round(megabytes * 1e6 / (4 * width * width)))
    entries = [Entry(f"{i}.weight", torch.float32, (width, width)) for i in range(count)]
    for seed, name in enumerate("ab"):
        generator = torch.Generator().manual_seed(seed)
        tensors = LazyState(entries, lambda entry, g=generator: torch.randn(entry.shape, generator=g) / width**0.5)
        with (folder / f"{name}.safetensors").open("wb") as file:
            write(file, entries, tensors, {"format": "pt"})
    axes = [(width if i == count - 1 else f"s{i}", width if i == 0 else f"< s{i - 1}") for i in range(count)]
    lines = ["spaces:", *(f"  s{i}: {width} scales" for i in range(count - 1)), "tensors:"]
    lines += [f"  {i}.weight: [{out}, {into}]" for i, (out, into) in enumerate(axes)]
    (folder / "layout.yaml").write_text("\n".join(lines) + "\n")


def peak(folder: Path, *arguments: str) -> tuple[float, float]:
    """Largest resident set in bytes, and seconds, of the real command."""
    command = [sys.executable, "-m", "transfuse", *arguments]
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_maxrss * 1024.0, time.perf_counter() - started


def main() -> None:
    """Measure with and without --low-memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000, help="of each file")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--methods", nargs="+", default=["vanilla", "wb", "auto"])
    parser.add_argument("--sweeps", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="for the files; default: a temporary one")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        make(folder, options.megabytes, options.width)
        size = (folder / "a.safetensors").stat().st_size
        start, _ = peak(folder, "inspect", "a.safetensors")
        print(f"files of {size / 1e6:.0f} MB, width {options.width}; the interpreter with torch: {start / 1e6:.0f} MB")
        for method in options.methods:
            for low in (False, True):
                rows.append(measured(folder, method, size, options.sweeps, low))
                show(rows[-1], start)
    if options.json:
        options.json.write_text(json.dumps({"torch": torch.__version__, "start": start, "rows": rows}, indent=1) + "\n")


def measured(folder: Path, method: str, size: int, sweeps: int, low: bool) -> dict[str, Any]:
    """One run."""
    arguments = "fuse a.safetensors b.safetensors -o ab.safetensors --layout layout.yaml --force -q --method".split()
    chosen = {"auto": ["--option", f"sweeps={sweeps}", "restarts=0"], "wb": ["--option", "updates=2"]}
    used, seconds = peak(folder, *arguments, method, *chosen.get(method, ()), *["--low-memory"] * low)
    limit = 1.5 * size if low else 1.25 * 3 * size
    return dict(method=method, low_memory=low, file=size, peak=used, limit=limit, seconds=seconds)


def show(row: dict[str, Any], start: float) -> None:
    """One line."""
    size = row["file"]
    flag = "--low-memory" if row["low_memory"] else ""
    print(
        f"{row['method']:<8} {flag:<13} peak {row['peak'] / 1e6:6.0f} MB = {row['peak'] / size:.2f} files, limit "
        f"{row['limit'] / size:.2f} (less the interpreter {(row['peak'] - start) / size:.2f}), {row['seconds']:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
