"""Rotations: the layout with the spaces whose units rotate, and the norms over them that fold.

In: a recording, and the layout that reading it gave. Out: the layout, with rotations where every operation on the units
commutes with them; for a space with a norm over it whose units do not rotate, why not. Not here: what single operations
do (`turning`), whether it is true (`proof`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from torch import Tensor

from ..layout import Axis, Fold, Layout, Reader, Run, Slot, Space, Symmetry
from .algebra import Algebra
from .findings import Findings
from .reading import Unknown, read
from .recording import Recording
from .rules import Rule
from .turning import Turning
from .turns import Norm, Use


def with_rotations(
    recordings: Sequence[Recording], state: Mapping[str, Tensor], layout: Layout, canonical: Mapping[str, str], *,
    rules: Mapping[str, Rule], unknown: Unknown,
) -> Layout:  # fmt: skip
    """The layout with rotations.

    Args:
        recordings: The operations, on every way through the network.
        state: The tensors of the network.
        layout: What may be permuted, negated and scaled.
        canonical: For each tensor, the name under which it was read (tied tensors have one).
        rules: What each operation does.
        unknown: What to do with an operation without a rule.
    """
    crowded = dict(_crowded(layout))
    turning = Turning(layout, [space.name for space in layout.spaces if space.name not in crowded])
    if turning.spaces:
        # Rules ask nothing of an algebra but the functions that this one has, too.
        read(recordings, state, rules=rules, unknown=unknown, algebra=cast(Algebra, turning))
    found = turning.found
    for space, why in _unfoldable(found, layout):
        found.lost.setdefault(space, why)
    scaled = {space.name for space in layout.spaces if space.scales} - found.normed  # what is larger than rotations
    rotating = [name for name in turning.spaces if name not in {*found.lost, *scaled}]
    averaged = {name for name, how in layout.reduced.items() if how.startswith("averaged")}
    lost = {**crowded, **found.lost}
    reasons = {name: why for name, why in lost.items() if name in found.normed | averaged}
    return _rotated(layout, found, rotating, reasons, canonical)


def _crowded(layout: Layout) -> Iterator[tuple[str, str]]:
    """Spaces that cannot rotate wherever they meet, and why: they are not alone on each of their axes."""
    for tensor, axes in layout.tensors.items():
        for number, axis in enumerate(axes):
            for space in axis.spaces:
                if axis.alone != space:
                    yield space, f"{tensor} axis {number} has not just one slot for each of its units, in their order"


def _unfoldable(found: Findings, layout: Layout) -> Iterator[tuple[str, str]]:
    """Spaces with a norm whose gain cannot go into all that reads it, and why."""
    for gain, (space, norm) in found.norms.items():
        if {use.kind for use in found.uses[gain]} != {"gain"}:
            yield space, f"the gain {gain} is used for something else as well"
        if norm.bias and {use.kind for use in found.uses[norm.bias]} != {"bias of norm"}:
            yield space, f"the bias {norm.bias} is used for something else as well"
        for weight in _readers(found, norm):
            once = sum(axis.alone == space for axis in layout.tensors[weight]) == 1
            if any(_is_other(use, gain, space if once else "") for use in found.uses[weight]):
                yield space, _shared(gain, weight)
    for gain, space in found.scales.items():
        if {use.kind for use in found.uses[gain]} != {"scale"}:
            yield space, f"the vector {gain} is used for something else as well"
        for weight, axis in _writers(found, gain):
            if found.arrived[weight, axis] != {gain}:
                yield space, _shared(gain, weight)


def _shared(gain: str, weight: str) -> str:
    return f"the gain {gain} cannot go into {weight}, which is also used without it (it is shared; see `untied`)"


def _writers(found: Findings, gain: str) -> list[tuple[str, int]]:
    """The tensors, each with its axis, that write what a vector multiplies."""
    return sorted(writer for writer, gains in found.arrived.items() if gain in gains)


def _is_other(use: Use, gain: str, space: str) -> bool:
    """Whether a use of a weight is another one than to read units after a norm (and to write units elsewhere)."""
    if use.kind in ("reads", "writes"):
        return use.of != gain if use.kind == "reads" else use.of == space
    return use.kind != "with bias"


def _readers(found: Findings, norm: Norm) -> list[str]:
    """The weights that read what a norm gives."""
    return [name for name, uses in found.uses.items() if Use("reads", norm.gain) in uses]


def _reader(found: Findings, weight: str) -> Reader:
    """A weight with the bias that takes the norm's: one that is added whenever it reads, and nowhere else."""
    uses = found.uses[weight]
    biases = [use.of for use in uses if use.kind == "with bias"]
    bias = biases[0] if len(set(biases)) == 1 and len(biases) == sum(use.kind == "reads" for use in uses) else ""
    alone = bool(bias) and set(found.uses[bias]) == {Use("bias of", weight)}
    return Reader(weight, bias if alone else "")


