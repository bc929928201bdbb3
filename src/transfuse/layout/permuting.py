"""`permute`: a state whose units are moved by elements of their symmetries; the network computes the same.

In: a state, its layout, an element for each space. Out: a state of the same kind, plain or lazy. How an element is
applied along an axis is said by `moving`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from ..arguments import STATE, check_arguments, instance, mapping
from ..errors import LayoutError
from ..lazy import LazyState, transformed
from ..renamed import telling_new_arguments
from ..types import State
from .elements import Permutation, Rotation
from .folding import folded
from .framed import Framed, Reversible
from .moving import Axes, Pair, carried
from .recipe import LAYOUT, Layout
from .symmetry import PERMUTATIONS

ELEMENTS = mapping(
    instance((Permutation, Rotation, Framed), ""),
    "a Permutation (or a Rotation) by name of a space: {'0.out': Permutation([1, 0])}",
)


@telling_new_arguments
def permute(state: State, layout: Layout, elements: Mapping[str, Reversible]) -> State:
    """Move the units of a state by an element for each of some spaces; the function of the network stays the same.

    The state is not modified, and tensors that nothing moves are passed on as they are. A lazy state gives a lazy one,
    whose tensors are moved when they are asked for. Norms over units that are rotated are folded before.

    Raises:
        LayoutError: an element does not belong to the symmetry of its space.

    Example:
        >>> import torch
        >>> from transfuse import parse
        >>> layout = parse('''
        ... spaces: {up.out: 2}
        ... tensors: {up.weight: [up.out, 1], down.weight: [1, < up.out]}
        ... ''')
        >>> state = {"up.weight": torch.tensor([[1.0], [2.0]]), "down.weight": torch.tensor([[3.0, 4.0]])}
        >>> permute(state, layout, {"up.out": Permutation([1, 0])})["down.weight"]
        tensor([[4., 3.]])
    """
    check_arguments(state=(state, STATE), layout=(layout, LAYOUT), elements=(elements, ELEMENTS))
    if strange := [name for name in elements if name not in {space.name for space in layout.spaces}]:
        raise LayoutError(f"elements: no space is called {', '.join(map(repr, strange))} in the layout")
    widths = layout.widths(state)
    for name, element in elements.items():
        plain = element.permutation if isinstance(element, Framed) else element
        inside = (
            element.objection(layout.frames_of(name), layout.members_of(name)) if isinstance(element, Framed) else ""
        )
        if objection := layout[name].symmetry.objection(plain, widths[name]) or inside:
            raise LayoutError(f"the {type(element).__name__.lower()} of space {name}: {objection}")
    if turned := [name for name, element in elements.items() if isinstance(element, Rotation)]:
        state = folded(state, layout, spaces=turned)
    axes: dict[str, dict[int, list[Pair]]] = {}
    for block in layout.blocks(widths):
        if block.space in elements:
            axes.setdefault(block.tensor, {}).setdefault(block.axis, []).append(Pair(block, (block,)))

    def moved(name: str, tensor: Tensor) -> Tensor:
        own = axes.get(name, {})
        _check_numbers(name, tensor, own, elements)
        return carried(tensor, own, 0, elements)

    if isinstance(state, LazyState):
        return transformed(state, moved)
    return {name: moved(name, tensor) for name, tensor in state.items()}


def _check_numbers(name: str, tensor: Tensor, axes: Axes, elements: Mapping[str, Reversible]) -> None:
    """Refuse to negate, scale or rotate what is not a floating-point number."""
    if tensor.is_floating_point() or tensor.is_complex():
        return
    for block in (pair.target for pairs in axes.values() for pair in pairs):
        if elements[block.space].rescales and block.odd.any():
            raise LayoutError(
                f"tensor {name} holds {tensor.dtype}, which cannot be negated, scaled or rotated with space "
                f"{block.space}; make its slots even (|{block.space}|) or give no factors"
            )


def random_elements(
    layout: Layout, widths: Mapping[str, int], rng: np.random.Generator, *, symmetries: bool = True
) -> dict[str, Reversible]:
    """A random element for each space of a layout, none of them trivial; without `symmetries` mere permutations."""
    found: dict[str, Reversible] = {}
    for space in layout.spaces:
        element = (space.symmetry if symmetries else PERMUTATIONS).random_element(widths[space.name], rng)
        frames = layout.frames_of(space.name) if symmetries else ()
        if frames and isinstance(element, Permutation):
            found[space.name] = Framed.random(element, frames, rng, layout.members_of(space.name))
        else:
            found[space.name] = element
    return found
