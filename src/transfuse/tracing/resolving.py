"""From the registry to a layout: units, spaces, slots, sides, symmetries, names, reasons.

In: what reading found. Out: a `Layout`. Units with the same colour (the same operations, the same neighbours) and
the same slots in the same order form a space; a unit without an equal is fixed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray

from ..layout import Axis, Fixed, Layout, Run, Side, Slot, Space, Symmetry
from .degrees import Row, solve
from .labels import mix
from .reading import Reading
from .registry import Equation, Ids, Registry, connected

Place = tuple[str, int]  # a tensor and one of its axes
NO_EFFECT = "has no effect on the outputs"


@dataclass(frozen=True, eq=False)
class _Atoms:
    """Every position of every axis of the state that may hold a unit, in canonical order."""

    places: list[Place]
    place: Ids  # index into places
    position: Ids
    ids: Ids


@dataclass(frozen=True, eq=False)
class _Found:
    """A space before it has a name: units as lists of atoms, each with slots in a common order."""

    units: list[list[int]]
    signs: bool
    scales: bool
    even: frozenset[int]  # ids of the first unit that ignore signs and scales


def resolve(reading: Reading, shapes: Mapping[str, Sequence[int]], canonical: Mapping[str, str]) -> Layout:
    """The layout of a network that was read.

    Args:
        reading: What reading found.
        shapes: Shape of each tensor of the state.
        canonical: For each tensor, the name under which it was read (tied tensors have one).
    """
    atoms = _atoms(reading, shapes)
    slots, units = classes(reading.registry)
    members = [
        group
        for group in _exchangeable(reading.registry, atoms, slots, units)
        if any(atoms.places[atoms.place[atom]][0] not in reading.idle for atom in group[0])
    ]  # units of tensors without effect alone stay: the results may be remembered
    consumed = _consumed(reading.registry, atoms, members)
    systems = {"signs": _system(reading.registry, "signs"), "scales": _system(reading.registry, "scales")}
    spaces = [_with_symmetries(systems, atoms, units, group, consumed) for group in members]
    names = _names(spaces, atoms, consumed)
    axes = _axes(atoms, spaces, names, consumed, shapes)
    reasons = _reasons(reading, atoms, units, axes, shapes)
    tensors = {name: axes.get(canonical[name], _still(shapes[name])) for name in shapes}
    fixed = {name: reasons[canonical[name]] for name in shapes if reasons.get(canonical[name])}
    recipe = tuple(
        Space(name, len(found.units), Symmetry(found.signs, found.scales))
        for name, found in zip(names, spaces, strict=True)
    )
    return Layout(
        recipe, tensors, fixed, _reduced(reading.registry, atoms, units, dict(zip(names, members, strict=True)))
    )


def _reduced(registry: Registry, atoms: _Atoms, units: Ids, members: Mapping[str, list[list[int]]]) -> dict[str, str]:
    """For each space whose units are summed or averaged away somewhere, how and by what; a sum counts first.

    A weight that is summed over and whose values are shown as well (tied embeddings) is one that sums: its values
    cannot be shared among copies of a unit without being shown smaller.
    """
    found: dict[str, str] = {}
    consumed, shown = _sides(registry)
    both = consumed & shown
    for name, held in members.items():
        tied = next((atom for atom in held[0] if both[atoms.ids[atom]]), None)
        if tied is not None:
            found[name] = f"summed by {atoms.places[atoms.place[tied]][0]}, which is used in two ways (tied or shared)"
            continue
        own = units[atoms.ids[[atom for unit in held for atom in unit]]]
        here = [each for each in registry.reductions if np.isin(units[each.ids], own).any()]
        if here:
            worst = max(here, key=lambda each: each.how == "summed")
            found[name] = f"{worst.how} by {worst.where}" if worst.where else worst.how
    return found


def _atoms(reading: Reading, shapes: Iterable[str]) -> _Atoms:
    places = [(name, axis) for name in shapes if name in reading.used for axis in reading.ids.get(name, ())]
    arrays = [reading.ids[name][axis].numpy() for name, axis in places]
    empty = np.zeros(0, dtype=np.int64)
    return _Atoms(
        places,
        np.concatenate([np.full(len(ids), index) for index, ids in enumerate(arrays)] or [empty]),
        np.concatenate([np.arange(len(ids)) for ids in arrays] or [empty]),
        np.concatenate(arrays or [empty]),
    )


def classes(registry: Registry) -> tuple[Ids, Ids]:
    """For each id its slot and its unit."""
    slots = registry.slots(np.arange(registry.size))
    left = np.concatenate([a for a, _ in registry.together] or [np.zeros(0, dtype=np.int64)])
    right = np.concatenate([b for _, b in registry.together] or [np.zeros(0, dtype=np.int64)])
    units = np.arange(registry.size)
    nodes, least = connected(slots[left], slots[right])
    units[nodes] = least
    return slots, units[slots]


def _hashed(array: Ids) -> Ids:
    result: Ids = mix(torch.from_numpy(array)).numpy()
    return result


def _exchangeable(registry: Registry, atoms: _Atoms, slots: Ids, units: Ids) -> list[list[list[int]]]:
    """Groups of two or more units that can be exchanged; each unit as its atoms, slot by slot."""
    colour = registry.colour[: registry.size].copy()
    np.add.at(colour, atoms.ids, _hashed(atoms.place * 2 + 1))
    slot_colour = np.zeros(registry.size, dtype=np.int64)
    np.add.at(slot_colour, slots, colour)
    own = np.unique(slots[1:])
    unit_colour = np.zeros(registry.size, dtype=np.int64)
    np.add.at(unit_colour, units[own], _hashed(slot_colour[own]))
    touched = np.zeros(registry.size, dtype=bool)  # what no operation touches has no effect: it need not move
    touched[units[registry.colour[: registry.size] != 0]] = True
    atom_units = units[atoms.ids]
    colours, counts = np.unique(unit_colour[np.unique(atom_units)], return_counts=True)
    shared = np.isin(unit_colour[atom_units], colours[counts > 1]) & touched[atom_units]
    by_unit: dict[int, list[int]] = defaultdict(list)
    for atom, unit in zip(np.flatnonzero(shared).tolist(), atom_units[shared].tolist(), strict=True):
        by_unit[unit].append(atom)
    atom_slots = slots[atoms.ids]
    places, own_slots, shades = atoms.place.tolist(), atom_slots.tolist(), slot_colour[atom_slots].tolist()
    groups: dict[object, list[list[int]]] = defaultdict(list)
    for unit, held in by_unit.items():
        order = _slot_order([(places[atom], own_slots[atom], shades[atom]) for atom in held])
        groups[int(unit_colour[unit]), order].append(held)
    return [group for group in groups.values() if len(group) > 1]


def _slot_order(own: list[tuple[int, int, int]]) -> tuple[object, ...]:
    """How a unit's slots follow one another on each axis: only units that agree in this can be exchanged.

    Args:
        own: Place, slot and colour of the slot, for each atom of the unit in order.
    """
    if len(own) == 1:
        return ()
    first = {slot: (colour, atom) for atom, (_, slot, colour) in reversed(list(enumerate(own)))}
    rank = {slot: index for index, slot in enumerate(sorted(first, key=first.__getitem__))}
    return tuple((place, rank[slot]) for place, slot, _ in own)


def _consumed(registry: Registry, atoms: _Atoms, members: Sequence[list[list[int]]]) -> NDArray[np.bool_]:
    """Ids on axes of weights that are summed over, and on the factors that such weights are made of.

    An axis is on one side as a whole: where some of its units are also shown in activations, it produces.
    """
    consumed, shown = _sides(registry)
    consumed &= ~shown
    moving = np.array([atom for group in members for unit in group for atom in unit], dtype=np.int64)
    produces = np.zeros(len(atoms.places), dtype=bool)
    produces[atoms.place[moving[~consumed[atoms.ids[moving]]]]] = True
    consumed[atoms.ids[produces[atoms.place]]] = False
    return consumed


def _sides(registry: Registry) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which ids are summed over, in weights and in their factors, and which are shown in activations; some are both."""
    consumed = np.zeros(registry.size, dtype=bool)
    shown = np.zeros(registry.size, dtype=bool)
    for ids in registry.consumed:
        consumed[ids] = True
    for showing in registry.shown:
        shown[showing.ids] = True
    for equation in reversed(registry.equations):
        if equation.second.any():
            made = consumed[equation.total]
            consumed[equation.first[made]] = True
            consumed[equation.second[made]] = True
    return consumed, shown


