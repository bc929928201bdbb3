"""The table of corrections that can be made to a fused network, given inputs without labels.

A new correction is a row here, a file beside this one that changes the network of a `Task`, and a test. Everything that
chooses among corrections reads the columns; no other place knows a correction by its name. The order counts: `auto`
tries the last row first, so what comes nearest to the parents most often stands below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..renamed import telling_new_names
from .batch_norm import match_statistics, reset_statistics
from .distillation import STEPS, distill_towards_parents
from .refit import refit_sites
from .repair import repair_sites, rescale_in_closed_form, rescale_sites
from .selection import Selection, select_units
from .task import Task

AUTO = "auto"  # in place of a row: the best of all that can be made, or none
NONE = "none"  # in place of a row: the network stays as it is


@telling_new_names
@dataclass(frozen=True)
class Correction:
    """A correction: a row of the table `CORRECTIONS`.

    Args:
        summary: What it does, in a sentence.
        citation: Where it was published.
        apply: Changes the network of a task; where units are selected, tells of each space what was done.
        needs_parents: Whether it needs the networks that were fused.
        needs_batch_norm: Whether it changes batch norms only, so that there must be some.
        for_synthetic: Whether synthetic inputs serve it, beside data and in place of it: its targets must be what the
            parents compute, and not how the inputs are distributed.
        carries: Whether the parents may be of other widths, as they are where units were merged; see `Task.carry`.
        needs_units: Whether it must know which axes move together: the layout.
        automatic: Whether `auto` tries it.
        after: Corrections of which the best is made first, and which it goes on from; none: the network as it is.
    """

    summary: str
    citation: str
    apply: Callable[[Task], Selection | None]
    needs_parents: bool = True
    needs_batch_norm: bool = False
    for_synthetic: bool = False
    carries: bool = False
    needs_units: bool = False
    automatic: bool = True
    after: tuple[str, ...] = ()


def _with_norms(then: Callable[[Task], None]) -> Callable[[Task], None]:
    """A correction that starts with batch norms matched to the parents'.

    Not again at the end: norms that follow no site are then part of what the sites after them were corrected for.
    """

    def both(task: Task) -> None:
        """Match the statistics, then correct."""
        match_statistics(task)
        then(task)

    return both


CORRECTIONS: dict[str, Correction] = {
    "batchnorm": Correction(
        "running statistics of batch norms are measured anew", "Izmailov et al. (2018); arXiv:1803.05407",
        reset_statistics, needs_parents=False, needs_batch_norm=True,
    ),
    "repair": Correction(
        "mean and spread of every unit's pre-activation become the mean of the parents'",
        "Jordan et al. (2023), REPAIR; arXiv:2211.08403", _with_norms(repair_sites),
    ),
    "rescale": Correction(
        "the spread of every unit's pre-activation becomes the mean of the parents'",
        "variance part of Jordan et al. (2023); arXiv:2211.08403", _with_norms(rescale_sites),
    ),
    "closed_form": Correction(
        "as rescale, from the parents' covariances alone: the fused network is not run",
        "variance of a mean of correlated units, as analysed by Jordan et al. (2023); arXiv:2211.08403",
        rescale_in_closed_form,
    ),
    "refit": Correction(
        "every layer fitted again, front to back, to the mean of the parents' pre-activations", "transfuse",
        _with_norms(refit_sites), for_synthetic=True, carries=True,
    ),
    "selection": Correction(
        "units are selected among those of all parents, each counting by its proportion, and every layer is fitted to "
        "that", "transfuse; elimination by Hassibi and Stork (1993)",
        select_units, for_synthetic=True, carries=True, needs_units=True,
    ),
    "free_selection": Correction(
        "as selection, but parents with larger numbers may push the others out",
        "transfuse; elimination by Hassibi and Stork (1993)",
        partial(select_units, balanced=False), for_synthetic=True, carries=True, needs_units=True, automatic=False,
    ),
    "distill": Correction(
        f"trained for {STEPS[0]} to {STEPS[1]} steps, without labels, towards the parents' mean outputs and "
        "pre-activations, after the better of refit and selection",
        "transfuse; distillation by Hinton et al. (2015); arXiv:1503.02531",
        distill_towards_parents, for_synthetic=True, carries=True, automatic=False, after=("refit", "selection"),
    ),
}  # fmt: skip
