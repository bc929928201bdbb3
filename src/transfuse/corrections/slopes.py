"""A site fitted again with residuals weighted by the slope of the nonlinearity that follows.

Where pre-activations go through a nonlinearity and nowhere else, what is lost there need not be right. Weights are
squared slopes at the target, and a floor: slopes are those at the target, which may be missed. In: samples of a site,
its normal equations and their solution. Out: the matrices with the smallest weighted residual on held-out batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from torch import Tensor

from ..activations import Batch
from .affine import Part, parts, rows_by_part
from .least_squares import Equations, Weighted
from .task import MEMORY, Sample

FLOOR = 0.05  # in mean squared slopes
Samples = Callable[[], Iterator[Sample]]
Matrices = Sequence[Tensor]
Piece = tuple[Batch, list[Weighted]]  # and its parts


def parts_of(sample: Sample) -> list[Part]:
    """Features of a sample, with the outputs that they shall give."""
    return parts(sample.own, sample.target if sample.own.rest is None else sample.target - sample.own.rest)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A site that was fitted: matrices before and after, the equations, and the ridge."""

    start: Matrices
    new: Matrices
    fit: Sequence[Equations]
    ridge: float
    constant: bool


def by_slopes(site: Fitted, samples: Samples) -> Matrices:
    """Of a site as it was, fitted, and fitted by slopes: what has the smallest weighted residual where it is judged."""
    mean = _mean_slope(samples())
    pieces = _replayed(lambda: _weighted(samples(), FLOOR * mean))
    fits, judges = attrgetter("fits"), attrgetter("judges")

    def chosen(number: int, which: Callable[[Batch], bool]) -> Iterator[Weighted]:
        return (parts[number] for batch, parts in pieces() if which(batch))

    found = [
        eqs.solve_weighted(
            start, new, site.ridge, partial(chosen, number, fits), mean=mean * (1 + FLOOR), constant=site.constant
        )
        for number, (start, new, eqs) in enumerate(zip(site.start, site.new, site.fit, strict=True))
    ]
    tried: list[Matrices] = [found, site.new, site.start]
    residuals = [
        sum(each.residual(matrix) for number, matrix in enumerate(all_parts) for each in chosen(number, judges))
        for all_parts in tried
    ]
    return tried[residuals.index(min(residuals))]


def _mean_slope(samples: Iterator[Sample]) -> float:
    total = count = 0.0
    for sample in samples:
        slopes = sample.own.squared_slopes(sample.target)
        total, count = total + sample.batch.weight * float(slopes.sum()), count + sample.batch.weight * slopes.numel()
    return total / count


def _weighted(samples: Iterator[Sample], floor: float) -> Iterator[Piece]:
    """The parts of each sample, weighted by squared slopes and a floor."""
    for sample in samples:
        slopes = rows_by_part(sample.own, sample.own.squared_slopes(sample.target))
        weights = [sample.batch.weight * (each + floor) for each in slopes]
        pairs = zip(parts_of(sample), weights, strict=True)
        yield sample.batch, [Weighted(part.features, part.outputs, each) for part, each in pairs]


def _replayed(
    make: Callable[[], Iterator[Piece]],
) -> Callable[[], Iterable[Piece]]:
    """What is made, to be gone through again and again: kept if it is little, else made anew each time."""
    kept, size = [], 0
    for piece in make():
        kept.append(piece)
        size += sum(each.bytes for each in piece[1])
        if size > MEMORY:
            return make
    return lambda: kept
