"""Fusing states that need not fit into memory: tensors are read when needed, results made when written.

Couplings are small. They are found first, and the fused tensors follow from them one by one. The numbers are those of
`fuse_states`, up to rounding where scales are balanced. With `low_memory` nothing but couplings, factors of units and a
sum of the models (the size of the result) is kept, and every tensor is read again whenever it is needed.

In: lazy states, a layout. Out: lazy states, and what a fusion tells. Not here: files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..barycenter import Coupling, Problem, Step
from ..checkpoints import Entry, Tensors, entries_of
from ..errors import InputError, listing
from ..layout import Block, Layout
from ..methods import Run
from ..progress import Progress, watching
from ..types import Array, State
from .networks import method_row, proportions, target_widths
from .preparing import as_first_model, check_states, own_order, working_type

Factors = Mapping[str, Array]
_PIECE = 1 << 22  # numbers that are worked on at a time


@dataclass(frozen=True, eq=False)
class Streamed:
    """A fusion whose tensors are made when asked for; see `FusedStates`.

    Args:
        state: The fused state.
        aligned: Every model in the common order.
        history: The objective and the number of changes after each sweep.
        status: How it ended.
        weights: Proportions of the models.
        seconds: How long it took to find the couplings.
    """

    state: Tensors
    aligned: tuple[Tensors, ...]
    history: tuple[Step, ...]
    status: str
    weights: tuple[float, ...]
    seconds: float


def fuse_streamed(  # noqa: PLR0913
    states: Sequence[State], layout: Layout, *, method: str = "auto", weights: Sequence[float] | None = None,
    widths: Mapping[str, int] | None = None, seed: int = 0, low_memory: bool = False, progress: Progress = False,
    **options: Any,
) -> Streamed:  # fmt: skip
    """Fuse states tensor by tensor; arguments as for `fuse_states`."""
    started = time.perf_counter()
    row = method_row(method)
    if row.terms not in (None, "weights"):
        raise InputError(f"method {method} needs activations, which states alone have not; use `fuse` with modules")
    if problems := row.problems(options):
        raise InputError(listing(f"method {method} cannot be used so:", problems))
    layout.check(*states)
    shares = proportions(weights, len(states))
    kind = working_type(entry.dtype for state in states for entry in entries_of(state).values())
    check_states(states, layout, kind)
    wanted = target_widths(layout, layout.widths(states[0]), widths or {})
    own: list[Mapping[str, Tensor]] = [_working(state, kind) for state in states]
    if row.balance:
        own = [balanced_lazily(state, layout) for state in own]
    if not low_memory:
        own = [dict(state) for state in own]  # read once; what is not converted or scaled stays mapped
    order = own_order(own, shares) if row.order_free else list(range(len(own)))
    problem = Problem([own[model] for model in order], layout, [shares[model] for model in order], wanted)
    with watching(progress, method) as watch:
        found, steps = row.couple(problem, Run(np.random.default_rng(seed), watch), **options)
    couplings = as_first_model([found[order.index(model)] for model in range(len(own))])
    final = Problem(own, layout, shares, wanted)
    history = Step.told(steps, lambda: problem.objective(found))
    status = "; ".join(step.note for step in history if step.note) or "converged"
    return Streamed(
        _means(final, couplings, states[0]),
        tuple(_carried(final, model, couplings[model], state) for model, state in enumerate(states)),
        history, status, tuple(shares), time.perf_counter() - started,
    )  # fmt: skip


def _working(state: State, kind: torch.dtype) -> Tensors:
    """A state in a type in which sums of products are safe, converted at each reading."""
    found = [
        Entry(name, kind if entry.dtype.is_floating_point else entry.dtype, entry.shape)
        for name, entry in entries_of(state).items()
    ]
    return Tensors(found, lambda entry: state[entry.name].detach().to(entry.dtype))


def _means(problem: Problem, couplings: Sequence[Mapping[str, Coupling]], like: State) -> Tensors:
    """The fused tensors, in the types of the first model."""
    entries = entries_of(like)
    averaged = {name for name, entry in entries.items() if entry.dtype.is_floating_point or entry.dtype.is_complex}

    def mean(entry: Entry) -> Tensor:
        if entry.name not in averaged:
            return problem.carried(0, entry.name, couplings[0])
        return problem.mean(entry.name, couplings).to(entry.dtype)

    return Tensors([_resized(problem, entry) for entry in entries.values()], mean)


def _carried(problem: Problem, model: int, couplings: Mapping[str, Coupling], like: State) -> Tensors:
    """The tensors of one model in the common order, in its own types."""
    entries = [_resized(problem, entry) for entry in entries_of(like).values()]
    return Tensors(entries, lambda entry: problem.carried(model, entry.name, couplings).to(entry.dtype))


def _resized(problem: Problem, entry: Entry) -> Entry:
    """What a tensor of the first model is in the target's widths."""
    return Entry(entry.name, entry.dtype, problem.shape(entry.name))