def _rotated(
    layout: Layout, found: Findings, rotating: list[str], reasons: Mapping[str, str], canonical: Mapping[str, str]
) -> Layout:
    """The layout with these spaces rotating; only the gains of their norms, on even slots, stay when units turn."""
    spaces = tuple(_with_symmetry(space, found) if space.name in rotating else space for space in layout.spaces)
    aliases: dict[str, list[str]] = {}
    for name, own in canonical.items():
        aliases.setdefault(own, []).append(name)
    norms = [
        fold
        for space, norm in found.norms.values()
        if space in rotating
        for fold in _folds(norm, [_reader(found, weight) for weight in _readers(found, norm)], aliases)
    ]
    scales = [
        fold
        for gain, space in found.scales.items()
        if space in rotating
        for fold in _scales(gain, [name for name, _ in _writers(found, gain)], aliases)
    ]
    folds = (*norms, *scales)
    gains = {fold.gain for fold in folds}
    tensors = {
        name: tuple(_with_parity(axis, name in gains) if axis.alone in rotating else axis for axis in axes)
        for name, axes in layout.tensors.items()
    }
    return replace(layout, spaces=spaces, tensors=tensors, folds=folds, unrotated=reasons)


def _with_symmetry(space: Space, found: Findings) -> Space:
    return replace(space, symmetry=Symmetry(rotations=True, fixing_mean=space.name in found.centred))


def _folds(norm: Norm, readers: list[Reader], aliases: Mapping[str, list[str]]) -> Iterator[Fold]:
    """A norm with its readers, under each of the names that they have in the state.

    Of a module that is there twice, each norm goes with the readers beside it.
    """
    gains = aliases[norm.gain]
    for number, gain in enumerate(gains):
        into = [
            Reader(weight, _beside(each.bias, aliases, place, len(aliases[each.weight])))
            for each in readers
            for place, weight in enumerate(aliases[each.weight])
            if place == number or len(aliases[each.weight]) != len(gains)
        ]
        yield Fold(gain, _beside(norm.bias, aliases, number, len(gains)), tuple(into))


def _scales(gain: str, writers: list[str], aliases: Mapping[str, list[str]]) -> Iterator[Fold]:
    """A vector with the tensors that it multiplies, under each of the names that they have in the state."""
    gains = aliases[gain]
    for number, own in enumerate(gains):
        into = [
            name
            for writer in writers
            for place, name in enumerate(aliases[writer])
            if place == number or len(aliases[writer]) != len(gains)
        ]
        yield Fold(own, writers=tuple(into))


def _beside(bias: str, aliases: Mapping[str, list[str]], number: int, count: int) -> str:
    """The name of a bias that goes with that of so many names of its weight; its own if it has not as many."""
    names = aliases[bias] if bias else []
    return names[number] if len(names) == count else bias


def _with_parity(axis: Axis, even: bool) -> Axis:
    """An axis on which units ignore signs, and with them rotations, or do not."""
    return Axis((Run((Slot(axis.alone, even),)),), axis.side)
