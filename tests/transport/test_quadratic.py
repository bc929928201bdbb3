"""Quadratic transport never goes down, and ends at a vertex."""

from itertools import permutations

import torch
from hypothesis import given
from hypothesis import strategies as st

from transfuse.transport import ascend, assignment


def problem(size, seed):
    generator = torch.Generator().manual_seed(seed)
    first, second, linear = (torch.randn(size, size, generator=generator, dtype=torch.float64) for _ in range(3))

    def value(matrix):
        return float((linear * matrix).sum() + (first * (matrix @ second @ matrix.T)).sum())

    def gradient(matrix):
        return linear + first @ matrix @ second.T + first.T @ matrix @ second

    return value, gradient


def as_matrix(order):
    return torch.eye(len(order), dtype=torch.float64)[order]


@given(size=st.integers(2, 5), seed=st.integers(0, 10**6))
def test_the_value_never_falls_below_the_start_and_is_that_of_a_permutation(size, seed):
    value, gradient = problem(size, seed)
    start = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    found, before, best = ascend(
        start,
        at=lambda order: (value(as_matrix(order)), gradient(as_matrix(order))),
        vertex=assignment,
        matrix=as_matrix,
    )
    everything = [value(as_matrix(torch.tensor(p))) for p in permutations(range(size))]
    assert sorted(found.tolist()) == list(range(size))
    assert before == value(as_matrix(start))
    assert best >= before
    assert min(abs(best - each) for each in everything) < 1e-9
    assert best <= max(everything) + 1e-9


@given(size=st.integers(2, 5), seed=st.integers(0, 10**6))
def test_the_gradient_of_the_tests_is_that_of_the_value(size, seed):
    value, gradient = problem(size, seed)
    here = torch.randn(size, size, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    step = torch.randn(size, size, generator=torch.Generator().manual_seed(seed + 2), dtype=torch.float64)
    slope = (value(here + 1e-6 * step) - value(here - 1e-6 * step)) / 2e-6
    torch.testing.assert_close(float((gradient(here) * step).sum()), slope, rtol=1e-4, atol=1e-4)
