"""Jobs become lines: networks are trained or found, fused, measured; a line is added for each.

In: jobs and places. Out: lines under a folder of results. A job whose line is there is skipped, so a killed run goes
on; one that failed has a line that says why, and is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import transfuse
from transfuse.files import append_line, whole_lines

from .group import Group
from .jobs import Job
from .kinds import KINDS
from .rows import ROWS
from .training import Place, identity
from .versions import origin


def run(jobs: Sequence[Job], results: Path, place: Place, *, fresh: bool = False) -> list[str]:
    """Do what is not done yet. What another experiment has done is not done again: its line is taken over.

    Args:
        jobs: What there is to do.
        results: The folder of lines.
        place: Where base networks are.
        fresh: Do it again, even if it is done.

    Returns:
        What failed.
    """
    failed = []
    for _, same in groupby(jobs, key=lambda job: (job.experiment, job.cell.title, job.group)):
        batch = list(same)
        names = [identity(name, setting, seed, place) for name, setting, seed in batch[0].members]
        known = {} if fresh else _known(results, batch[0].profile)
        batch = [job for job in batch if job.key(names) not in known]
        group: Group | None = None
        for job in batch:
            try:
                if (line := known.get(job.work(names))) is None:
                    group = group or Group.of(job, place)
                    line = measured(job, group)
            except transfuse.FusionError as error:
                failed.append(f"{job.experiment}, {job.cell.title}: {error}")
                print(failed[-1], flush=True)
                break
            line = {**_head(job, names), **{name: each for name, each in line.items() if name not in HEAD}}
            append_line(results / f"{job.experiment}.{job.profile}.jsonl", line)
            _tell(line)
            failed += [f"{job.experiment}, {job.cell.title}, {job.row}: {line['error']}"] if "error" in line else []
    return failed


HEAD = ("key", "work", "experiment", "profile", "cell", "row", "group", "family", "place", "seeds")


def _head(job: Job, names: Sequence[str]) -> dict[str, Any]:
    """What tells lines apart."""
    seeds = [seed for _, _, seed in job.members]
    values = (
        job.key(names), job.work(names), job.experiment, job.profile, job.cell.title, job.row, job.group,
        job.cell.family, job.cell.place, seeds,
    )  # fmt: skip
    return dict(zip(HEAD, values, strict=True))


def _known(results: Path, profile: str) -> dict[str, dict[str, Any]]:
    """Lines of a profile, by the key of the line and by the work that was done for it."""
    good = [
        line for path in sorted(results.glob(f"*.{profile}.jsonl")) for line in whole_lines(path) if "error" not in line
    ]
    return {line[name]: line for line in good for name in ("key", "work")}


def measured(job: Job, group: Group) -> dict[str, Any]:
    """What a job gives."""
    started = time.perf_counter()
    try:
        result = KINDS[ROWS[job.row].kind](job, group)
    except transfuse.FusionError as error:
        result = {"error": str(error)}
    return {
        **result, "seconds": round(time.perf_counter() - started, 3), "base": [b.origin for b in group.bases],
        "configuration": job.configuration(), "deviations": job.deviations(), "notes": list(group.task.notes),
        "versions": origin(),
    }  # fmt: skip


def _tell(line: Mapping[str, Any]) -> None:
    told = line.get("error") or ", ".join(f"{name} {value:.2f}" for name, value in line["metrics"].items())
    place = f"{line['experiment']} | {line['cell']} | {line['row']} | group {line['group']}"
    print(f"{place}: {told}  ({line['seconds']:.1f} s)", flush=True)
