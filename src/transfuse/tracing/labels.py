"""Labels: for every element of an activation or weight, which units it belongs to and what else tells it apart.

A value of the network is described by integer arrays that broadcast to its shape, of size 1 along the axes on which
they do not vary (their *support* is the rest):

- `units`: ids of units, 0 where there is none. A weight has one such field for each axis, an activation
  usually one. Two fields never vary along the same axis.
- `tags`: everything else that tells elements apart: batch, time and pixel indices, values of constants. Two elements
  with equal tags (and no units) are the same number. A permutation of units may map an element only to one with
  equal tags.
- `zero`: where the element is known to be zero (padding).

Operations that only move elements are run on these integers by the very same call. Here: pure functions on
arrays. Not here: what relations between units follow from an operation (`algebra`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 2**64 / golden ratio as int64; multiplication wraps, which is what a hash wants
_FIRST, _SECOND = -4658895280553007687, -7723592293110705685


@dataclass(frozen=True, eq=False)
class Labels:
    """What is known of each element of one value; see the module's docstring."""

    shape: tuple[int, ...]
    units: tuple[Tensor, ...] = ()
    tags: tuple[Tensor, ...] = ()
    zero: Tensor | None = None
    weight: bool = False  # computed from the state alone, not from the model's inputs


def mix(array: Tensor) -> Tensor:
    """A good 64-bit hash, elementwise (the finaliser of splitmix64)."""
    array = (array ^ _shifted(array, 30)) * _FIRST
    array = (array ^ _shifted(array, 27)) * _SECOND
    return array ^ _shifted(array, 31)


def _shifted(array: Tensor, bits: int) -> Tensor:
    """A logical shift to the right (that of torch keeps the sign, with which numbers would collide)."""
    return (array >> bits) & ((1 << (64 - bits)) - 1)


def combine(first: Tensor, second: Tensor) -> Tensor:
    """Hash of an ordered pair, elementwise with broadcasting."""
    return mix(first * _GOLDEN + mix(second) + 1)


def salted(number: int) -> Tensor:
    """A scalar hash, different for every number."""
    return mix(torch.tensor(number * 2 + 1))


def support(array: Tensor) -> frozenset[int]:
    """The axes along which a label varies."""
    return frozenset(axis for axis, size in enumerate(array.shape) if size != 1)


def ranked(array: Tensor, rank: int) -> Tensor:
    """The array with leading axes of size 1, up to a rank."""
    return array.reshape((1,) * (rank - array.dim()) + tuple(array.shape))


def compress(array: Tensor) -> Tensor:
    """Reduce every axis along which the array does not vary to size 1."""
    for axis, size in enumerate(array.shape):
        if size > 1:
            first = array.narrow(axis, 0, 1)
            if array.stride(axis) == 0 or bool((array == first).all()):
                array = first
    return array


def tidy(tags: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The same tags in as few arrays as possible: one whose support lies within another's is folded into it."""
    kept: list[Tensor] = []
    for tag in sorted(tags, key=lambda tag: -len(support(tag))):
        for index, host in enumerate(kept):
            if support(tag) <= support(host):
                kept[index] = combine(host, tag)
                break
        else:
            kept.append(tag)
    return tuple(kept)


def indices(shape: Sequence[int], axes: Iterable[int], salt: Tensor) -> list[Tensor]:
    """Tags that tell the positions along some axes apart."""
    tags = []
    for axis in axes:
        if shape[axis] > 1:
            view = [1] * len(shape)
            view[axis] = -1
            tags.append(combine(torch.arange(shape[axis]).view(view), salt + axis))
    return tags


def of_constant(value: Tensor) -> Labels:
    """Labels of a constant: elements of equal value are not told apart."""
    plain = value.detach().cpu()
    hashed = combine(_bits(plain.real), _bits(plain.imag)) if plain.is_complex() else mix(_bits(plain))
    zero = compress(plain == 0)
    return Labels(tuple(value.shape), (), (compress(hashed),), zero if bool(zero.any()) else None, weight=True)


def _bits(numbers: Tensor) -> Tensor:
    """Integers that are equal where the numbers are."""
    if not numbers.is_floating_point():
        return numbers.long()
    return (numbers.double() + 0.0).contiguous().view(torch.int64)  # minus zero becomes zero


def overlapping(arrays: Iterable[Tensor], axes: frozenset[int]) -> list[Tensor]:
    """Those of the arrays that vary along one of the axes."""
    return [array for array in arrays if support(array) & axes]


def moved(function: Callable[..., Any], values: Sequence[Labels], salt: Tensor) -> list[Labels]:
    """Run an operation that only moves elements on labels, by the same call on integers.

    Args:
        function: Takes one integer tensor for each value, returns a tensor or a sequence of them.
        values: The labels of its tensor arguments.
        salt: Tells the results of this operation apart from those of others.
    """
    layers: list[tuple[str, list[Tensor | None]]] = []
    for kind in ("units", "tags"):
        supports = dict.fromkeys(support(ranked(a, len(v.shape))) for v in values for a in getattr(v, kind))
        for axes in supports:
            layers.append((kind, [_of_support(getattr(value, kind), axes) for value in values]))
    if any(value.zero is not None for value in values):
        zeros = [None if value.zero is None else value.zero.long() for value in values]
        layers.append(("zero", zeros))
    layers.append(("shape", [torch.tensor(0)] * len(values)))
    results: list[dict[str, Any]] = []
    for kind, arrays in layers:
        filled = [torch.tensor(0) if a is None else a for a in arrays]
        outputs = function(*(a.expand(v.shape) for a, v in zip(filled, values, strict=True)))
        outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        results = results or [{"units": [], "tags": [], "zero": None} for _ in outputs]
        for result, output in zip(results, outputs, strict=True):
            if kind == "shape":
                result["shape"] = tuple(output.shape)
            elif kind == "zero":
                result["zero"] = compress(output.bool())
            else:
                result[kind].append(compress(output))
    weight = all(value.weight for value in values)
    return [
        Labels(r["shape"], tuple(r["units"]), tidy([*r["tags"], salt + k]), _if_any(r["zero"]), weight)
        for k, r in enumerate(results)
    ]


def without_units(value: Labels, axes: frozenset[int]) -> Labels:
    """The same value with the unit fields along some axes turned into tags."""
    gone = overlapping(value.units, axes)
    kept = tuple(array for array in value.units if not support(array) & axes)
    return replace(value, units=kept, tags=tidy([*value.tags, *gone]))


def _of_support(arrays: Sequence[Tensor], axes: frozenset[int]) -> Tensor | None:
    """The array of that support, if there is one (a tidy value has at most one)."""
    return next((array for array in arrays if support(array) == axes), None)


def _if_any(mask: Tensor | None) -> Tensor | None:
    return mask if mask is not None and bool(mask.any()) else None
