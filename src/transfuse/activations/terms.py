"""Activations as terms of the objective: tensors [sample, unit] on the layout, beside the weights.

What every weight is applied to (of a recurrent layer: its hidden states at all steps) is centred and standardised unit
by unit; of heads, so is how they attend. Only products of units with units ever enter the objective, so samples are
not kept: sums of products `K = A' A` over all models' units are, and in the end `K = R' R` gives a few rows R that
stand for all samples.

In: modules, a layout, batches. Out: `Terms`. Not here: how units are matched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
from torch import Tensor, nn

from ..errors import InputError, listing
from ..layout import Axis, Block, Fixed, Frame, Layout, Members, Part, Run, Slot
from ..modules import state_of
from ..types import State
from .attending import by_head
from .batches import Batches
from .sites import Seen, observe, observe_attending, together

EQUAL: Mapping[str, float] = MappingProxyType({})  # every weight counts alike


@dataclass(frozen=True, eq=False)
class Terms:
    """Activations of several models as tensors on a layout.

    Args:
        states: For each model: tensors [row, unit] by name.
        axes: The axes of these tensors on the layout.
        samples: How many samples stand behind each tensor.
        weights: Whether weights of spaces that have activations count beside these; those of other spaces, and those
            with directions inside of units, always do.
        frames: Directions inside of units, in weights and in these activations.
        members: Parts of units that may change places, in weights and in these activations.
        of_convolutions: Whether most of these tensors are what convolutions read, at many places of every sample.
            They tell units apart so well that couplings of two models, from several starts, came out with objectives
            within a thousandth of each other.
    """

    states: tuple[dict[str, Tensor], ...]
    axes: dict[str, tuple[Axis, ...]]
    samples: dict[str, int]
    weights: bool = True
    frames: tuple[Frame, ...] = ()
    of_convolutions: bool = False
    members: tuple[Members, ...] = ()

    @property
    def spaces(self) -> set[str]:
        """The spaces that have activations."""
        return {space for axes in self.axes.values() for space in axes[1].spaces}

    def beside(
        self, states: Sequence[State], layout: Layout, importance: Mapping[str, float] = EQUAL
    ) -> tuple[list[dict[str, Tensor]], Layout, dict[str, float]]:
        """States and layout with these activations in them, and by name how much each of these counts.

        In sum activations have the same square as weights, each of which counts by its importance. Correlations of few
        samples are mostly chance, so a tensor counts by its samples: `samples / (samples + units)`.
        """
        known = self.spaces
        moving = {name: axes for name, axes in layout.tensors.items() if _spaces(axes)}
        inside = {part.tensor for frame in self.frames for part in (*frame.one, *frame.other)}
        inside |= {part.tensor for each in self.members for own in each.parts for part in own}
        kept = {
            name: axes for name, axes in moving.items() if self.weights or name in inside or not _spaces(axes) <= known
        }
        squares = [
            sum(_square(each, names, importance) for each in of)
            for of, names in ((states, moving), (self.states, self.axes))
        ]
        size = squares[0] / max(squares[1], 1e-30)
        like = next((tensor for tensor in states[0].values() if tensor.is_floating_point()), torch.empty(0))
        mixed = [
            {**{name: state[name] for name in kept}, **{name: tensor.to(like) for name, tensor in own.items()}}
            for state, own in zip(states, self.states, strict=True)
        ]
        units = {name: sum(own[name].shape[1] for own in self.states) / len(states) for name in self.axes}
        trust = {name: count / (count + units[name]) for name, count in self.samples.items()}
        count = {name: size * trust[name] for name in self.axes}
        joined = Layout(
            layout.spaces, {**kept, **self.axes}, reduced=layout.reduced, frames=self.frames, members=self.members
        )
        return mixed, joined, count


def _spaces(axes: Sequence[Axis]) -> set[str]:
    """Names of all spaces on some axes."""
    return {space for axis in axes for space in axis.spaces}


def _square(state: State, names: Iterable[str], importance: Mapping[str, float]) -> float:
    """The sum of all squared numbers of some tensors, each counted by its importance (default: 1)."""
    return sum(
        importance.get(name, 1.0) * float(state[name].double().square().sum())
        for name in names
        if state[name].is_floating_point()
    )


@dataclass(frozen=True, eq=False)
class Products:
    """Sums over samples [sample, column].

    Args:
        count: How many samples.
        first: The sum of the samples [column].
        second: Products of columns with columns, summed [column, column].
    """

    count: int
    first: Tensor
    second: Tensor

    @staticmethod
    def of(values: Tensor) -> Products:
        """The sums over some samples [sample, column]."""
        return Products(len(values), values.sum(0).double(), (values.T @ values).double())

    def __add__(self, other: Products) -> Products:
        """Sums over both sets of samples."""
        return Products(self.count + other.count, self.first + other.first, self.second + other.second)

    def rows(self, together: Sequence[int] = ()) -> Tensor:
        """Rows R [row, column] with `R' R` the correlations of the columns; a column that never varies is 0.

        Where units may be rotated no column is divided by its own spread, which a rotation would not keep: so many
        columns `together`, those of each model, are divided by the root of their mean variance.
        """
        mean = self.first / self.count
        covariance = self.second / self.count - torch.outer(mean, mean)
        spread = covariance.diagonal().clamp_min(0.0).sqrt()
        if together:
            parts = [part.square().mean().sqrt().expand(len(part)) for part in spread.split(list(together))]
            spread = torch.cat(parts)
        alive = spread > 1e-6 * (mean.abs() + spread.max()).clamp_min(1e-300)
        scale = torch.where(alive, 1 / spread.clamp_min(1e-300), 0.0)
        values, vectors = torch.linalg.eigh(covariance * torch.outer(scale, scale))
        kept = values > 1e-10 * values.max().clamp_min(1e-300)
        rows: Tensor = (vectors[:, kept] * values[kept].sqrt()).T
        return rows


def activation_terms(models: Sequence[nn.Module], layout: Layout, batches: Batches, *, weights: bool = True) -> Terms:
    """The activations of all models on all batches, as terms.

    Args:
        models: Networks on the layout, maybe of different widths, in evaluation mode.
        layout: Which axes move together.
        batches: Inputs.
        weights: Whether weights count beside activations; see `Terms`.

    Raises:
        InputError: there are activations that are no numbers.
    """
    blocks = [_consuming(model, layout) for model in models]
    whole = {key for key in blocks[0] if any(frame.slots_on(key[0], 1) for frame in layout.frames_of(key[1]))}
    shares = {key: _count(layout, key) for key in whole}
    sums: dict[tuple[str, str], Products] = {}
    looks: dict[tuple[str, str], Products] = {}
    convolved: set[tuple[str, str]] = set()
    look = observe_attending if whole else observe
    for batch in batches:
        for seen in together([look(model, batch.run) for model in models]):
            for key in _keys(seen[0], blocks[0]):
                if key in whole and (heads := _heads(seen, [own[key] for own in blocks], shares[key])) is not None:
                    looks[key] = looks[key] + heads if key in looks else heads
                columns = [_units(each, own[key], key in whole) for each, own in zip(seen, blocks, strict=True)]
                exact = key in whole or layout[key[1]].rotations  # rotations show what permutations do not
                found = Products.of(torch.cat(columns, 1).double() if exact else torch.cat(columns, 1))
                sums[key] = sums[key] + found if key in sums else found
                convolved |= {key} if seen[0].kernel else set()
    states: tuple[dict[str, Tensor], ...] = tuple({} for _ in models)
    axes: dict[str, tuple[Axis, ...]] = {}
    samples: dict[str, int] = {}
    if strange := sorted({key[0] for key, found in sums.items() if not bool(found.second.isfinite().all())}):
        raise InputError(listing("NaN or infinity on the data; check the inputs and the weights. Seen at", strange))
    frames, members = layout.frames, layout.members
    for key, products in sums.items():
        slots = blocks[0][key].positions.shape[1] if key in whole else 1
        widths = [len(own[key].positions) * slots for own in blocks]
        turns = widths if layout[key[1]].rotations or key in whole else []
        name, rows = f"activations at {key[0]} of {key[1]}", products.rows(turns)
        if not len(rows):  # nothing there varies with the inputs
            continue
        even = not bool(blocks[0][key].odd.all())
        axes[name] = (Axis((Fixed(len(rows)),)), Axis((Run((Slot(key[1], even),) * slots),)))
        if key in whole:
            frames = tuple(_with_activations(frame, key, name) for frame in frames)
            members = tuple(_with_members(each, key[1], name, each.slots_on(key[0], 1)) for each in members)
        parts = rows.split(widths, 1)
        for state, part in zip(states, parts, strict=True):
            state[name] = part
        samples[name] = products.count
    for key, products in looks.items():
        count = shares[key]
        name, rows = f"attention before {key[0]} of {key[1]}", _of_patterns(products, blocks[0][key], count)
        axes[name] = (Axis((Fixed(len(rows)),)), Axis((Run((Slot(key[1], True),) * count),)))
        members = tuple(_with_members(each, key[1], name, [(slot,) for slot in range(count)]) for each in members)
        widths = [len(own[key].positions) * count for own in blocks]
        for state, part in zip(states, rows.split(widths, 1), strict=True):
            state[name] = part
        samples[name] = products.count
    return Terms(states, axes, samples, weights, frames, 2 * len(convolved) > len(sums), members)


def _count(layout: Layout, key: tuple[str, str]) -> int:
    """How many members of a unit a weight reads; 1 where units have none."""
    members = layout.members_of(key[1])
    return members.count if members and members.slots_on(key[0], 1) else 1


def _heads(seen: Sequence[Seen], blocks: Sequence[Block], members: int) -> Products | None:
    """Sums over the attention patterns of all models, [places and places, heads]; none where they do not compare."""
    shown = [(each.pattern, own) for each, own in zip(seen, blocks, strict=True) if each.pattern is not None]
    columns = [by_head(pattern, own, members) for pattern, own in shown]
    found = [each for each in columns if each is not None]
    alike = len(found) == len(seen) and len({len(each) for each in found}) == 1
    beside = torch.cat(found, 1).double() if alike else None
    return None if beside is None or not bool(beside.isfinite().all()) else Products.of(beside)


def _of_patterns(products: Products, block: Block, members: int) -> Tensor:
    """Rows that stand for the patterns of heads; each counts as much as all directions of its head do."""
    return math.sqrt(block.positions.shape[1] / members) * products.rows()


def _with_activations(frame: Frame, key: tuple[str, str], name: str) -> Frame:
    """A frame of which activations are a part: on the side that the weight which reads them does not have."""
    if frame.space != key[1]:
        return frame
    sides = {True: frame.other, False: frame.one}
    for slots, first in frame.slots_on(key[0], 1):
        sides[first] += (Part(name, 1, slots),)
    return replace(frame, one=sides[False], other=sides[True])


def _with_members(members: Members, space: str, name: str, slots: Sequence[tuple[int, ...]]) -> Members:
    """Members of which activations of that name are a part, by the slots that each has there."""
    if members.space != space or len(slots) != members.count:
        return members
    parts = zip(members.parts, slots, strict=True)
    return replace(members, parts=tuple((*own, Part(name, 1, held)) for own, held in parts))


def _consuming(model: nn.Module, layout: Layout) -> dict[tuple[str, str], Block]:
    """By names of a weight and a space: the block of that space on the weight's axis of inputs."""
    blocks = layout.blocks(layout.widths(state_of(model)))
    return {(block.tensor, block.space): block for block in blocks if block.axis == 1 and block.side == "consumes"}


def _keys(seen: Seen, blocks: Mapping[tuple[str, str], Block]) -> Iterator[tuple[str, str]]:
    """Names of the weights of a site and of the spaces that they read."""
    names = seen.recurrence.names[:2] if seen.recurrence else (seen.name,)
    return (key for key in blocks if key[0] in names)


def _units(seen: Seen, block: Block, whole: bool) -> Tensor:
    """What a site applies its weight to, as [samples and slots, units]; as [samples, units and slots] if `whole`."""
    values = seen.output if seen.recurrence and block.tensor == seen.recurrence.names[1] else seen.inputs
    channels = -1 - len(seen.kernel)
    rows = values.movedim(channels, -1).reshape(-1, values.shape[channels])
    picked = rows[:, torch.from_numpy(block.positions).to(rows.device)]
    return picked.flatten(1) if whole else picked.movedim(1, 2).flatten(0, 1)
