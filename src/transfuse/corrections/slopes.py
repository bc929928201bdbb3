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
from .affine import Part, parts, rows_by_part
from .least_squares import LeastSquares, Weighted
from .task import MEMORY, Sample

FLOOR = 0.05  # added to every squared slope, in mean squared slopes
Samples = Callable[[], Iterator[Sample]]
PartMatrices = Sequence[Tensor]  # of a site: the matrix of each of its parts
Piece = tuple[Batch, list[Weighted]]  # a batch, and the weighted samples of each part


def parts_of(sample: Sample) -> list[Part]:
    """The parts of a site in one sample: features, with the outputs that they shall give."""
    return parts(sample.own, sample.target if sample.own.rest is None else sample.target - sample.own.rest)


def by_slopes(
    start: PartMatrices,
    new: PartMatrices,
    fit: Sequence[LeastSquares],
    samples: Samples,
    *,
    ridge: float,
    constant: bool,
) -> PartMatrices:
    """The matrices with the smallest weighted residual on held-out batches: as before, fitted, or fitted by slopes.

    Args:
        start: The matrices before.
        new: The matrices that were fitted without weights.
        fit: The normal equations of each part.
        samples: The samples of the site.
        ridge: The ridge with which the equations were solved.
        constant: Whether the last feature is a constant.
    """
    mean = _mean_slope(samples())
    pieces = _replayed(lambda: _weighted(samples(), FLOOR * mean))
    fits, judges = attrgetter("fits"), attrgetter("judges")

    def chosen(number: int, which: Callable[[Batch], bool]) -> Iterator[Weighted]:
        """The parts of one number of the batches that are asked for."""
        return (parts[number] for batch, parts in pieces() if which(batch))

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


def _mean_slope(samples: Iterator[Sample]) -> float:
    """The mean squared slope at the targets of all samples."""
    total = count = 0.0
    for sample in samples:
        slopes = sample.own.squared_slopes(sample.target)
        total, count = total + sample.batch.weight * float(slopes.sum()), count + sample.batch.weight * slopes.numel()
    return total / count


def _weighted(samples: Iterator[Sample], floor: float) -> Iterator[Piece]:
    """Each sample's parts, weighted by squared slopes and a floor."""
    for sample in samples:
        slopes = rows_by_part(sample.own, sample.own.squared_slopes(sample.target))
        weights = [sample.batch.weight * (each + floor) for each in slopes]
        pairs = zip(parts_of(sample), weights, strict=True)
        yield sample.batch, [Weighted(part.features, part.outputs, each) for part, each in pairs]


def _replayed(
    make: Callable[[], Iterator[Piece]],
) -> Callable[[], Iterable[Piece]]:
    """Pieces that can be gone through again and again: kept in memory if they are small, else made anew each time."""
    kept, size = [], 0
    for piece in make():
        kept.append(piece)
        size += sum(each.bytes for each in piece[1])
        if size > MEMORY:
            return make
    return lambda: kept
