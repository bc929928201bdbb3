"""Selection: units are not averaged but selected among those of all parents, and what reads them is fitted to that.

The parents side by side are one wide network, which computes the mean of their outputs. Each space is brought to its
width by elimination (`elimination`): of the units of all parents those stay from which the next layers of all parents
can still be made. What was read of the others is handed out to those that stay; then every site, from the first to the
last, is fitted to what its own units saw in their parent, and the last to the mean of the parents' outputs (`refit`).
Neither labels nor a matching are needed. Of attention whole heads are selected. Residual streams that are linear are
projected on their principal directions (`streams`); the units of others are placed, where the network is wider than its
parents (`placing`), else averaged, as they are coupled.

Two readers of units compete for what is kept. Each counts by how much it reads, so that a parent with large numbers
does not push the others out: all count by their proportions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from ..activations import together
from ..layout import Layout
from .affine import sampled
from .elimination import RIDGE, eliminated, features_of, handed_out, squared
from .placing import Placed, as_correlations, placed_units
from .readers import Reader, inputs_of, readers_by_space, readers_of_wider_streams
from .refit import refit_sites
from .streams import projected_streams, with_streams
from .task import MOST_SCORES, Carry, Task, check_numbers
from .units import Made

SAMPLES = 4096  # of what is read in a batch: a convolution sees its units at many places, which are much alike
TINY = 1e-30  # keeps a reader that reads nothing from being divided by zero

Grams = dict[tuple[str, str], Tensor]  # by weight and space: mean products of units
Kept = Mapping[str, tuple[int, ...]]  # by space: how many units of each parent are kept


@dataclass(frozen=True)
class Selection:
    """What a network was made of, space by space.

    Args:
        kept: Where units were selected: how many of each parent are kept.
        streams: Where streams were projected on their principal directions.
        placed: Where units of wider streams were placed.
        averaged: Where units were averaged, as they are coupled: why they were not selected.
        carry: For each parent and weight, a matrix that carries what comes out there to these units.
    """

    kept: Kept
    streams: Sequence[str]
    placed: Sequence[str]
    averaged: Mapping[str, str]
    carry: Carry = ()

    @staticmethod
    def of(layout: Layout, kept: Kept, streams: Iterable[str], placed: Iterable[str], carry: Carry = ()) -> Selection:
        """What was made of the spaces of a layout, given what was selected, projected and placed."""
        projected, wider = tuple(streams), tuple(placed)
        others = [space.name for space in layout.spaces if space.name not in {*kept, *projected, *wider}]
        return Selection(kept, projected, wider, {name: _why_averaged(layout, name) for name in others}, carry)


def _why_averaged(layout: Layout, space: str) -> str:
    if layout[space].rotations:
        return "no layer is seen to add to this stream"
    return layout.unrotated.get(space) or "a residual stream, or not all that reads it is a layer that can be fitted"


@dataclass(frozen=True, eq=False)
class Selected:
    """The units of one parent that are kept in a space, and what the others are in terms of all that are kept.

    Args:
        places: Where its units stand in the network.
        units: Which units they are.
        shares: What each feature of the parent is in terms of the network's, [network's, parent's features].
        size: How many features a unit has: the dimensions of a head, elsewhere one.
    """

    by_index: ClassVar[bool] = False
    is_identity: ClassVar[bool] = False

    places: Tensor
    units: Tensor
    shares: Tensor
    size: int = 1

    def carry(self, units: Tensor, *, odd: bool, produced: bool) -> Tensor:
        """Values [parent's units, ...] carried to the network: kept where units are produced, else handed out."""
        network = len(self.shares) // self.size
        if not produced:
            features = units.flatten(0, 1) if self.size > 1 else units
            handed: Tensor = torch.tensordot(self.shares.to(units), features, dims=1)
            return handed.reshape(network, *units.shape[1:])
        kept = units.new_zeros(network, *units.shape[1:])
        kept[self.places] = units[self.units]
        return kept


def select_units(task: Task, *, balanced: bool = True) -> Selection:
    """Make the network of a task from selected units of its parents, in place.

    Args:
        task: What to correct, with the units of network and parents.
        balanced: Whether parents count by their proportions; else by how large their numbers are.

    Returns:
        What it was made of.
    """
    assert task.units is not None, "the table says that selection needs units"
    own = replace(task, parents=task.units.parents, carry=())
    streams = projected_streams(own, task.units.made(task.weights, task.network).problem)
    made = with_streams(task.units.made(task.weights, task.network, folding=streams), streams)
    sites = own.parents_sights(0, next(iter(task.batches)))[0]
    readers, wider = readers_by_space(sites, made.problem), readers_of_wider_streams(sites, made.problem)
    grams = _grams(own, [reader for by in (*readers.values(), *wider.values()) for reader in by])
    placed = _placed(wider, grams, made)
    made = made.with_selected(placed)
    readers = {space: by for space, by in readers.items() if all((reader.tensor, space) in grams for reader in by)}
    whole = partial(_wanted, made, frozenset(readers), balanced=balanced)
    chosen = {}
    for space, by in readers.items():
        products = [grams[reader.tensor, space] for reader in by]
        wanted = torch.cat([whole(reader, gram) for reader, gram in zip(by, products, strict=True)], 1)
        widths = [len(block.positions) for block in by[0].pair.models]
        gram = torch.stack(products).mean(0)
        chosen[space] = _selected(gram, wanted, widths, made.problem.widths[space], by[0].size)
    result = made.with_selected(chosen)
    task.write(result.state())
    carry, often = result.carry(), Counter(seen.name for seen in sites)
    kept = {space: tuple(len(part.units) for part in each) for space, each in chosen.items()}
    selection = Selection.of(made.problem.layout, kept, streams, placed, carry)
    # Where each unit is one parent's, little is lost at a rectifier, and its slopes are not worth their time; states of
    # recurrent layers, and of loops that the network makes itself, saturate. Beside a stream that is averaged, all
    # slopes count, as they do in a refit.
    looped = {seen.name for seen in sites if seen.recurrence or often[seen.name] > 1}
    bent = None if selection.averaged else looped & own.bent() | own.token_scores(MOST_SCORES)
    refit_sites(replace(own, carry=carry), bent=bent)
    return selection


def _placed(wider: Mapping[str, Sequence[Reader]], grams: Grams, made: Made) -> dict[str, list[Placed]]:
    """By stream that is wider than every parent's, for each parent, where its units stand."""
    found = {}
    for space, by in wider.items():
        products = [grams[reader.tensor, space] for reader in by if (reader.tensor, space) in grams]
        widths = [len(block.positions) for block in by[0].pair.models]
        if products:
            alike = torch.stack([as_correlations(each) for each in products]).mean(0)
            found[space] = placed_units(alike, widths, made.problem.weights, made.problem.widths[space])
    return found


def _grams(task: Task, readers: Sequence[Reader]) -> Grams:
    """By weight and space: mean products of the units of all parents, side by side, as the weight reads them.

    Around their means where the reader has a constant, which makes those good. Weights that the parents never apply
    together, since they go different ways through their code, are left out.
    """
    sums: dict[tuple[str, str], Tensor] = {}
    for number, batch in ((number, batch) for number, batch in enumerate(task.batches) if batch.fits):
        sites = together(task.parents_sights(number, batch))
        read = [{name: value for seen in each for name, value in inputs_of(seen).items()}
                for each in zip(*sites, strict=True)]  # fmt: skip
        for reader in (each for each in readers if all(each.tensor in inputs for inputs in read) and read):
            values = [reader.values(inputs[reader.tensor], parent) for parent, inputs in enumerate(read)]
            beside = torch.cat([each[sampled(len(each), SAMPLES)] for each in values], 1)
            found = batch.weight * _squares(beside)
            key = reader.tensor, reader.pair.target.space
            sums[key] = sums[key] + found if key in sums else found
    keys = {(reader.tensor, reader.pair.target.space): reader for reader in readers}
    return {key: _products(keys[key], total) for key, total in sums.items()}


def _squares(values: Tensor) -> Tensor:
    """Products of columns, a constant being the last of them: a product of matrices with one more takes longer."""
    first, second = values.sum(0).double(), (values.T @ values).double()
    count = second.new_tensor([len(values)])
    return torch.cat([torch.cat([second, first[:, None]], 1), torch.cat([first, count])[None]])


def _products(reader: Reader, total: Tensor) -> Tensor:
    """Mean products of units, from sums whose last row and column are those of a constant."""
    check_numbers(reader.tensor, total)
    gram, mean = total[:-1, :-1] / total[-1, -1], total[:-1, -1] / total[-1, -1]
    return gram - torch.outer(mean, mean) if reader.has_constant else gram


def _wanted(made: Made, selected: frozenset[str], reader: Reader, gram: Tensor, *, balanced: bool) -> Tensor:
    """What a reader takes from the units of all parents, [units, ...], so that squares say what counts.

    Where the reader's own rows are selected, those of every parent are wanted, side by side; elsewhere their mean is.
    """
    rows = [pair.target.space for pair in made.problem.axes[reader.tensor].get(0, ())]
    weights, states = made.problem.weights, enumerate(made.problem.states)
    shares = [1.0] * len(weights) if made.holds_selected(reader.tensor) else weights
    if not selected.intersection(rows):
        whole = [made.carried_rows(parent, reader.tensor, reader.weight(state)) for parent, state in states]
        taken = [
            share * reader.by_unit(each, parent) for parent, (share, each) in enumerate(zip(shares, whole, strict=True))
        ]
        mean = torch.cat(taken)
        return mean / _size(mean, gram) if balanced else mean
    taken = [squared(reader.by_unit(reader.weight(state), parent)) for parent, state in states]
    pieces = zip(taken, _diagonal_blocks(gram, [len(each) for each in taken]), weights, strict=True)
    beside: Tensor = torch.block_diag(
        *(share**0.5 * each / (_size(each, own) if balanced else 1.0) for each, own, share in pieces)
    )
    return beside


def _size(taken: Tensor, gram: Tensor) -> float:
    """How large, on average, what is read of units is."""
    return math.sqrt(max(float(((taken @ taken.T) * gram).sum()), TINY))


def _diagonal_blocks(gram: Tensor, widths: Sequence[int]) -> list[Tensor]:
    """The products of the units of each parent with each other."""
    return [row.split(list(widths), 1)[number] for number, row in enumerate(gram.split(list(widths)))]


def _selected(gram: Tensor, wanted: Tensor, widths: Sequence[int], keep: int, size: int) -> list[Selected]:
    """For each parent, which of its units are kept; a network that is wider than all has units of zeros at the end."""
    kept = eliminated(gram, wanted, keep, size=size)
    shares = torch.zeros(keep * size, len(gram), dtype=gram.dtype, device=gram.device)
    shares[: len(kept) * size] = handed_out(gram, features_of(kept, size), ridge=RIDGE)
    found, start = [], 0
    for width in widths:
        mine = (kept >= start) & (kept < start + width)
        own = shares[:, size * start : size * (start + width)]
        found.append(Selected(mine.nonzero()[:, 0], kept[mine] - start, own, size))
        start += width
    return found
