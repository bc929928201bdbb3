"""Time and memory of a fusion, beside the floor of the same run: the bare matrix products and one assignment per space.

    python benchmarks/fuse_time.py [--networks NAME ...] [--models 2 8] [--methods wb auto] [--json FILE]

Random weights, float32, one thread; times and memory of every row are measured in processes of their own. Times are CPU
seconds (the JSON has wall time too), the least of some repeats. Columns:

- trace: `transfuse.trace`, with its proof; couplings: what the method does; updates: every model carried to the common
  order, and their mean; whole: `fuse_states`, with its checks.
- floor: for each model but the first and each space, the products of what the space's scores are made of (incoming
  weights for wb and gwb, all for auto) from matrices that lie ready, and one assignment. Nothing is checked, moved,
  averaged or written in it; costs are reduced row by row, by which an assignment takes a fraction of its time. It is
  multiplied by sweeps: those of `auto` from all starts (placing all models once is a sweep), and the rounds of all
  models and spaces elsewhere: more than two models are coupled again when the target has been updated, and where a
  space stands twice on a tensor, coupling it takes one round of products and an assignment after the other.
- state: `fuse_states` without aligned copies of the models (aligned=False).
- times: whole / floor, and state / floor. And with copies: whole / (floor + bare copies of what is returned: each model
  and one mean).
- peak: most memory that the process held during the call, over what it held before, and the inputs. Limit: 1.25 x
  (inputs + output) + 3 x the largest tensor; output is the fused state and every model aligned. Tensors: the same of
  tensors alone, for networks so small that the allocator's megabytes count.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lap
import torch
from clock import Clock, forget_peak, least, most_in_tensors, peak, resident
from networks import CASES, Case, mlp
from torch import Tensor

import transfuse
from transfuse.barycenter import Problem, solving
from transfuse.layout import Block, Layout, symmetry
from transfuse.transport import assignment
from transfuse.types import State

SLOW = ("GPT-2 small",)  # minutes
SHORT = {"GPT-2 small": 1}  # sweeps after which `auto` is stopped
SMALL = 50e6  # bytes of all inputs
COLUMNS = ("trace", "couplings", "updates", "whole", "state", "floor")


def matrices(state: State, blocks: Sequence[Block]) -> list[Tensor]:
    """What each block holds of each unit, [units, values]."""
    found = []
    for block in blocks:
        places = torch.from_numpy(block.positions.ravel())
        rows = state[block.tensor].index_select(block.axis, places).movedim(block.axis, 0)
        found.append(rows.reshape(len(block.positions), -1).contiguous())
    return found


Ready = list[tuple[list[Tensor], list[Tensor]]]


def made_ready(states: Sequence[State], layout: Layout, *, incoming: bool) -> Ready:
    """For each space, the matrices of two models whose products are its scores.

    Incoming weights alone are the tensors that produce a space: those from hidden to hidden units have it twice.
    """
    every = layout.blocks(layout.widths(states[0]))
    found = []
    for space in layout.spaces:
        own = [b for b in every if b.space == space.name and states[0][b.tensor].is_floating_point()]
        coming = {block.tensor for block in own if block.side == "produces"}
        blocks = [block for block in own if block.tensor in coming] if incoming else own
        if blocks:
            found.append((matrices(states[0], blocks), matrices(states[1], blocks)))
    return found


def floor(ready: Ready) -> None:
    """The products and assignments of one pass over all spaces, for two models."""
    for ours, theirs in ready:
        scores = torch.zeros(len(ours[0]), len(ours[0]))
        for left, right in zip(ours, theirs, strict=True):
            scores.addmm_(left, right.T)
        lap.lapjvs((scores.amax(1, keepdim=True) - scores).double().numpy(), return_cost=False)


def quadratic(state: State, layout: Layout) -> bool:
    """Whether a space stands twice on a tensor."""
    problem = Problem([state], layout, [1.0], layout.widths(state))
    return any(problem.is_quadratic(space.name) for space in layout.spaces)


def copies(states: Sequence[State]) -> list[dict[str, Tensor]]:
    """Copies of all states, and their sum: as much as a fusion returns."""
    found = [{name: tensor.clone() for name, tensor in state.items()} for state in states]
    return [*found, {name: found[0][name] + found[1][name] for name in found[0]}]


def size_of(state: State) -> int:
    """Bytes of a state."""
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())


def timed(
    states: Sequence[State], layout: Layout, method: str, options: Mapping[str, Any], *, trimmed: bool = False
) -> dict[str, Any]:
    """One fusion: clocks of its parts, sweeps, memory. `trimmed`: free memory is given back first, which costs time."""
    clocks = {name: Clock() for name in ("couplings", "updates", "whole")}
    ended: list[str] = []

    def watch(stage: str, done: int, total: int) -> None:
        ended.extend([stage] if done == total else [])

    def under(name: str, function: Any) -> Any:
        @functools.wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            with clocks[name]:
                return function(*arguments, **named)

        return run

    row, rounds = transfuse.METHODS[method], Counter[str]()

    def counted(scores: Tensor) -> Tensor:
        rounds["assignments"] += 1
        return assignment(scores)

    if trimmed:
        forget_peak()
    before = resident()
    with (
        patch.dict(transfuse.METHODS, {method: replace(row, couple=under("couplings", row.couple))}),
        patch.object(solving, "made_at_once", under("updates", solving.made_at_once)),
        patch.object(symmetry, "assignment", counted),
        clocks["whole"],
    ):
        result = transfuse.fuse_states(states, layout, method=method, progress=watch, **options)
    held = peak() - before
    placings = sum("placing" in stage for stage in ended) // max(1, len(states) - 1)
    placed = placings + sum("sweep" in stage for stage in ended)
    rounds_each = rounds["assignments"] / (len(layout.spaces) * (len(states) - 1))
    inputs = sum(map(size_of, states))
    output = size_of(result.state) + sum(map(size_of, result.aligned))
    largest = max(tensor.numel() * tensor.element_size() for tensor in states[0].values())
    return {
        **{name: clock.cpu for name, clock in clocks.items()},
        "wall": {name: clock.wall for name, clock in clocks.items()},
        "sweeps": placed if method == "auto" and not quadratic(states[0], layout) else rounds_each,
        "status": result.status, "inputs": inputs, "output": output, "largest": largest, "peak": inputs + held,
        "limit": 1.25 * (inputs + output) + 3 * largest,
    }  # fmt: skip


@dataclass(frozen=True)
class Work:
    """What one row is about: networks, a method with its options, and how long it took to trace them."""

    states: Sequence[State]
    layout: Layout
    method: str
    options: Mapping[str, Any]
    trace: float

    @staticmethod
    def of(name: str, count: int, method: str, sweeps: int | None) -> Work:
        """Random weights, always the same."""
        torch.set_num_threads(1)
        torch.manual_seed(0)
        warnings.simplefilter("ignore")
        case = {each.name: each for each in CASES}[name]
        load_libraries(method)
        model, trace = case.build().eval(), Clock()
        with trace:
            layout = transfuse.trace(model, case.inputs())
        states = [case.build().state_dict() for _ in range(count)]
        options = {"restarts": 0, "sweeps": sweeps or SHORT.get(name, 100)} if method == "auto" else {}
        return Work(states, layout, method, options, trace.cpu)

    def timed(self, *, trimmed: bool = False, **more: Any) -> dict[str, Any]:
        """One fusion."""
        return timed(self.states, self.layout, self.method, {**self.options, **more}, trimmed=trimmed)


def times(work: Work, repeats: int) -> dict[str, Any]:
    """Clocks of fusions and of the floor."""
    ready = made_ready(work.states, work.layout, incoming=work.method != "auto")
    tries, unaligned, bare, copied = [], [], [], []
    for _ in range(repeats):  # in turn: a busy moment of the machine spares none of them
        tries.append(work.timed())
        unaligned.append(work.timed(aligned=False)["whole"])
        bare.append(least(lambda: floor(ready), 1))
        copied.append(least(lambda: copies(work.states), 1))
    best = min(tries, key=lambda row: row["whole"])
    floored, state = min(bare) * (len(work.states) - 1) * best["sweeps"], min(unaligned)
    return {
        **best, "trace": work.trace, "state": state, "floor": floored, "times": best["whole"] / floored,
        "state_times": state / floored, "times_with_copies": best["whole"] / (floored + min(copied)),
    }  # fmt: skip


def memory(work: Work) -> dict[str, Any]:
    """The peak of the first fusion in a process, and of small networks that of tensors."""
    first = work.timed(trimmed=True)
    small = first["inputs"] < SMALL
    return {"peak": first["peak"], "tensors": first["inputs"] + most_in_tensors(work.timed) if small else None}


def load_libraries(method: str) -> None:
    """Fuse something small: what is imported, and what products keep for themselves, is no part of a fusion."""
    models = [mlp(8, 512, 512, 4) for _ in range(2)]
    layout = transfuse.trace(models[0], torch.randn(1, 8))
    transfuse.fuse_states([model.state_dict() for model in models], layout, method=method)


def measure(name: str, count: int, method: str, sweeps: int | None, repeats: int) -> dict[str, Any]:
    """One row of the table: times and memory, each in a process of its own."""
    row: dict[str, Any] = {"network": name, "models": count, "method": method}
    for job, arguments in ((_timed_alone, (repeats,)), (_memory_alone, ())):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            row |= pool.apply(job, (name, count, method, sweeps, *arguments))
    return row


def _timed_alone(name: str, count: int, method: str, sweeps: int | None, repeats: int) -> dict[str, Any]:
    return times(Work.of(name, count, method, sweeps), repeats)


def _memory_alone(name: str, count: int, method: str, sweeps: int | None) -> dict[str, Any]:
    return memory(Work.of(name, count, method, sweeps))


def show(row: Mapping[str, Any]) -> None:
    """One line."""
    clocks = " ".join(f"{row[column]:9.3f}" for column in COLUMNS)
    tensors = "-" if row["tensors"] is None else f"{row['tensors'] / 1e6:.1f}"
    print(
        f"{row['network']:<12} {row['models']} {row['method']:<5} {clocks} {row['sweeps']:6.0f} {row['times']:6.2f} "
        f"{row['state_times']:6.2f} {row['times_with_copies']:6.2f} {row['peak'] / 1e6:7.0f} {tensors:>7} "
        f"{row['limit'] / 1e6:7.0f}",
        flush=True,
    )


def methods_of(case: Case, wanted: Sequence[str]) -> list[str]:
    """The methods for a network: `gwb` where it is recurrent, otherwise `wb`."""
    return ["gwb" if method == "wb" and "-256" in case.name else method for method in wanted]


def main() -> None:
    """Measure every row and print a table."""
    known = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=known, default=[name for name in known if name not in SLOW])
    parser.add_argument("--models", nargs="+", type=int, default=[2])
    parser.add_argument("--methods", nargs="+", default=["wb", "auto"], choices=["wb", "auto"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--sweeps", type=int, help=f"sweeps after which `auto` is stopped (default: when it ends, but {SHORT})"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    head = " ".join(f"{column:>9}" for column in COLUMNS)
    print(f"{'network':<12} n {'how':<5} {head} sweeps  times  state (copies) peak MB tensors limit")
    rows = []
    for case in CASES:
        if case.name in options.networks:
            for count in options.models:
                for method in methods_of(case, options.methods):
                    rows.append(measure(case.name, count, method, options.sweeps, options.repeats))
                    show(rows[-1])
                    if options.json:
                        found = {"torch": torch.__version__, "rows": rows}
                        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
