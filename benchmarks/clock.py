"""Clocks and memory of this process, for all benchmarks."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile


@dataclass
class Clock:
    """CPU and wall seconds, summed over what runs inside `with clock:`."""

    cpu: float = 0.0
    wall: float = 0.0
    _since: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    def __enter__(self) -> Clock:
        self._since = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        cpu, wall = self._since
        self.cpu += time.process_time() - cpu
        self.wall += time.perf_counter() - wall


def least(function: Callable[[], Any], repeats: int) -> float:
    """The least CPU time of a call."""
    times = []
    for _ in range(repeats):
        with Clock() as clock:
            result = function()
        times.append(clock.cpu)
        del result  # before the next one is made
    return min(times)


def resident() -> int:
    """Bytes of memory that the process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def forget_peak() -> None:
    """From now on `peak` counts anew, and what was freed is given back, so that it does not hide a peak (Linux)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """The most bytes of memory that the process has held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def most_in_tensors(function: Callable[[], Any]) -> int:
    """The most bytes in tensors that a call has made, by the memory events of torch's profiler.

    Of small networks this says more than what the process holds, which grows and shrinks by megabytes.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler tells of its start otherwise
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        function()
    held = most = 0
    events = [event for event in watched.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most
