"""What methods that only permute need: every model has the widths of the target."""

from __future__ import annotations

from ...errors import InputError, listing
from ..problem import Problem


def check_equal_widths(problem: Problem) -> None:
    """Raise an `InputError` that lists every space of every model whose width is not that of the target."""
    problems = [
        f"model {number}: space {name} has {width} units, the target has {problem.widths[name]}"
        for number, state in enumerate(problem.states, start=1)
        for name, width in problem.layout.widths(state).items()
        if width != problem.widths[name]
    ]
    if problems:
        raise InputError(listing("this method only permutes units; choose one that takes different widths:", problems))