def _system(registry: Registry, kind: str) -> list[Equation]:
    """All equations for the degrees of one kind, joined where their sign is the same."""
    own = [equation for equation in registry.equations if getattr(equation, kind)]
    found = []
    for sign in sorted({equation.sign for equation in own}):
        alike = [equation for equation in own if equation.sign == sign]
        total, first, second = (
            np.concatenate([getattr(equation, part) for equation in alike]) for part in ("total", "first", "second")
        )
        found.append(Equation(total, first, second, sign))
    return found


def _with_symmetries(
    systems: Mapping[str, Sequence[Equation]],
    atoms: _Atoms,
    units: Ids,
    group: list[list[int]],
    consumed: NDArray[np.bool_],
) -> _Found:
    """Whether the units may be negated or scaled: the degrees of the first one stand for all."""
    ids = atoms.ids[np.array(group[0])]
    unit = units[ids[0]]
    reading = [int(i) for i in ids[consumed[ids]]] or [int(ids[0])]
    degrees = {}
    for kind, system in systems.items():
        rows = list(_rows(system, units, unit))
        wanted = {i: -1 if consumed[i] and kind == "scales" else 1 for i in reading}
        rows += [{i: Fraction(1), 0: Fraction(-degree)} for i, degree in wanted.items()]
        degrees[kind] = _usable(solve(rows, modulo_two=kind == "signs"), ids, consumed, kind)
    signs, scales = degrees["signs"], degrees["scales"]
    if signs is not None and scales is not None and signs != scales:
        scales = None
    even = signs if signs is not None else scales if scales is not None else frozenset()
    return _Found(group, signs is not None, scales is not None, even)


