"""Streams: the residual streams of all parents side by side, brought to the width of one by their principal directions.

A stream is linear where nothing but norms and linear layers read it and layers only add to it (pre-norm transformers):
then its dimensions are no units, any rotation of them is as good, and the streams of several parents can be projected
on the directions in which they vary most. With s_i the streams of the parents and U_i their parts of the directions,

    s = sum_i c_i s_i U_i,    s_i ~ s U_i' / c_i,

what writes to the stream, embeddings among it, is carried by c_i U_i exactly; what reads it, through a norm, by
U_i' / c_i times the ratio of the sizes of both streams. The factors c_i are such that parents count by their
proportions. No matching is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ..activations import Seen, together
from ..barycenter import Problem
from ..layout.moving import Pair
from .affine import rows_of, sampled
from .task import Task, check_numbers
from .units import Made

SAMPLES = 4096  # places of the stream that are looked at in a batch
TINY = 1e-30  # keeps what never varies from being divided by zero


@dataclass(frozen=True, eq=False)
class Projected:
    """A stream of one parent, projected on directions that all parents share.

    Args:
        directions: [parent's dimensions, network's dimensions].
        written: By which factor what writes to the stream is multiplied.
        read: By which factor what reads it is multiplied.
        share: The proportion of the parent.
    """

    by_index: ClassVar[bool] = False
    is_identity: ClassVar[bool] = False

    directions: Tensor
    written: float
    read: float
    share: float

    def carry(self, units: Tensor, *, odd: bool, produced: bool) -> Tensor:
        """Values [parent's dimensions, ...] carried to the network's; even ones are gains of norms, folded to ones."""
        if not odd:
            return self.share * units.new_ones(self.directions.shape[1], *units.shape[1:])
        factor = self.written if produced else self.read
        carried: Tensor = torch.tensordot(factor * self.directions.T.to(units), units, dims=1)
        return carried


def projected_streams(task: Task, problem: Problem) -> dict[str, list[Projected]]:
    """By stream, for each parent, how it is projected on the directions in which the streams of all vary most.

    Streams are the spaces whose units rotate, if layers are seen to add to them.

    Args:
        task: The parents as they were trained, and inputs.
        problem: The parents, and the widths of the network.
    """
    found = {}
    for name in problem.layout.rotating:
        if products := _products_by_layer(task, problem, name):
            found[name] = _projected(products, problem, name)
    return found


def with_streams(made: Made, streams: Mapping[str, Sequence[Projected]]) -> Made:
    """A network of folded parents, with their streams projected.

    A norm that keeps its bias, since a reader has none to take it, adds it to what is read and not to what is written:
    it is scaled here so that it is carried as such.
    """
    problem = made.problem
    states = [dict(state) for state in problem.states]
    for fold in (fold for fold in problem.layout.folds_of(streams) if fold.keeps_bias):
        for state, own in zip(states, streams[problem.layout.space_of(fold)], strict=True):
            both = own.written * own.read
            state[fold.bias] = state[fold.bias] / both if both else state[fold.bias]
    return replace(made, problem=replace(problem, states=states)).with_selected(streams)


def _products_by_layer(task: Task, problem: Problem, space: str) -> list[Tensor]:
    """Between the layers that add to a stream, the mean products [dimensions, dimensions] of all parents, side by side.

    Nothing if no layer is seen to add to it.
    """
    writers = {pair.target.tensor: pair for pair in problem.blocks_of[space]
               if pair.target.side == "produces" and pair.target.axis == 0}  # fmt: skip
    sums: list[Tensor] = []
    count = 0.0
    for number, batch in ((number, batch) for number, batch in enumerate(task.batches) if batch.fits):
        sites = together(task.parents_sights(number, batch))
        added = [each for each in sites if each[0].name in writers and each[0].rest is not None]
        between = [_beside(each, writers[each[0].name], before=True) for each in added[:1]]
        between += [_beside(each, writers[each[0].name]) for each in added]
        if not between or (sums and len(sums) != len(between)):
            continue  # the networks go another way through their code on this batch
        products = [batch.weight * _products(each) for each in between]
        sums = [a + b for a, b in zip(sums, products, strict=True)] if sums else products
        count += batch.weight * len(between[0])
    if not sums:
        return []
    check_numbers(f"stream {space}", *sums)
    if problem.layout[space].symmetry.fixing_mean:
        widths = _parents_widths(problem, space)
        middle = torch.block_diag(*(torch.eye(n, dtype=torch.float64) - 1 / n for n in widths)).to(sums[0])
        sums = [middle @ each @ middle for each in sums]
    return [each / count for each in sums]


def _parents_widths(problem: Problem, space: str) -> list[int]:
    """How many dimensions the stream of each parent has."""
    return [len(block.positions) for block in problem.blocks_of[space][0].models]


def _beside(seen: Sequence[Seen], pair: Pair, *, before: bool = False) -> Tensor:
    """The streams of all parents side by side [samples, dimensions], after a layer has added to it or before."""
    values = []
    for each, block in zip(seen, pair.models, strict=True):
        rows = rows_of(each, each.rest if before and each.rest is not None else each.output)
        values.append(rows[:, torch.from_numpy(block.positions[:, 0]).to(rows.device)])
    beside = torch.cat(values, 1)
    return beside[sampled(len(beside), SAMPLES)]


def _products(beside: Tensor) -> Tensor:
    return (beside.T @ beside).double()


def _projected(products: Sequence[Tensor], problem: Problem, space: str) -> list[Projected]:
    """How the stream of each parent is projected, from products between layers, each of which counts alike."""
    weights, width, widths = problem.weights, problem.widths[space], _parents_widths(problem, space)
    centred = problem.layout[space].symmetry.fixing_mean
    sizes = _sizes(products, widths)
    factors = [math.sqrt(len(weights) * share) / _middle(own) for share, own in zip(weights, sizes, strict=True)]
    scale = torch.cat([torch.full((n,), c, dtype=torch.float64) for n, c in zip(widths, factors, strict=True)])
    scale = scale.to(products[0].device)
    scaled = [scale[:, None] * each * scale for each in products]
    total = torch.stack([each / each.diagonal().sum().clamp_min(TINY) for each in scaled]).sum(0)
    basis = (_complement(width) if centred else torch.eye(width, dtype=torch.float64)).to(total.device)
    kept = min(basis.shape[1], len(total) - centred * len(widths))
    directions = principal_directions(total)[:, :kept] @ basis[:, :kept].T
    whole = [math.sqrt(max(float(((directions.T @ each) * directions.T).sum()) / width, TINY)) for each in scaled]
    parts = directions.split(widths)
    ratios = [_middle([ours / theirs for ours, theirs in zip(whole, own, strict=True)]) for own in sizes]
    return [
        Projected(part, factor, ratio / factor if factor else 0.0, share)
        for part, factor, ratio, share in zip(parts, factors, ratios, weights, strict=True)
    ]


def _sizes(products: Sequence[Tensor], widths: Sequence[int]) -> list[list[float]]:
    """For each parent, the root mean square of its stream at each layer."""
    squares = [each.diagonal().split(list(widths)) for each in products]
    return [[math.sqrt(max(float(own.mean()), TINY)) for own in parent] for parent in zip(*squares, strict=True)]


def principal_directions(products: Tensor) -> Tensor:
    """Directions [dimensions, directions] of products of dimensions, those in which they vary most first."""
    directions: Tensor = torch.linalg.eigh(products).eigenvectors.flip(1)
    return directions


def _middle(sizes: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, sizes)) / len(sizes))


def _complement(width: int) -> Tensor:
    """An orthonormal basis [width, width - 1] of the vectors whose mean is zero."""
    first = torch.cat([torch.ones(width, 1), torch.eye(width)[:, : width - 1]], 1).double()
    basis: Tensor = torch.linalg.qr(first).Q[:, 1:]
    return basis
