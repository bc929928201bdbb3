"""Pieces: what the batches show of a site, cut down to what a fit needs, and kept while the site is fitted.

In: samples of a site. Out: features, the outputs that they shall give, and the slopes of what follows, at the samples
that are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import torch
from torch import Tensor

from ..activations import Batch, Seen
from .affine import Part, parts, rows_by_part
from .task import MEMORY, Sample

Samples = Callable[..., Iterator[Sample]]  # each time from the first; `which` batches may be said

PRODUCTS = 2e9  # of a recurrent layer, with features and states in all steps: of more sequences some are left out
RICH = 32  # samples for each feature: a part of them that has fewer was no better than all of them without slopes
LIGHT = 0.125  # of what the others count: what counts no more than that, all in all, is left out of costly fits


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


def pieces_of(samples: Samples, *, bent: Callable[[Seen], bool]) -> Callable[[], Iterable[Piece]]:
    """The pieces of a site, to be gone through again and again: kept if they are small, else made anew each time.

    Args:
        samples: The samples of the site, each time from the first.
        bent: Whether slopes are asked for, of a site.
    """
    kept, size = [], 0
    for sample in samples():
        kept.append(Piece.of(sample, bent=bent(sample.own)))
        size += kept[-1].bytes
        if size > MEMORY:
            return lambda: (Piece.of(each, bent=bent(each.own)) for each in samples())
    return lambda: kept


def few_sequences(samples: Samples) -> tuple[Samples, bool]:
    """Samples of a recurrent layer that are few enough to be gone through backwards and forwards, step by step.

    Sequences that count less, beside data, are left out where there are enough of the others. Of these, a part that is
    evenly spread counts for all.

    Args:
        samples: The samples of the layer.

    Returns:
        These samples, and whether they are so many that a fit of single steps by them is worth while beside one by all.
    """
    fits = list(samples(which=attrgetter("fits")))
    counts = {sample.batch.weight: 0.0 for sample in fits}
    for sample in fits:
        counts[sample.batch.weight] += sample.batch.weight * sample.target.numel()
    most = max(counts, default=0.0)
    enough = sum(count for weight, count in counts.items() if weight < most) <= LIGHT * counts.get(most, 0.0)
    kept = [sample for sample in fits if sample.batch.weight == most or not enough]
    share = PRODUCTS / max(sum(map(_products, kept)), 1)
    each = [sample.own.inputs.shape[-1] + sample.own.output.shape[-1] for sample in kept]
    rich = share * sum(math.prod(sample.target.shape[:-1]) for sample in kept) >= RICH * max(each, default=0)

    def some(*, which: Callable[[Batch], bool] = lambda batch: True) -> Iterator[Sample]:
        """Those that are left."""
        for sample in samples(which=lambda batch: which(batch) and not (enough and batch.fits and batch.weight < most)):
            yield cut(sample, share)

    return some, share >= 1 or rich


def _products(sample: Sample) -> int:
    """How many products a recurrent layer takes in all its steps: of gates with features, and with states."""
    return sample.target.numel() * (2 * sample.own.output.shape[-1] + sample.own.inputs.shape[-1])


def cut(sample: Sample, share: float) -> Sample:
    """A share of the sequences of a batch, evenly spread, that counts for all; packed ones are not cut."""
    site, layer, many = sample.own, sample.own.recurrence, sample.target.shape[1]
    assert layer is not None
    if share >= 1 or layer.sizes is not None:
        return sample
    kept = torch.linspace(0, many - 1, max(int(share * many), 1), device=sample.target.device).long()
    layer = replace(layer, start=tuple(each[kept] for each in layer.start))
    own = replace(site, inputs=site.inputs[:, kept], output=site.output[:, kept], recurrence=layer)
    batch = replace(sample.batch, weight=sample.batch.weight * many / len(kept))
    return Sample(own, sample.target[:, kept], batch)
