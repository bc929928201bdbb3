"""Operations that change the place of elements and nothing else: run on labels by the same call on integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ..algebra import Algebra
from ..labels import Labels
from .table import RULES, Call, positive, rule

MOVES = (
    "_reshape_alias _unsafe_view as_strided broadcast_to cat channel_shuffle chunk concat concatenate "
    "constant_chunk diagonal dsplit expand expand_as flatten flip fliplr flipud hsplit hstack index_select "
    "moveaxis movedim mT narrow native_channel_shuffle numpy_T permute pixel_shuffle pixel_unshuffle ravel repeat "
    "repeat_interleave reshape reshape_as roll rot90 select slice slice_copy split split_with_sizes squeeze "
    "stack swapaxes swapdims t tensor_split tile transpose tril triu unbind unflatten unfold unsafe_chunk "
    "unsafe_split unsafe_split_with_sizes unsqueeze view view_as view_copy vsplit vstack"
).split()


def _moved(t: Algebra, call: Call) -> Labels | Sequence[Labels]:
    """The first argument (or each tensor of it, if it is a list) holds the elements; the others say where to."""
    (name, data), *others = call.arguments.items()
    shapes_of = {key: value for key, value in others if isinstance(value, Labels)}
    if call.name in ("aten::expand_as", "aten::view_as", "aten::reshape_as"):
        return t.move(lambda array: array.expand(call.shape) if call.name == "aten::expand_as"
                      else array.reshape(call.shape), data)[0]  # fmt: skip
    if shapes_of:
        return _picked(t, call)
    leaves, spec = pytree.tree_flatten(data, is_leaf=lambda leaf: isinstance(leaf, Labels))

    def again(*arrays: Tensor) -> Any:
        rebuilt = pytree.tree_unflatten(list(arrays), spec)
        reshaped = "aten::view", "aten::_unsafe_view", "aten::_reshape_alias"
        if call.name in reshaped and call.get("size"):
            return arrays[0].reshape(call["size"])  # strides of labels are not those of the value
        return call.function(**{name: rebuilt, **dict(others)})

    return t.move(again, *leaves)


def _picked(t: Algebra, call: Call) -> Labels:
    """`index_select` and the like by an index that depends on the model's input: units along that axis stay."""
    if "dim" not in call.arguments:
        return t.opaque(call.shape, call.tensors, "places depend on the model's input")
    axis = positive(call["dim"], len(call.shape))
    why = "is indexed by a computed value"
    return t.blend(call["self"], [axis], call.shape, odd=True, homogeneous=True, why=why)


RULES.update({f"aten::{name}": _moved for name in MOVES})


def by_position(function: Callable[[Tensor], Tensor], shape: Sequence[int]) -> Callable[[Tensor, Tensor], Tensor]:
    """Movement by a call that works on floats only: where each element comes from, found out once.

    The result takes an array and a padding, which stands where the call reads no element.
    """
    count = int(torch.Size(shape).numel())
    source = function(torch.arange(1, count + 1, dtype=torch.float64).reshape(shape)).round().long()
    return lambda array, padding: torch.cat([padding.reshape(1), array.reshape(-1)])[source]


@rule("constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
      "replication_pad2d", "replication_pad3d", "_pad_circular", "_pad_enum", "im2col")  # fmt: skip
def pad(t: Algebra, call: Call) -> Labels:
    """Padding by a number (which has no unit), by mirrored or by repeated elements; and cutting into patches."""
    (name, data), *others = call.arguments.items()
    constants = {key: value for key, value in others if key != "value"}
    x = t.labels(data)
    source = by_position(lambda array: call.function(**{name: array, **constants}), x.shape)
    return t.move(source, x, float(call.get("value", 0.0)))[0]


@rule("index", "_unsafe_index")
def index(t: Algebra, call: Call) -> Labels:
    """Indexing by tensors: by constants a movement, by computed ones the indexed axes stay in place."""
    x, places = t.labels(call["self"]), list(call["indices"])
    if not any(isinstance(place, Labels) for place in places):
        return t.move(lambda array: torch.ops.aten.index(array, places), x)[0]
    indexed = [axis for axis, place in enumerate(places) if place is not None]
    if any(t.labels(places[axis]).units for axis in indexed) or _is_mask(call, indexed, len(x.shape)):
        return t.opaque(call.shape, call.tensors, "is indexed by a computed value")
    x = t.pinned(x, frozenset(indexed), "is indexed by a computed value")
    rest = t.collapse(x, indexed)
    adjacent = indexed == list(range(indexed[0], indexed[-1] + 1))
    front = indexed[0] if adjacent else 0
    width = len(call.shape) - len(rest.shape)
    (rest,) = t.move(lambda array: array.reshape(array.shape[:front] + (1,) * width + array.shape[front:]), rest)
    tail = len(call.shape) - front - width
    found = torch.broadcast_shapes(*(tuple(places[axis].shape) for axis in indexed))
    if found != call.shape[front : front + width]:  # a mask: how many places it picks is seen in the result only
        return t.join(rest, t.source((*call.shape[front : front + width], *[1] * tail)), kind="multiply")
    for axis in indexed:
        (place,) = t.move(lambda array: array.reshape(tuple(array.shape) + (1,) * tail), places[axis])
        rest = t.join(rest, place, kind="multiply")
    return rest


