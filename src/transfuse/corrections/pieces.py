"""Pieces: what the batches show of a site, cut down to what a fit needs, and kept while the site is fitted.

In: samples of a site. Out: features, the outputs that they shall give, and the slopes of what follows, at the samples
that are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from ..activations import Batch, Seen
from .affine import Part, parts, rows_by_part
from .task import MEMORY, Sample

Samples = Callable[..., Iterator[Sample]]  # each time from the first; `which` batches may be said


@dataclass(frozen=True, eq=False)
class Piece:
    """What one batch shows of a site.

    Args:
        site: The site.
        batch: The batch.
        parts: The features of each part of the site, with the outputs that they shall give.
        slopes: Squared slopes of the nonlinearity that follows, at its targets, for each part; empty if not asked for.
    """

    site: Seen
    batch: Batch
    parts: Sequence[Part]
    slopes: Sequence[Tensor] = ()

    @staticmethod
    def of(sample: Sample, *, bent: bool) -> Piece:
        """What a sample shows.

        Args:
            sample: The sample.
            bent: Whether slopes are asked for.
        """
        site, target = sample.own, sample.target
        shown = parts(site, target if site.rest is None else target - site.rest)
        return Piece(site.without_values(), sample.batch, shown, _slopes(site, target) if bent else ())

    @property
    def bytes(self) -> int:
        """How many bytes it takes in memory."""
        tensors = [*self.slopes, *(x for part in self.parts for x in (part.features, part.outputs))]
        return sum(tensor.nbytes for tensor in tensors)


def _slopes(site: Seen, target: Tensor) -> list[Tensor]:
    """Squared slopes at the samples that are looked at, for each part.

    Where nothing follows, outputs are scores of tokens, and what counts is the logarithm of their softmax p: the second
    derivative of the cross-entropy to p is p (1 - p), for each score alone.
    """
    if site.recurrence is not None:
        return rows_by_part(site, site.squared_slopes(target))
    rows = rows_by_part(site, target)  # each number alone, so others need not be made
    if site.then is not None:
        return [site.squared_slopes(each) for each in rows]
    shares = [each.softmax(-1) for each in rows]
    return [each * (1 - each) for each in shares]


def pieces_of(samples: Samples, *, bent: bool) -> Callable[[], Iterable[Piece]]:
    """The pieces of a site, to be gone through again and again: kept if they are small, else made anew each time.

    Args:
        samples: The samples of the site, each time from the first.
        bent: Whether slopes are asked for.
    """
    kept, size = [], 0
    for sample in samples():
        kept.append(Piece.of(sample, bent=bent))
        size += kept[-1].bytes
        if size > MEMORY:
            return lambda: (Piece.of(each, bent=bent) for each in samples())
    return lambda: kept
