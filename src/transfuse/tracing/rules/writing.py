"""Values that are written, or added up, at places of another value: assignments, sums by index, messages of graphs."""

from __future__ import annotations

import torch

from ..algebra import Algebra, Join
from ..labels import Labels
from .table import Call, positive, rule

# What is done with values that meet at one place: whether it is odd and homogeneous, and how it joins with what was
# there. A mean is as linear as a sum; a maximum is homogeneous.
REDUCTIONS: dict[str, tuple[bool, bool, Join]] = {
    "sum": (True, True, "add"),
    "mean": (True, True, "add"),
    "amax": (False, True, "maximum"),
    "amin": (False, True, "maximum"),
    "prod": (False, False, "other"),
}


@rule("slice_scatter", "select_scatter", "diagonal_scatter")
def scatter_part(t: Algebra, call: Call) -> Labels:
    """Part of a value is replaced."""
    others = {key: value for key, value in call.arguments.items() if key not in ("self", "src")}
    return t.move(lambda array, part: call.function(array, part, **others), call["self"], call["src"])[0]


@rule("index_put", "index_put_impl", "_unsafe_index_put")
def index_put(t: Algebra, call: Call) -> Labels:
    """Elements are replaced: at constant places a movement, at computed ones the indexed axes stay in place."""
    indices, adds = list(call["indices"]), bool(call.get("accumulate", False))
    if not adds and not any(isinstance(index, Labels) for index in indices):
        return t.move(lambda array, part: torch.index_put(array, indices, part), call["self"], call["values"])[0]
    indexed = [axis for axis, index in enumerate(indices) if index is not None]
    flat = all(len(indices[axis].shape) == 1 and not t.labels(indices[axis]).units for axis in indexed)
    if not flat or indexed != list(range(indexed[0], indexed[-1] + 1)):
        return t.opaque(call.shape, call.tensors, "is written to at computed places")
    places = [size if axis in indexed else 1 for axis, size in enumerate(call.shape)]
    kept = t.join(call["self"], t.source(places), kind="multiply")  # also where it is zero, it stays zero
    return t.join(kept, _spread(t, t.labels(call["values"]), indexed, len(call.shape)), kind="add")


def _spread(t: Algebra, values: Labels, indexed: list[int], rank: int) -> Labels:
    """What is written along one axis of places, as a value that is the same at all places of the indexed axes."""
    front, written = indexed[0], rank - len(indexed) + 1
    (values,) = t.move(lambda array: array.reshape((1,) * (written - array.dim()) + tuple(array.shape)), values)
    values = t.pinned(values, frozenset([front]), "is written to at computed places")
    values = t.collapse(values, [front])
    view = (*values.shape[:front], *[1] * len(indexed), *values.shape[front:])
    return t.move(lambda array: array.reshape(view), values)[0]


@rule("index_add", "index_reduce")
def index_add(t: Algebra, call: Call) -> Labels:
    """Slices of a source are added up (or averaged, ...) at places along an axis, which therefore stays in place."""
    return _gathered(t, call, t.labels(call["source"]))


@rule("scatter_add", "scatter_reduce")
def scatter_add(t: Algebra, call: Call) -> Labels:
    """Each element of a source has a place of its own along an axis; mostly all elements of a row have the same."""
    source, index = t.labels(call["src"]), t.labels(call["index"])
    axis = positive(call["dim"], len(call.shape))
    others = [number for number in range(len(call.shape)) if number != axis]
    if index.units or any(not source.shape[other] == index.shape[other] == call.shape[other] for other in others):
        return t.opaque(call.shape, call.tensors, "is added up at computed places")
    if source.shape[axis] != index.shape[axis]:
        (source,) = t.move(lambda array: array.narrow(axis, 0, index.shape[axis]), source)
    return _gathered(t, call, t.join(source, index, kind="multiply"))


def _gathered(t: Algebra, call: Call, source: Labels) -> Labels:
    """A source whose elements were brought to other places along an axis, joined with what was there."""
    odd, homogeneous, kind = REDUCTIONS[call.get("reduce", "sum")]
    axis = positive(call["dim"], len(call.shape))
    brought = t.blend(source, [axis], call.shape, odd=odd, homogeneous=homogeneous, why="is added up at given places")
    return t.join(call["self"], brought, kind=kind)
