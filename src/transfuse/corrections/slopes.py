"""A site fitted again with residuals weighted by the slope of the nonlinearity that follows.

Where pre-activations go through a nonlinearity and nowhere else, errors count as much as the nonlinearity lets through:
residuals are weighted by its squared slopes at the targets. A floor is added, since targets may be missed, and slopes
are other ones then.

In: samples of a site, its normal equations and their solution. Out: the matrices with the smallest weighted residual on
held-out batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter

from torch import Tensor

from ..activations import Batch
from .least_squares import LeastSquares, Weighted
from .pieces import Piece

FLOOR = 0.05  # added to every squared slope, in mean squared slopes
PartMatrices = Sequence[Tensor]  # of a site: the matrix of each of its parts


def by_slopes(
    start: PartMatrices,
    new: PartMatrices,
    fit: Sequence[LeastSquares],
    pieces: Callable[[], Iterable[Piece]],
    *,
    ridge: float,
    constant: bool,
) -> PartMatrices:
    """The matrices with the smallest weighted residual on held-out batches: as before, fitted, or fitted by slopes.

    Args:
        start: The matrices before.
        new: The matrices that were fitted without weights.
        fit: The normal equations of each part.
        pieces: What all batches show of the site, slopes included.
        ridge: The ridge with which the equations were solved.
        constant: Whether the last feature is a constant.
    """
    mean = _mean_slope(pieces())
    fits, judges = attrgetter("fits"), attrgetter("judges")

    def chosen(number: int, which: Callable[[Batch], bool]) -> Iterator[Weighted]:
        """The parts of one number of the batches that are asked for, weighted by squared slopes and a floor."""
        for piece in pieces():
            if which(piece.batch):
                part, slopes = piece.parts[number], piece.slopes[number]
                yield Weighted(part.features, part.outputs, piece.batch.weight * (slopes + FLOOR * mean))

    found = [
        eqs.solve_weighted(
            before, fitted, ridge, partial(chosen, number, fits), mean=mean * (1 + FLOOR), constant=constant
        )
        for number, (before, fitted, eqs) in enumerate(zip(start, new, fit, strict=True))
    ]
    tried: list[PartMatrices] = [found, new, start]
    residuals = [
        sum(each.residual(matrix) for number, matrix in enumerate(all_parts) for each in chosen(number, judges))
        for all_parts in tried
    ]
    return tried[residuals.index(min(residuals))]


def _mean_slope(pieces: Iterable[Piece]) -> float:
    """The mean squared slope at the targets of all samples."""
    total = count = 0.0
    for piece in pieces:
        for slopes in piece.slopes:
            total += piece.batch.weight * float(slopes.sum())
            count += piece.batch.weight * slopes.numel()
    return total / count
