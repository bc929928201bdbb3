"""Linear transport: marginals and plans, against brute force, the network simplex, and planted shuffles."""

from itertools import permutations

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transfuse.transport import assignment, entropic, exact


def scores(rows, columns, seed):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(size=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_the_assignment_is_as_good_as_the_best_of_all_permutations(size, seed):
    matrix = scores(size, size, seed)
    order = assignment(matrix)
    best = max(sum(matrix[i, j].item() for i, j in enumerate(p)) for p in permutations(range(size)))
    assert sorted(order.tolist()) == list(range(size))
    assert matrix[torch.arange(size), order].sum().item() == pytest.approx(best)


@given(size=st.integers(2, 40), seed=st.integers(0, 10**6))
def test_a_planted_shuffle_is_found(size, seed):
    units = scores(size, 30, seed)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(size))
    assert torch.equal(assignment(units @ units[order].T), torch.argsort(order))


@given(m=st.integers(1, 12), n=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_exact_couplings_have_uniform_marginals_and_the_value_of_the_simplex(m, n, seed):
    matrix = scores(m, n, seed)
    coupling = exact(matrix)
    torch.testing.assert_close(coupling.sum(1), torch.ones(m, dtype=torch.float64))
    torch.testing.assert_close(coupling.sum(0), torch.full((n,), m / n, dtype=torch.float64))
    plan = ot.emd(np.full(m, 1 / m), np.full(n, 1 / n), -matrix.numpy())
    assert float((coupling * matrix).sum() / m) == pytest.approx(float((plan * matrix.numpy()).sum()))


@settings(max_examples=25)
@given(m=st.integers(2, 8), n=st.integers(2, 8), seed=st.integers(0, 10**6))
def test_entropic_couplings_have_uniform_marginals_and_approach_the_exact_value(m, n, seed):
    matrix = scores(m, n, seed)
    value = float((exact(matrix) * matrix).sum())
    blurred, sharp = (entropic(matrix, epsilon, iterations=5_000) for epsilon in (1.0, 0.1))
    for plan in (blurred, sharp):
        torch.testing.assert_close(plan.coupling.sum(1), torch.ones(m, dtype=torch.float64))
        assert not plan.converged or plan.column_error <= 1e-6
    assert float((blurred.coupling * matrix).sum()) <= float((sharp.coupling * matrix).sum()) + 1e-6
    if sharp.converged:
        assert float((sharp.coupling * matrix).sum()) <= value + 1e-4 * m
        assert value - float((sharp.coupling * matrix).sum()) <= 0.1 * m * np.log(m * n) * float(matrix.std())


def test_constants_of_rows_and_columns_change_no_plan():
    matrix = scores(7, 5, 0)
    shifted = matrix + scores(7, 1, 1) + scores(1, 5, 2)
    torch.testing.assert_close(exact(matrix), exact(shifted))
    torch.testing.assert_close(
        entropic(matrix, 0.3 / float(matrix.std(unbiased=False))).coupling,
        entropic(shifted, 0.3 / float(shifted.std(unbiased=False))).coupling, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_an_entropic_plan_that_has_not_converged_says_so():
    plan = entropic(scores(30, 30, 0), 1e-3, iterations=2)
    assert not plan.converged
    assert plan.column_error > 1e-6