def _rows(system: Iterable[Equation], units: Ids, unit: int) -> Iterable[Row]:
    """The equations for the degrees of one unit."""
    for equation in system:
        for index in np.flatnonzero((units[equation.total] == unit) & (equation.total != 0)).tolist():
            row: Row = defaultdict(Fraction)
            row[int(equation.total[index])] += 1
            row[int(equation.first[index])] -= 1
            row[int(equation.second[index])] -= equation.sign
            row.pop(0, None)
            yield dict(row)


def _usable(
    degrees: Mapping[int, Fraction] | None, ids: Ids, consumed: NDArray[np.bool_], kind: str
) -> frozenset[int] | None:
    """The even ids of a solution in which producers have degree 0 or 1, and consumers 0 or -1."""
    if degrees is None:
        return None
    even = set()
    for i in ids.tolist():
        degree = degrees.get(i, Fraction(0))
        if degree == 0:
            even.add(i)
        elif degree != (-1 if consumed[i] and kind == "scales" else 1):
            return None
    return frozenset(even)


def _names(spaces: Sequence[_Found], atoms: _Atoms, consumed: NDArray[np.bool_]) -> list[str]:
    """Canonical names: the first tensor that produces the units, and `out`; numbered where it has several spaces."""
    taken: Counter[str] = Counter()
    names = []
    for found in spaces:
        first = found.units[0]
        producers = [atom for atom in first if not consumed[atoms.ids[atom]]]
        tensor, _ = atoms.places[atoms.place[(producers or first)[0]]]
        name = _module_name(tensor) + (".out" if producers else ".in")
        taken[name] += 1
        names.append(name if taken[name] == 1 else f"{name}.{taken[name]}")
    return names


def _module_name(tensor: str) -> str:
    """`conv1.weight` -> `conv1`, `lstm.weight_ih_l0` -> `lstm.l0`, a bare parameter -> itself."""
    path, _, leaf = tensor.rpartition(".")
    recurrent = re.fullmatch(r"(?:weight|bias)_(?:ih|hh|hr)(?:_(l\d+(?:_reverse)?))?", leaf)
    plain = re.fullmatch(r"weight|bias|original\d*|weight_[gv]|(\w+)_(?:weight|bias)", leaf)
    last = (recurrent[1] or "") if recurrent else (plain[1] or "") if plain else leaf
    parts = [part for part in path.split(".") if part and part != "parametrizations"]
    if plain and leaf.startswith("original") and parts and parts[-1] == "weight":
        parts = parts[:-1]
    return re.sub(r"[\s\[\]()|*+<>,'\"{}&!%@`#]", "_", ".".join([*parts, *([last] if last else [])])) or "root"