def balanced_lazily(state: State, layout: Layout, *, rounds: int = 20) -> Tensors:
    """`transfuse.layout.balanced`, with factors that are applied at each reading instead of to copies."""
    blocks = _scaled_blocks(state, layout)
    factors = _balancing_factors(state, layout, blocks, rounds)
    entries = list(entries_of(state).values())
    return Tensors(entries, lambda entry: _scaled(state[entry.name], blocks.get(entry.name, ()), factors))


def in_scale_of_lazily(reference: State, state: State, layout: Layout, *, rounds: int = 20) -> Tensors:
    """`transfuse.layout.in_scale_of`, with factors that are applied at each reading."""
    blocks = _scaled_blocks(reference, layout)
    factors = {name: 1 / each for name, each in _balancing_factors(reference, layout, blocks, rounds).items()}
    entries = list(entries_of(state).values())
    return Tensors(entries, lambda entry: _scaled(state[entry.name], blocks.get(entry.name, ()), factors))


def _scaled_blocks(state: State, layout: Layout) -> dict[str, list[Block]]:
    """Where units that have a scale stand, by tensor."""
    scaled = {space.name for space in layout.spaces if space.scales}
    blocks: dict[str, list[Block]] = {}
    for block in layout.blocks(layout.widths(state)):
        if block.space in scaled and block.odd.any():
            blocks.setdefault(block.tensor, []).append(block)
    return blocks


def _balancing_factors(
    state: State, layout: Layout, blocks: Mapping[str, Sequence[Block]], rounds: int
) -> dict[str, Array]:
    """What each unit is multiplied by to make its two norms equal."""
    widths = layout.widths(state)
    factors = {space.name: np.ones(widths[space.name]) for space in layout.spaces if space.scales}
    for _ in range(rounds if factors else 0):
        change = _balancing(state, blocks, factors)
        factors = {name: factors[name] * change[name] for name in factors}
        if all(np.allclose(each, 1.0, atol=1e-7) for each in change.values()):
            break
    return factors


def _balancing(state: State, blocks: Mapping[str, Sequence[Block]], factors: Factors) -> dict[str, Array]:
    """By how much more each unit must be multiplied so that what produces and what consumes it have equal norms."""
    norms = {(name, side): np.zeros(len(each)) for name, each in factors.items() for side in ("produces", "consumes")}
    for tensor, own in blocks.items():
        sums = _squares(state[tensor], [_axis_factor(state[tensor].shape[b.axis], b, factors) for b in own], own)
        for block, total in zip(own, sums, strict=True):
            norms[block.space, block.side] += total[block.positions[:, block.odd]].sum(1)
    change = {}
    for name in factors:
        produced, consumed = norms[name, "produces"], norms[name, "consumes"]
        usable = (produced > 0) & (consumed > 0)
        ratio = np.divide(consumed, produced, out=np.ones(len(produced)), where=usable)
        change[name] = ratio**0.25
    return change


def _squares(tensor: Tensor, factors: Sequence[Array], blocks: Sequence[Block]) -> list[Array]:
    """For each block, the sums of squares of a scaled tensor at each position of the block's axis, piece by piece."""
    sums = [torch.zeros(tensor.shape[block.axis], dtype=torch.float64) for block in blocks]
    rows = max(1, _PIECE // max(1, tensor.numel() // max(1, len(tensor))))
    for start in range(0, len(tensor), rows):
        piece = tensor[start : start + rows].double()
        for block, factor in zip(blocks, factors, strict=True):
            own = factor[start : start + rows] if block.axis == 0 else factor
            piece = piece * _along(own, block.axis, piece)
        piece = piece.square_()
        for block, total in zip(blocks, sums, strict=True):
            found = piece.movedim(block.axis, 0).flatten(1).sum(1) if piece.dim() > 1 else piece
            if block.axis == 0:
                total[start : start + rows] += found
            else:
                total += found
    return [total.numpy() for total in sums]


def _axis_factor(length: int, block: Block, factors: Factors) -> Array:
    """What each position of an axis is multiplied by."""
    unit = factors[block.space] if block.side == "produces" else 1.0 / factors[block.space]
    factor = np.ones(length)
    factor[block.positions] = np.where(block.odd, unit[:, None], 1.0)
    return factor


def _along(factor: Array, axis: int, tensor: Tensor) -> Tensor:
    shape = [-1 if each == axis else 1 for each in range(tensor.dim())]
    return torch.from_numpy(factor).to(tensor.dtype).view(shape)


def _scaled(tensor: Tensor, blocks: Sequence[Block], factors: Factors) -> Tensor:
    """A tensor with the factors of its units."""
    for block in blocks:
        tensor = tensor * _along(_axis_factor(tensor.shape[block.axis], block, factors), block.axis, tensor)
    return tensor
