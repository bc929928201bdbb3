"""What was done to a network to correct it, and why: the record that every correction ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import CollapseWarning, warn_caller
from .aims import MEAN
from .selection import Kept, Selection

SAME = 1e-6  # distances that differ by less are alike
FEW = 0.25  # of the units that its proportion would give it: a parent that keeps fewer has hardly been fused


@dataclass(frozen=True)
class Corrected:
    """What was done to a network to correct it, and why.

    Args:
        method: The correction that was made; `none` if none was better.
        disagreement: For each correction that was tried, how far the outputs are from the mean of the parents' outputs
            on held-out inputs (squared, relative); `none` is the network as it was.
        note: What else there is to say.
        kept: Where units were selected: how many of each model are kept, by space.
        control: How far one model is whose last layer alone was refitted to that mean: what a fusion must beat.
        kept_model: Which model that is, counted from 1: the one that comes nearest.
        aim: What was aimed at, a row of `AIMS`: that mean, or the mean of what the models hold for each class.
        why_aim: Why that was chosen, where it is not the mean.
    """

    method: str
    disagreement: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    kept: Kept = field(default_factory=dict)
    control: float | None = None
    kept_model: int | None = None
    aim: str = MEAN
    why_aim: str = ""

    def __str__(self) -> str:
        """The correction, the figures by which it was chosen, and the note, in one line."""
        figures = [f"{name} {value:.3g}" for name, value in self.disagreement.items()]
        if self.control is not None:
            figures.append(f"model {self.kept_model} with its last layer refitted {self.control:.3g}")
        tried = ", ".join(figures)
        to = "the parents' mean" if self.aim == MEAN else f"the parents' {self.aim} ({self.why_aim})"
        why = f": distance of outputs to {to}, on held-out inputs: {tried}" if tried else ""
        return "; ".join(filter(None, [f"{self.method}{why}", self.told_kept, self.told_control, self.note]))

    @property
    def told_kept(self) -> str:
        """How many units of each model are kept, in words; empty if none were selected."""
        if not self.kept:
            return ""
        spaces = list(self.kept.items())
        told = [f"{space} {' + '.join(map(str, counts))}" for space, counts in spaces[:6]]
        more = f" and {len(spaces) - 6} more spaces" if len(spaces) > 6 else ""
        return f"units kept of each model: {', '.join(told)}{more}"

    @property
    def told_control(self) -> str:
        """A sentence where a fusion does not pay; empty where it does, or where that is not known."""
        if self.control is None or self.control > SAME + self.disagreement[self.method]:
            return ""
        return f"keeping model {self.kept_model} is as good on these inputs"


def warn_of_collapse(kept: Kept, weights: Sequence[float]) -> None:
    """Warn if hardly any unit of a parent is kept in some space: that is picking a parent, not fusing."""
    few = [
        f"{space}: {counts[parent]} of {sum(counts)} units are of model {parent + 1}"
        for space, counts in kept.items()
        for parent, share in enumerate(weights)
        if counts[parent] < FEW * share * sum(counts) - 1
    ]
    if few:
        warn_caller(
            f"selection keeps few units of a model ({'; '.join(few[:3])}): the network is mostly another's. If that "
            "model's numbers are small, bring the models to one scale; if it knows nothing of its own, this is right",
            CollapseWarning,
        )


def told_spaces(selection: Selection | None) -> str:
    """A sentence about spaces whose units were not selected; empty if all were."""
    if selection is None:
        return ""
    names = list(selection.averaged)
    few = [f"{name} ({selection.averaged[name]})" for name in names[:2]]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    streams = f"streams by principal directions: {', '.join(selection.streams)}" if selection.streams else ""
    placed = f"streams with room for units of all models: {', '.join(selection.placed)}" if selection.placed else ""
    return "; ".join(filter(None, [streams, placed, f"units were averaged in {', '.join(few)}{more}" if names else ""]))


def told_left_out(names: Sequence[str]) -> str:
    """A sentence about the weights that a correction does not reach; empty if there are none."""
    if not names:
        return ""
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"these weights were left as they are, since they are used in other ways too: {listed}"
