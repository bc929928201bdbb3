"""The table of corrections that can be made to a fused network, given inputs without labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .batch_norm import match_statistics, reset_statistics
from .refit import refit
from .repair import closed_form, repair, rescale
from .task import Task


@dataclass(frozen=True)
class Correction:
    """One row.

    Args:
        summary: What it does, in a sentence.
        citation: Where it was published.
        apply: Changes the network of a task.
        parents: Whether it needs the networks that were fused.
        noise: Whether noise beside the data serves it.
    """

    summary: str
    citation: str
    apply: Callable[[Task], None]
    parents: bool = True
    noise: bool = False


def _with_norms(then: Callable[[Task], None]) -> Callable[[Task], None]:
    """A correction that starts with batch norms matched to the parents'.

    Not again at the end: norms that follow no site are then part of what the sites after them were corrected for.
    """

    def both(task: Task) -> None:
        match_statistics(task)
        then(task)

    return both


CORRECTIONS: dict[str, Correction] = {
    "batchnorm": Correction(
        "running statistics of batch norms are measured anew", "Izmailov et al. (2018); arXiv:1803.05407",
        reset_statistics, parents=False,
    ),
    "repair": Correction(
        "mean and spread of every unit's pre-activation become the mean of the parents'",
        "Jordan et al. (2023), REPAIR; arXiv:2211.08403", _with_norms(repair),
    ),
    "rescale": Correction(
        "the spread of every unit's pre-activation becomes the mean of the parents'",
        "variance part of Jordan et al. (2023); arXiv:2211.08403", _with_norms(rescale),
    ),
    "closed_form": Correction(
        "as rescale, from the parents' covariances alone: the fused network is not run",
        "variance of a mean of correlated units, as analysed by Jordan et al. (2023); arXiv:2211.08403",
        closed_form,
    ),
    "refit": Correction(
        "every layer fitted again, front to back, to the mean of the parents' pre-activations", "transfuse",
        _with_norms(refit), noise=True,
    ),
}  # fmt: skip
