"""Quadratic transport: an objective that is quadratic in a coupling, climbed without ever going down.

A space that stands on two axes of one tensor (hidden-to-hidden weights, the paper's Section 3) makes the objective
`f(T) = <L, T> + q(T, T)`. Frank and Wolfe: go towards the best vertex for the gradient, as far as an exact line search
says, and end at a vertex. Assigning at the gradient alone may decrease f; the line search may not.

The gradient is affine in T: between two vertices it lies between theirs. So values and gradients are only ever asked
for at vertices, where a coupling is an index and not a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

Vertex = TypeVar("Vertex")


def ascend(
    start: Vertex,
    *,
    at: Callable[[Vertex], tuple[float, Tensor]],
    vertex: Callable[[Tensor], Vertex],
    matrix: Callable[[Vertex], Tensor],
    steps: int = 20,
) -> tuple[Vertex, float, float]:
    """A vertex with a value not below that of the start, and both values, that of the start first.

    Args:
        start: A vertex (a permutation, maybe with signs).
        at: The objective at a vertex and its gradient there, a new tensor; both occurrences of the coupling count.
        vertex: The best vertex for a linear objective with these coefficients.
        matrix: A vertex as a matrix.
        steps: Most steps inside, before the last one that ends at a vertex.
    """
    before, best, value, inside = _climb(start, at, vertex, matrix, steps)
    last = vertex(inside)
    last_value, _ = at(last)
    return (last, before, last_value) if last_value > value else (best, before, value)


def _climb(
    start: Vertex,
    at: Callable[[Vertex], tuple[float, Tensor]],
    vertex: Callable[[Tensor], Vertex],
    matrix: Callable[[Vertex], Tensor],
    steps: int,
) -> tuple[float, Vertex, float, Tensor]:
    """The value at the start, the best vertex on the way and its value, and the place where the climb ends."""
    start_value, slopes = at(start)
    best, best_value, here, here_value = start, start_value, matrix(start).clone(), start_value
    for _ in range(steps):
        towards = vertex(slopes)
        there_value, there_slopes = at(towards)
        if there_value > best_value:
            best, best_value = towards, there_value
        direction = matrix(towards) - here
        slope = float(torch.dot(slopes.flatten(), direction.flatten()))
        if slope <= 1e-12 * max(1.0, abs(here_value)):
            break
        curvature = there_value - here_value - slope  # f is quadratic: f(here + g d) = f + g slope + g^2 curvature
        length = 1.0 if curvature >= 0 else min(1.0, -slope / (2 * curvature))
        here.add_(direction, alpha=length)
        here_value += length * slope + length**2 * curvature
        slopes.lerp_(there_slopes, length)
        del there_slopes, direction  # before there are new ones
    return start_value, best, best_value, here
