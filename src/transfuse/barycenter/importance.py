"""Importance: how much each tensor counts in the objective, where layers of different size shall count alike.

Units that rotate meet every layer of a network, and large weights would drown small ones in their scores: embeddings
are ten times as large as what reads them. So each tensor is divided by its norm.

Running statistics of batch norms say how large the inputs of a norm are, not what it gives. Variances are often larger
than all weights of a layer, and units would be matched by these.

In: states, names of tensors or a layout. Out: weights omega for `Problem`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from ..layout import Layout
from ..types import State
from .sums import squared


def importance_by_layer(states: Sequence[State], tensors: Iterable[str]) -> dict[str, float]:
    """One over the mean square of each tensor over all models; a vector counts with the largest tensor of its layer.

    A bias alone would be noise as loud as a matrix. Tensors that are zero in all models count nothing.

    Example:
        >>> import torch
        >>> state = {"up.weight": torch.full((2, 2), 5.0), "up.bias": torch.ones(2)}
        >>> {name: round(each, 6) for name, each in importance_by_layer([state, state], state).items()}
        {'up.weight': 0.01, 'up.bias': 0.01}
    """
    names = [name for name in tensors if states[0][name].is_floating_point()]
    squares = {name: sum(squared(state[name]) for state in states) / len(states) for name in names}
    largest: dict[str, float] = {}
    for name in names:
        layer = name.rpartition(".")[0]
        largest[layer] = max(largest.get(layer, 0.0), squares[name])
    sizes = {name: largest[name.rpartition(".")[0]] if _is_vector(states[0][name]) else squares[name] for name in names}
    return {name: 1 / size if size else 0.0 for name, size in sizes.items()}


def importance_without_statistics(state: State, layout: Layout) -> dict[str, float]:
    """Nothing for vectors that stay as they are when the units where they stand are scaled.

    These are running statistics of norms, and biases before norms.

    Example:
        >>> import torch
        >>> from transfuse import parse
        >>> layout = parse("{spaces: {up: 2 scales}, tensors: {norm.weight: [up], norm.running_var: ['|up|']}}")
        >>> importance_without_statistics({"norm.weight": torch.ones(2), "norm.running_var": torch.ones(2)}, layout)
        {'norm.running_var': 0.0}
    """
    blocks = layout.blocks(layout.widths(state))
    return {
        block.tensor: 0.0
        for block in blocks
        if layout[block.space].scales and not block.odd.any() and _is_vector(state[block.tensor])
    }


def _is_vector(tensor: Tensor) -> bool:
    return sum(length > 1 for length in tensor.shape) < 2
