"""What a method tells after it worked: its steps, each with the objective, and what has not converged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isnan


@dataclass(frozen=True)
class Step:
    """One sweep over all spaces, or one space of a method that takes them one after another and tells of each.

    Args:
        objective: F after it; nan where a method did not need it (a fusion that is done always has the last one).
        changed: How many couplings it changed.
        note: What has not converged here, how far it is off and what to do; empty if all is well.
    """

    objective: float
    changed: int
    note: str = ""

    @staticmethod
    def told(history: Sequence[Step], objective: Callable[[], float]) -> tuple[Step, ...]:
        """A history whose last step has its objective, which is computed if the method did not."""
        *before, last = history
        return (*before, replace(last, objective=objective()) if isnan(last.objective) else last)
