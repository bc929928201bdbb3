"""Units of the parents and units of the network: what carries the ones to the others, space by space.

In: a layout, and for each parent an element for each space (a coupling, or units that were selected). Out: matrices
that carry what comes out at sites, and the state of a network whose units are made of the parents'.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import torch
from torch import Tensor, nn

from ..barycenter import Problem
from ..layout import Layout
from ..layout.folding import folded
from ..layout.moving import Element, Elements, Pair, carried
from ..modules import model_state


@dataclass(frozen=True, eq=False)
class Units:
    """How units of the parents become units of the network.

    Args:
        layout: Which axes of which tensors move together.
        parents: The networks whose units they are, of any widths, in evaluation mode when they are run.
        elements: For each parent, what carries its units, by space; empty where all have the network's order.
    """

    layout: Layout
    parents: Sequence[nn.Module]
    elements: Sequence[Elements] = ()

    def made(self, weights: Sequence[float], network: nn.Module, *, folding: Collection[str] = ()) -> Made:
        """A network of the widths of another, made of the parents' units by their proportions.

        Where units are merged, the mean of what they give.

        Args:
            weights: Proportions of the parents.
            network: The network whose widths count.
            folding: Spaces whose norms are folded into what reads them, so that units can be mixed.
        """
        states = [folded(model_state(parent), self.layout, spaces=folding) for parent in self.parents]
        numbers = [x.dtype for state in states for x in state.values() if x.is_floating_point()]
        kind = reduce(torch.promote_types, numbers)
        alike = [{name: x.detach().to(kind) if x.is_floating_point() else x for name, x in state.items()}
                 for state in states]  # fmt: skip
        problem = Problem(alike, self.layout, weights, self.layout.widths(model_state(network)))
        return Made(problem, self.elements or [problem.start(model) for model in range(len(alike))])


@dataclass(frozen=True, eq=False)
class Made:
    """A network made of its parents' units.

    Args:
        problem: The parents, all their numbers in one type, and the widths of the network.
        elements: For each parent, what carries its units, by space.
        selected: Spaces in which each unit of the network comes from one parent, and is not a mean.
    """

    problem: Problem
    elements: Sequence[Elements]
    selected: frozenset[str] = frozenset()

    def with_selected(self, selected: Mapping[str, Sequence[Element]]) -> Made:
        """The network in which units of some spaces are selected: by space, an element for each parent."""
        elements = [{**own, **{space: each[model] for space, each in selected.items()}}
                    for model, own in enumerate(self.elements)]  # fmt: skip
        return Made(self.problem, elements, self.selected | selected.keys())

    def holds_selected(self, tensor: str) -> bool:
        """Whether the rows of a tensor, or what else it produces, come from one parent each."""
        pairs = self.problem.blocks.get(tensor, ())
        return any(pair.target.side == "produces" and pair.target.space in self.selected for pair in pairs)

    def state(self) -> dict[str, Tensor]:
        """The floating-point tensors of the network: sums where units come from one parent each, elsewhere means."""
        first = self.problem.states[0]
        return {name: self._combined(name) for name in first if first[name].is_floating_point()}

    def _combined(self, name: str) -> Tensor:
        shares = [1.0] * len(self.elements) if self.holds_selected(name) else self.problem.weights
        parts = [
            share * carried(state[name], self.problem.axes.get(name, {}), model, elements)
            for model, (state, elements, share) in enumerate(
                zip(self.problem.states, self.elements, shares, strict=True)
            )
        ]
        return torch.stack(parts).sum(0)

    def carry(self) -> list[dict[str, Tensor]]:
        """For each parent and weight, the matrix by which its mean with the others' is what the network shall give."""
        return [
            {
                name: self._rows(model, name)
                for name, tensor in state.items()
                if tensor.dim() > 1 and tensor.is_floating_point()
            }
            for model, state in enumerate(self.problem.states)
        ]

    def _rows(self, model: int, name: str) -> Tensor:
        """What carries the rows of a weight; a share is taken out where it would be put in once more by the mean."""
        own = self.problem.states[model][name]
        matrix = self.carried_rows(model, name, torch.eye(len(own), dtype=own.dtype, device=own.device))
        share = self.problem.weights[model]
        return matrix / share if self.holds_selected(name) and share else matrix

    def carried_rows(self, model: int, name: str, rows: Tensor) -> Tensor:
        """Rows of a tensor of a parent, carried to those of the network."""
        return carried(rows, self._producing.get(name, {}), model, self.elements[model])

    @cached_property
    def _producing(self) -> dict[str, dict[int, list[Pair]]]:
        """By tensor: the blocks on its first axis where it produces units."""
        found = {
            name: [pair for pair in pairs if pair.target.axis == 0 and pair.target.side == "produces"]
            for name, pairs in self.problem.blocks.items()
        }
        return {name: {0: pairs} for name, pairs in found.items() if pairs}