def _still(shape: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(Axis((Fixed(length),) if length else ()) for length in shape)


def _axes(
    atoms: _Atoms,
    spaces: Sequence[_Found],
    names: Sequence[str],
    consumed: NDArray[np.bool_],
    shapes: Mapping[str, Sequence[int]],
) -> dict[str, tuple[Axis, ...]]:
    """Every axis of every tensor as segments."""
    slots: list[Slot] = []
    slot, number = np.full(len(atoms.ids), -1), np.zeros(len(atoms.ids), dtype=np.int64)  # of each atom that moves
    for name, found in zip(names, spaces, strict=True):
        held = np.array(found.units)
        slot[held] = len(slots) + np.arange(held.shape[1])
        number[held] = np.arange(len(held))[:, None]
        slots += [Slot(name, atoms.ids[atom] in found.even) for atom in found.units[0]]
    produced = np.unique(atoms.place[(slot >= 0) & ~consumed[atoms.ids]]).tolist()
    widths = {name: len(found.units) for name, found in zip(names, spaces, strict=True)}
    result = {tensor: list(_still(shape)) for tensor, shape in shapes.items()}
    for place in np.unique(atoms.place[slot >= 0]).tolist():
        tensor, axis = atoms.places[place]
        here = atoms.place == place
        own = zip(slot[here].tolist(), number[here].tolist(), strict=True)
        sequence = [None if which < 0 else (slots[which], unit) for which, unit in own]
        side: Side = "produces" if place in produced else "consumes"
        result[tensor][axis] = Axis(tuple(_segments(sequence, widths)), side)
    return {tensor: tuple(axes) for tensor, axes in result.items()}


def _segments(sequence: Sequence[tuple[Slot, int] | None], widths: Mapping[str, int]) -> Iterable[Run | Fixed]:
    """The shortest recipe: fixed stretches, cells repeated for every unit, and listed units where nothing repeats."""
    start, end = 0, len(sequence)
    while start < end:
        stop = start
        while stop < end and sequence[stop] is None:
            stop += 1
        if stop > start:
            yield Fixed(stop - start)
            start = stop
            continue
        cell = _cell(sequence, start, widths)
        if cell:
            slots = tuple(held[0] for held in sequence[start : start + cell] if held)
            yield Run(slots)
            start += cell * widths[slots[0].space]
            continue
        first = sequence[start]
        while stop < end and first and (held := sequence[stop]) and held[0] == first[0]:
            if stop > start and _cell(sequence, stop, widths):
                break
            stop += 1
        stretch = [held for held in sequence[start:stop] if held]
        yield Run((stretch[0][0],), tuple(number for _, number in stretch))
        start = stop


def _cell(sequence: Sequence[tuple[Slot, int] | None], start: int, widths: Mapping[str, int]) -> int:
    """Length of the cell that is repeated from here on once for every unit; 0 if none is."""
    length = 0
    while start + length < len(sequence) and (held := sequence[start + length]) and held[1] == 0:
        length += 1
    for size in range(length, 0, -1):
        slots = [held[0] for held in sequence[start : start + size] if held]
        counts = {widths[slot.space] for slot in slots}
        count = counts.pop()
        if counts or start + size * count > len(sequence):
            continue
        expected = [(slot, number) for number in range(count) for slot in slots]
        if list(sequence[start : start + size * count]) == expected:
            return size
    return 0


def _reasons(
    reading: Reading,
    atoms: _Atoms,
    units: Ids,
    axes: Mapping[str, tuple[Axis, ...]],
    shapes: Mapping[str, Sequence[int]],
) -> dict[str, dict[int, str]]:
    """For each axis that has fixed positions, the first distinction that told its units apart."""
    reasons: dict[str, dict[int, str]] = defaultdict(dict)
    for name, shape in shapes.items():
        if name not in reading.used:
            reasons[name] = {axis: NO_EFFECT for axis, n in enumerate(shape) if n > 1}
    for name, ids_by_axis in reading.ids.items():
        for axis, ids in ids_by_axis.items():
            if any(isinstance(segment, Fixed) for segment in axes[name][axis].segments):
                reason = _reason(reading.registry, units, units[ids.numpy()])
                reason = NO_EFFECT if name in reading.idle else reason
                if "is a kernel position" not in reason:
                    reasons[name][axis] = reason
    return reasons


def _reason(registry: Registry, units: Ids, wanted: Ids) -> str:
    for distinction in registry.distinctions:
        here = np.isin(units[distinction.ids], wanted) & (distinction.ids != 0)
        if len(np.unique(distinction.colours[here])) > 1 or (here.any() and len(np.unique(wanted)) == 1):
            return distinction.reason
    return "is one unit that has no equal"
