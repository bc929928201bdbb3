"""Moving: the one place where permutations, rotations, and couplings of any kind, are applied to tensors along axes.

In: a tensor of a model, the blocks on its axes, an element for each space. Out: the tensor in the order of the target,
whole or piece by piece. A permutation is an index, never a matrix product, and a rotation is one product; what a sum
needs of a large tensor is made a few rows at a time, so that it is never there as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .elements import Permutation, Rotation
from .framed import Framed
from .records import Block
from .slicing import pieces, taken_slice


class Element(Protocol):
    """What can be applied to the units of a space: a `Permutation`, by index; a `Rotation`; or one of the others."""

    @property
    def by_index(self) -> bool:
        """Whether it is a `Permutation`, which only has to be gathered and multiplied."""
        ...

    @property
    def is_identity(self) -> bool:
        """Whether nothing has to be moved."""
        ...


@runtime_checkable
class Carrier(Protocol):
    """An element that carries all units of a space in one way, slot by slot."""

    def carry(self, units: Tensor, *, odd: bool, produced: bool) -> Tensor:
        """Values [model units, ...] carried to the target [target units, ...]."""
        ...


Elements = Mapping[str, Element]  # by space


@dataclass(frozen=True, eq=False)
class Pair:
    """A block of the target, and the same block of each model."""

    target: Block
    models: tuple[Block, ...]


Axes = Mapping[int, Sequence[Pair]]  # what stands on each axis of a tensor on which something stands


def carried(tensor: Tensor, axes: Axes, model: int, elements: Elements) -> Tensor:
    """A tensor of a model, carried along some axes; the same tensor where nothing moves."""
    moving = {
        axis: pairs
        for axis, pairs in axes.items()
        if not all(elements[pair.target.space].is_identity for pair in pairs)
    }
    used = [elements[pair.target.space] for pairs in moving.values() for pair in pairs]
    if len(moving) < 2 or not all(element.by_index for element in used):
        return _through([_carrier(tensor, axis, pairs, model, elements) for axis, pairs in moving.items()], tensor)
    result = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    make = carried_rows(tensor, moving, model, elements)
    for piece in pieces(tensor.shape):  # what one axis gives is read by the next from the cache
        result[piece] = make(piece)
    return result


def carried_rows(
    tensor: Tensor, axes: Axes, model: int, elements: Elements, *, along: int = 0
) -> Callable[[slice], Tensor]:
    """The carried tensor as a function of rows, or of slices along another axis: no more than these is made of it."""
    first = axes.get(along, ())
    if len(first) == 1 and isinstance(element := elements[first[0].target.space], Rotation):
        return _rotated_rows(tensor, axes, model, elements, along, element)
    if not all(elements[pair.target.space].by_index for pair in first):
        whole = carried(tensor, axes, model, elements)
        return lambda rows: taken_slice(whole, along, rows)
    carriers = [_carrier(tensor, axis, pairs, model, elements) for axis, pairs in axes.items() if axis != along]
    if all(elements[pair.target.space].is_identity for pair in first):
        return lambda rows: _through(carriers, taken_slice(tensor, along, rows))
    index, factor = _index(tensor, along, first, model, elements)

    def taken(rows: slice) -> Tensor:
        """Some rows of the tensor, in the order of the target."""
        own = None if factor is None else factor[rows]
        if index is None:
            return _taken(taken_slice(tensor, along, rows), along, None, own)
        return _taken(tensor, along, index[rows], own)

    return lambda rows: _through(carriers, taken(rows))


def _rotated_rows(
    tensor: Tensor, axes: Axes, model: int, elements: Elements, along: int, element: Rotation
) -> Callable[[slice], Tensor]:
    """A tensor that is rotated along an axis, as a function of slices along it: products of rows of the rotation."""
    pair = axes[along][0]
    others = {axis: pairs for axis, pairs in axes.items() if axis != along}
    if not pair.target.odd.all() or element.is_identity:
        return carried_rows(tensor, others, model, elements, along=along)
    rest = [_carrier(tensor, axis, pairs, model, elements) for axis, pairs in others.items()]
    return lambda rows: _through(rest, mixed_along(element.matrix[rows], tensor, along))


def mixed_along(matrix: Tensor, tensor: Tensor, axis: int) -> Tensor:
    """A tensor whose positions along an axis are mixed by a matrix [new positions, positions].

    Where each new position is a multiple of one other, as with units that are selected or repeated, they are gathered:
    a product of matrices takes many times as long.

    Example:
        >>> mixed_along(torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0]]), torch.tensor([3.0, 4.0]), 0)
        tensor([4., 6., 4.])
    """
    matrix, axis = matrix.to(tensor), axis % tensor.dim()
    if int(matrix.count_nonzero(1).max()) <= 1:
        gathered = tensor.index_select(axis, matrix.abs().argmax(1))
        factors = matrix.sum(1)
        rest = tensor.dim() - 1 - axis
        return gathered if bool((factors == 1).all()) else gathered * factors.view(-1, *[1] * rest)
    if axis == tensor.dim() - 1:
        return tensor @ matrix.T
    mixed: Tensor = torch.tensordot(matrix, tensor, dims=([1], [axis]))
    return mixed.movedim(0, axis)


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
    like: Tensor, axis: int, pairs: Sequence[Pair], model: int, elements: Elements
) -> Callable[[Tensor], Tensor]:
    """What carries one axis of a tensor by the couplings of the spaces on it."""
    used = [elements[pair.target.space] for pair in pairs]
    if all(element.is_identity for element in used):
        return lambda tensor: tensor
    if len(used) == 1 and isinstance(element := used[0], Rotation):
        return lambda tensor: mixed_along(element.matrix, tensor, axis) if pairs[0].target.odd.all() else tensor
    if any(isinstance(element, Framed) for element in used):
        return _framed(like, axis, pairs, model, elements)
    if not all(element.by_index for element in used):
        return lambda tensor: _mix(tensor, axis, pairs, model, elements)
    index, factor = _index(like, axis, pairs, model, elements)
    return lambda tensor: _taken(tensor, axis, index, factor)


def _framed(
    like: Tensor, axis: int, pairs: Sequence[Pair], model: int, elements: Elements
) -> Callable[[Tensor], Tensor]:
    """What carries an axis on which units are moved, and then mixed inside."""
    inside = {name: each for name, each in elements.items() if isinstance(each, Framed)}
    plain = {**elements, **{name: each.permutation for name, each in inside.items()}}
    moved = _carrier(like, axis, pairs, model, plain)

    def carry(tensor: Tensor) -> Tensor:
        result = moved(tensor)
        for block in (pair.target for pair in pairs if pair.target.space in inside):
            result = inside[block.space].turned(result, block)
        return result

    return carry


def _taken(tensor: Tensor, axis: int, index: Tensor | None, factor: Tensor | None) -> Tensor:
    """Positions of an axis gathered by an index, then multiplied; nothing is copied twice."""
    moved = tensor if index is None else tensor.index_select(axis, index)
    if factor is None:
        return moved
    along = factor.view(-1, *[1] * (tensor.dim() - axis - 1))
    return tensor * along if index is None else moved.mul_(along)


def _index(
    tensor: Tensor, axis: int, pairs: Sequence[Pair], model: int, elements: Elements
) -> tuple[Tensor | None, Tensor | None]:
    """Permutations as one index along an axis and one factor; none where nothing is reordered or rescaled."""
    length, index, factor = tensor.shape[axis], None, None
    for pair in pairs:
        element, there, here = elements[pair.target.space], pair.target, pair.models[model]
        assert isinstance(element, Permutation), "only permutations come here"
        if element.reorders:
            order = element.order.to(tensor.device)
            places, sources = (torch.from_numpy(block.positions).to(tensor.device) for block in (there, here))
            if there.whole(length):
                alone = there.positions.shape[1] == 1 and here.whole(length)  # the axis has the units and nothing else
                index = order if alone else sources[order].flatten()
            else:
                index = torch.arange(length, device=tensor.device) if index is None else index
                index[places] = sources[order]
        if element.rescales and there.odd.any():
            factor = tensor.new_ones(length) if factor is None else factor
            values = element.factor if there.side == "produces" else 1 / element.factor
            spread(values.to(factor), there, factor)
    return index, factor


def spread(values: Tensor, block: Block, into: Tensor) -> None:
    """Write a value of each unit to all positions of an axis where the unit has odd slots."""
    places = torch.from_numpy(block.positions[:, block.odd]).to(into.device)
    into[places] = values[:, None]


def _mix(tensor: Tensor, axis: int, pairs: Sequence[Pair], model: int, elements: Elements) -> Tensor:
    """A tensor carried along one axis by couplings of any kind, block by block."""
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
                element = elements[target.space]
                assert isinstance(element, Carrier), "what is inside of units is mixed elsewhere"
                result[places] = element.carry(front[sources], odd=odd, produced=target.side == "produces")
    return result.movedim(0, axis)


def _rest(length: int, blocks: Sequence[Block], device: torch.device) -> Tensor:
    """Positions of an axis that no block holds."""
    free = np.ones(length, dtype=bool)
    for block in blocks:
        free[block.positions] = False
    return torch.from_numpy(np.flatnonzero(free)).to(device)
