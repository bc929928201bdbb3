"""Carrying a tensor along its axes by couplings, whole or piece by piece.

In: a tensor of a model, the blocks on its axes, couplings. Out: the tensor in the order of the target. A permutation is
an index, never a matrix product; what a sum needs of a large tensor is made a few rows at a time, so that it is never
there as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..layout import Block
from .coupling import Coupling

Couplings = Mapping[str, Coupling]

_PIECE = 2**17  # numbers: a piece and what is made of it stay in the cache


@dataclass(frozen=True, eq=False)
class Pair:
    """A block of the target, and the same block of each model."""

    target: Block
    models: tuple[Block, ...]


Axes = Mapping[int, Sequence[Pair]]  # what stands on each axis of a tensor on which something stands


def carried(tensor: Tensor, axes: Axes, model: int, couplings: Couplings) -> Tensor:
    """A tensor of a model, carried along some axes; the same tensor where nothing moves."""
    moving = {
        axis: pairs for axis, pairs in axes.items() if not all(couplings[pair.target.space].still for pair in pairs)
    }
    used = [couplings[pair.target.space] for pairs in moving.values() for pair in pairs]
    if len(moving) < 2 or not all(coupling.hard for coupling in used):
        return _through([_carrier(tensor, axis, pairs, model, couplings) for axis, pairs in moving.items()], tensor)
    result = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    make = carried_rows(tensor, moving, model, couplings)
    for piece in pieces(tensor.shape):  # what one axis gives is read by the next from the cache
        result[piece] = make(piece)
    return result


def carried_rows(
    tensor: Tensor, axes: Axes, model: int, couplings: Couplings, *, along: int = 0
) -> Callable[[slice], Tensor]:
    """The carried tensor as a function of rows, or of slices along another axis: no more than these is made of it."""
    first = axes.get(along, ())
    if not all(couplings[pair.target.space].hard for pair in first):
        whole = carried(tensor, axes, model, couplings)
        return lambda rows: taken_slice(whole, along, rows)
    carriers = [_carrier(tensor, axis, pairs, model, couplings) for axis, pairs in axes.items() if axis != along]
    if all(couplings[pair.target.space].still for pair in first):
        return lambda rows: _through(carriers, taken_slice(tensor, along, rows))
    index, factor = _index(tensor, along, first, model, couplings)
    return lambda rows: _through(carriers, _taken(tensor, along, index[rows], None if factor is None else factor[rows]))


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
    """All of a tensor."""
    return slices(tensor, 0)(slice(None))


def taken_slice(tensor: Tensor, axis: int, rows: slice) -> Tensor:
    """A slice along an axis, as a view."""
    return tensor[(slice(None),) * axis + (rows,)]


def pieces(shape: Sequence[int], *, along: int = 0, least: int = 1) -> Iterator[slice]:
    """Slices along an axis, small enough for the cache but of at least so many numbers; a vector is one."""
    length, count = shape[along], math.ceil(math.prod(shape) / max(_PIECE, least))
    if count <= 1 or len(shape) == 1:
        return iter([slice(None)])
    size = math.ceil(length / count)  # all alike: a thin rest would be slow
    return (slice(start, start + size) for start in range(0, length, size))


def units_of(tensor: Tensor, block: Block, slots: NDArray[np.bool_] | None = None) -> Tensor:
    """A tensor as [units, values] of some slots of a block (default: all); a view where nothing has to be copied."""
    whole = slots is None or slots.all()
    if not (whole and block.whole(tensor.shape[block.axis])):
        places = block.positions if whole else block.positions[:, slots]
        tensor = tensor.index_select(block.axis, torch.from_numpy(places.ravel()).to(tensor.device))
    return tensor.movedim(block.axis, 0).reshape(len(block.positions), -1)


def _through(carriers: Sequence[Callable[[Tensor], Tensor]], tensor: Tensor) -> Tensor:
    for carry in carriers:
        tensor = carry(tensor)
    return tensor


def _carrier(
    like: Tensor, axis: int, pairs: Sequence[Pair], model: int, couplings: Couplings
) -> Callable[[Tensor], Tensor]:
    """What carries one axis of a tensor by the couplings of the spaces on it."""
    used = [couplings[pair.target.space] for pair in pairs]
    if all(coupling.still for coupling in used):
        return lambda tensor: tensor
    if not all(coupling.hard for coupling in used):
        return lambda tensor: _mix(tensor, axis, pairs, model, couplings)
    index, factor = _index(like, axis, pairs, model, couplings)
    return lambda tensor: _taken(tensor, axis, index, factor)


def _taken(tensor: Tensor, axis: int, index: Tensor, factor: Tensor | None) -> Tensor:
    moved = tensor.index_select(axis, index)
    return moved if factor is None else moved.mul_(factor.view(-1, *[1] * (tensor.dim() - axis - 1)))


def _index(
    tensor: Tensor, axis: int, pairs: Sequence[Pair], model: int, couplings: Couplings
) -> tuple[Tensor, Tensor | None]:
    """Permutations with signs as one index along an axis, and a factor where units are negated."""
    length, index, factor = tensor.shape[axis], None, None
    for pair in pairs:
        coupling, there, here = couplings[pair.target.space], pair.target, pair.models[model]
        assert coupling.order is not None, "only permutations come here"
        assert coupling.sign is not None, "a hard coupling has signs"
        places, sources = (torch.from_numpy(block.positions).to(tensor.device) for block in (there, here))
        if there.whole(length):
            alone = there.positions.shape[1] == 1 and here.whole(length)  # the axis has the units and nothing else
            index = coupling.order if alone else sources[coupling.order].flatten()
        else:
            index = torch.arange(length, device=tensor.device) if index is None else index
            index[places] = sources[coupling.order]
        if coupling.negates and there.odd.any():
            factor = tensor.new_ones(length) if factor is None else factor
            odd = torch.from_numpy(there.odd).to(tensor.device)
            factor[places[:, odd]] = coupling.sign[:, None].to(tensor.dtype)
    assert index is not None, "an axis on which nothing stands is not carried"
    return index, factor


def _mix(tensor: Tensor, axis: int, pairs: Sequence[Pair], model: int, couplings: Couplings) -> Tensor:
    """By couplings of any kind, block by block."""
    front = tensor.movedim(axis, 0)
    moving = sum(pair.models[model].positions.size for pair in pairs)
    length = len(front) - moving + sum(pair.target.positions.size for pair in pairs)
    result = front.new_zeros(length, *front.shape[1:])
    there, here = [pair.target for pair in pairs], [pair.models[model] for pair in pairs]
    result[_rest(length, there, front.device)] = front[_rest(len(front), here, front.device)]
    for pair in pairs:
        own, target = pair.models[model], pair.target
        for slots, odd in ((target.odd, True), (~target.odd, False)):
            if slots.any():
                places, sources = (torch.from_numpy(b.positions[:, slots]).to(tensor.device) for b in (target, own))
                result[places] = couplings[target.space].carry(front[sources], odd=odd, side=target.side)
    return result.movedim(0, axis)


def _rest(length: int, blocks: Sequence[Block], device: torch.device) -> Tensor:
    """Positions of an axis that no block holds."""
    free = np.ones(length, dtype=bool)
    for block in blocks:
        free[block.positions] = False
    return torch.from_numpy(np.flatnonzero(free)).to(device)
