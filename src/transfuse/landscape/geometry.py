"""Lengths and angles between states: the plane through three of them, and what lies on it.

Coordinates are distances in the space of parameters (Garipov et al. 2018, Appendix A.1; arXiv:1802.10026). Running
statistics of norms follow the combination, but are no coordinates; a tied tensor counts once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError
from ..modules import ties_of
from ..types import State
from .combining import Coefficients

STATISTICS = ("running_mean", "running_var")  # buffers of batch norm, which follow the parameters
FLAT = 1e-6  # of the longest side: three networks nearer to one line than this span no plane, but rounding errors


@dataclass(frozen=True, eq=False)
class Frame:
    """An orthonormal frame of the plane through three states: the first at (0, 0), the second on the first axis.

    Args:
        states: The three states.
        along: The first coordinate of the second state; its second one is 0.
        shift: The first coordinate of the third state.
        height: The second coordinate of the third state; positive.
    """

    states: tuple[State, State, State]
    along: float
    shift: float
    height: float

    @staticmethod
    def through(origin: State, x: State, y: State) -> Frame:
        """The frame of the plane through three states.

        Raises:
            InputError: the three lie on one line.
        """
        products = _gram(origin, (x, y))
        along = math.sqrt(products[0][0])
        side = math.sqrt(products[1][1])
        shift = products[0][1] / along if along else 0.0
        height = _residual(origin, (x, y), (-shift / along if along else 0.0, 1.0))
        if min(along, height) <= FLAT * max(along, side):
            raise InputError(
                "these three networks lie on one line and span no plane "
                f"(the second is {along:.3g} from the first, the third {height:.3g} from their line); "
                "give three that differ: two networks as trained, and one of them aligned to the other"
            )
        return Frame((origin, x, y), along, shift, height)

    def coefficients(self, x: float, y: float) -> Coefficients:
        """The coefficients of the three states, which sum to 1, at a point of the plane."""
        third = y / self.height
        second = (x - third * self.shift) / self.along
        return 1 - second - third, second, third

    def project(self, state: State) -> tuple[float, float, float]:
        """Coordinates of the foot of a state on the plane, and its distance from the plane."""
        origin, first, second = self.states
        products = _gram(origin, (first, second, state))
        x = products[0][2] / self.along
        y = (products[1][2] - self.shift * x) / self.height
        _, a, b = self.coefficients(x, y)
        return x, y, _residual(origin, (first, second, state), (-a, -b, 1.0))


def cosines(one: State, other: State) -> dict[str, float]:
    """The cosine of the angle between each tensor of a state and that of another; nan where one is zero.

    Example:
        >>> cosines({"w": torch.tensor([1.0, 0.0])}, {"w": torch.tensor([1.0, 1.0])})
        {'w': 0.7071...}
    """
    found = {}
    for name in _coordinates(one):
        a, b = (state[name].double().flatten() for state in (one, other))
        norm = float(a.norm() * b.norm())
        found[name] = float(a @ b) / norm if norm else math.nan
    return found


def _coordinates(state: State) -> Iterator[str]:
    """Names of the tensors whose numbers are coordinates: trained ones, each tied tensor once."""
    further = ties_of(state)
    for name, tensor in state.items():
        if tensor.is_floating_point() and name.rpartition(".")[2] not in STATISTICS and name not in further:
            yield name


def _differences(origin: State, others: Sequence[State]) -> Iterator[Tensor]:
    """For each tensor the differences of the others to the origin as a matrix [state, number], in float64."""
    for name in _coordinates(origin):
        start = origin[name].double().flatten()
        yield torch.stack([other[name].to(start.device).double().flatten() - start for other in others])


def _gram(origin: State, others: Sequence[State]) -> list[list[float]]:
    """Inner products of the differences to the origin."""
    total = torch.zeros(len(others), len(others), dtype=torch.float64)
    for rows in _differences(origin, others):
        total += (rows @ rows.T).cpu()
    return [[float(entry) for entry in row] for row in total]


def _residual(origin: State, others: Sequence[State], factors: Sequence[float]) -> float:
    """The length of a weighted sum of differences, computed from the sum itself, for inner products would cancel."""
    weights = torch.tensor(factors, dtype=torch.float64)
    return math.sqrt(
        sum(float((weights.to(rows.device) @ rows).square().sum()) for rows in _differences(origin, others))
    )
