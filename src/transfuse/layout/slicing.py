"""Slicing: tensors that are looked at, or made, a few rows at a time.

In: a tensor, or a way to make slices of one. Out: slices, small enough for the cache: what a sum needs of a large
tensor is never there as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

PIECE = 2**17  # numbers: a piece and what is made of it stay in the cache


@dataclass(frozen=True, eq=False)
class Sliced:
    """A tensor that is made slice by slice: `along(axis)` gives slices along an axis, and no more is there of it."""

    shape: Sequence[int]
    along: Callable[[int], Callable[[slice], Tensor]]

    def each(self, change: Callable[[Tensor, int, slice], Tensor]) -> Sliced:
        """What it becomes if every slice does: `change(slice, axis, rows)`."""

        def along(axis: int) -> Callable[[slice], Tensor]:
            make = self.along(axis)
            return lambda rows: change(make(rows), axis, rows)

        return Sliced(self.shape, along)


def slices(tensor: Tensor | Sliced, axis: int) -> Callable[[slice], Tensor]:
    """The slices of a tensor along an axis; views where it is there."""
    return tensor.along(axis) if isinstance(tensor, Sliced) else partial(taken_slice, tensor, axis)


def whole(tensor: Tensor | Sliced) -> Tensor:
    """All of a tensor that may be made slice by slice."""
    return slices(tensor, 0)(slice(None))


def taken_slice(tensor: Tensor, axis: int, rows: slice) -> Tensor:
    """A slice along an axis, as a view."""
    return tensor[(slice(None),) * axis + (rows,)]


def pieces(shape: Sequence[int], *, along: int = 0, least: int = 1) -> Iterator[slice]:
    """Slices along an axis, small enough for the cache but of at least `least` numbers; a vector is one slice."""
    length, count = shape[along], math.ceil(math.prod(shape) / max(PIECE, least))
    if count <= 1 or len(shape) == 1:
        return iter([slice(None)])
    size = math.ceil(length / count)  # all alike: a thin rest would be slow
    return (slice(start, start + size) for start in range(0, length, size))
