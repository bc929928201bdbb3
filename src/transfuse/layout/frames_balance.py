"""The balance of frames: both sides of the directions inside of a unit get the same products with one another.

Queries and keys of a head may be multiplied by any matrix and its inverse, transposed. Of all such pairs one is chosen
in which `Q Q' = K K'`; what is left then are rotations. The function of the network does not change. The matrix G with
`G Q Q' G' = G^-T K K' G^-1` that is symmetric and positive is the root of the geometric mean of `(Q Q')^-1` and `K K'`.
Where planes are all that may be turned and scaled, both sides of each plane get the same sum of squares.

In: a state (plain or lazy), a layout. Out: a state of the same kind.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from ..types import State
from .balance import balancing_factors
from .elements import Permutation
from .framed import Framed, Reversible
from .moving import units_of
from .permuting import permute
from .planes import of_planes, on_planes
from .recipe import Layout
from .records import Block, Frame, Part

ROUNDS = 30  # of scales and frames; some three are needed where units beside heads are scaled, else one
SETTLED = 1e-7  # a round that changes no number of a matrix by more than this is the last one
SINGULAR = 1e-9  # of the largest eigenvalue: directions of a side that are weaker are none, and cannot be balanced


def all_balanced(state: State, layout: Layout, *, scales: bool = True, apart: Collection[str] = ()) -> State:
    """The state with its frames in balance and, if `scales`, its scales (`balance`).

    Tensors that are kept `apart` do not count in the scales.
    """
    for step in _steps(state, layout, scales=scales, apart=apart):
        state = permute(state, layout, step)
    return state


def in_balance_of(reference: State, state: State, layout: Layout, *, scales: bool = True) -> State:
    """A balanced state in the scale and with the directions that another one has: what `all_balanced` did, undone."""
    for step in reversed(_steps(reference, layout, scales=scales)):
        state = permute(state, layout, {name: element.inverse() for name, element in step.items()})
    return state


def _steps(state: State, layout: Layout, *, scales: bool, apart: Collection[str] = ()) -> list[dict[str, Reversible]]:
    """What brings a state to balance, one after the other: scales, frames, and again until both are.

    Both make the sum of the squares of all weights as small as can be, so that they come to an end.
    """
    steps: list[dict[str, Reversible]] = []
    for number in range(ROUNDS):
        factors = balancing_factors(state, layout, apart=apart) if scales else {}
        steps.append({name: Permutation.scaling(each) for name, each in factors.items()})
        if not layout.frames:
            break
        state = permute(state, layout, steps[-1])
        elements = balancing_elements(state, layout)
        steps.append(dict(elements))
        state = permute(state, layout, steps[-1])
        if not factors or (number and max(map(_mixed, elements.values())) < SETTLED):
            break
    return steps


def _mixed(element: Framed) -> float:
    """How far, at most, a number of the matrices of an element is from that of the identity."""
    eyes = (torch.eye(each.shape[-1], dtype=each.dtype, device=each.device) for each in element.matrices)
    return max(float((each - eye).abs().max()) for each, eye in zip(element.matrices, eyes, strict=True))


def balancing_elements(state: State, layout: Layout) -> dict[str, Framed]:
    """For each space with frames the element that brings them to balance."""
    widths = layout.widths(state)
    blocks = {(block.tensor, block.axis, block.space): block for block in layout.blocks(widths)}
    found = {}
    for space in dict.fromkeys(frame.space for frame in layout.frames):
        own = layout.frames_of(space)
        matrices = tuple(_balancing(state, frame, blocks) for frame in own)
        order = Permutation(torch.arange(widths[space]), torch.ones(widths[space], dtype=torch.float64))
        found[space] = Framed(order, own, matrices, tuple(torch.linalg.inv(each) for each in matrices))
    return found


def _balancing(state: State, frame: Frame, blocks: dict[tuple[str, int, str], Block]) -> Tensor:
    """The symmetric matrices [units, directions, directions] that bring the one side to balance with the other."""
    one, other = (
        sum(_products(state[part.tensor], part, blocks[part.tensor, part.axis, frame.space]) for part in side)
        for side in (frame.one, frame.other)
    )
    assert isinstance(one, Tensor), "a side of a frame has a part"
    assert isinstance(other, Tensor), "a side of a frame has a part"
    if frame.planes:
        return _balancing_planes(one, other, frame.planes)
    spectra = torch.stack([torch.linalg.eigvalsh(each) for each in (one, other)])
    sound = (spectra[..., 0] > SINGULAR * spectra[..., -1]).all(0)
    eye = torch.eye(frame.size, dtype=one.dtype, device=one.device)
    one, other = (torch.where(sound[:, None, None], each, eye) for each in (one, other))
    root, back = _power(one, 0.5), _power(one, -0.5)
    return _power(back @ _power(root @ other @ root, 0.5) @ back, 0.5)


def _balancing_planes(one: Tensor, other: Tensor, apart: int) -> Tensor:
    """The diagonal matrices that scale planes of the one side to balance, by the products of either side."""
    sizes = torch.stack([on_planes(each, apart).real for each in (one, other)])
    sound = (sizes > SINGULAR * sizes.amax(-1, keepdim=True)).all(0)
    ratios = torch.where(sound, sizes[1] / sizes[0], 1.0)
    return of_planes((ratios**0.25).to(torch.complex128), apart)


def _products(tensor: Tensor, part: Part, block: Block) -> Tensor:
    """Products of the directions of each unit with one another [units, directions, directions], over all else."""
    width, slots = block.positions.shape
    values = units_of(tensor.detach(), block).double().reshape(width, slots, -1)[:, list(part.slots)]
    return values @ values.mT


def _power(matrix: Tensor, exponent: float) -> Tensor:
    """A power of positive symmetric matrices."""
    values, vectors = torch.linalg.eigh(matrix)
    raised: Tensor = vectors * values.clamp_min(torch.finfo(values.dtype).tiny)[:, None] ** exponent @ vectors.mT
    return raised