def _is_mask(call: Call, indexed: list[int], rank: int) -> bool:
    """A boolean mask makes a result whose length depends on the data."""
    ranks = [len(call["indices"][axis].shape) for axis in indexed]
    return len(call.shape) != rank - len(indexed) + max(ranks)


@rule("gather", "take_along_dim")
def gather(t: Algebra, call: Call) -> Labels:
    """Picks along one axis, which therefore stays in place."""
    x, places = t.labels(call["self"]), call["index"]
    axis = positive(call["dim"], len(x.shape))
    if not isinstance(places, Labels):
        return t.move(lambda array: torch.gather(array, axis, places), x)[0]
    if any(a != b for i, (a, b) in enumerate(zip(x.shape, places.shape, strict=True)) if i != axis):
        return t.opaque(call.shape, call.tensors, "is indexed by a computed value")
    picked = t.blend(x, [axis], call.shape, odd=True, homogeneous=True, why="is indexed by a computed value")
    return t.join(picked, places, kind="multiply")


@rule("embedding")
def embedding(t: Algebra, call: Call) -> Labels:
    """Rows of a table, picked by constant or by computed indices (then the rows stay in place)."""
    table, places = t.labels(call["weight"]), call["indices"]
    if not isinstance(places, Labels):
        return t.move(lambda array: array[places], table)[0]
    table = t.pinned(table, frozenset([0]), "its rows are looked up by index")
    row = t.collapse(table, [0])
    (places,) = t.move(lambda array: array.unsqueeze(-1), places)
    return t.join(places, row, kind="multiply")


@rule("embedding_bag", "_embedding_bag")
def embedding_bag(t: Algebra, call: Call) -> Sequence[Labels]:
    """Rows of a table, looked up and pooled."""
    table = t.pinned(t.labels(call["weight"]), frozenset([0]), "its rows are looked up by index")
    row = t.collapse(table, [0])
    for place in ("indices", "offsets", "per_sample_weights"):
        if isinstance(call.get(place), Labels):
            t.pinned(call[place], None, "says which rows to look up")
    pooled = t.join(row, t.source((call.shape[0], 1)), kind="multiply")
    return [pooled, *(t.source(shape) for shape in call.shapes[1:])]


@rule("one_hot")
def one_hot(t: Algebra, call: Call) -> Labels:
    """A new axis of classes, which do not move."""
    (places,) = t.move(lambda array: array.unsqueeze(-1), call["self"])
    return t.join(places, torch.arange(call.shape[-1]), kind="other")


@rule("_pack_padded_sequence")
def pack(t: Algebra, call: Call) -> Sequence[Labels]:
    """Batch and time become one axis of steps; features stay features."""
    data = t.pinned(t.labels(call["input"]), frozenset([0, 1]), "is a row or a step of a packed sequence")
    data = t.collapse(data, [0, 1])
    steps = t.source((call.shape[0], *[1] * len(data.shape)))
    return [t.join(data, steps, kind="multiply"), t.source(call.shapes[1])]


@rule("_pad_packed_sequence")
def unpack(t: Algebra, call: Call) -> Sequence[Labels]:
    """Steps become batch and time again."""
    data = t.pinned(t.labels(call["data"]), frozenset([0]), "is a step of a packed sequence")
    data = t.collapse(data, [0])
    steps = t.source((*call.shape[:2], *[1] * len(data.shape)))
    padded = t.join(data, steps, kind="multiply")
    number = float(call.get("padding_value", 0.0))
    return [padded if number == 0 else t.join(padded, number, kind="add"), t.source(call.shapes[1])]


@rule("meshgrid", "broadcast_tensors", "atleast_1d", "atleast_2d", "atleast_3d")
def broadcast(t: Algebra, call: Call) -> Sequence[Labels]:
    """Values repeated along new axes."""
    (name, data), *others = call.arguments.items()
    if not isinstance(data, list | tuple):
        return t.move(call.function, data)
    return t.move(lambda *arrays: call.function(**{name: list(arrays), **dict(others)}), *data)
