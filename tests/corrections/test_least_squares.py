"""Streamed normal equations against explicit least squares."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transfuse.corrections import least_squares
from transfuse.corrections.least_squares import Equations, Few, Weighted, problem_of


@pytest.fixture(autouse=True, scope="module")
def patient():
    """Conjugate gradients that go on until the minimum can be told from what is near it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(least_squares, "ENOUGH", 1e-4)
        yield


def drawn(samples, features, rows, seed, *, constant):
    random = torch.Generator().manual_seed(seed)
    z = torch.randn(samples, features, generator=random, dtype=torch.float64)
    if constant:
        z[:, -1] = 1.0
    y = torch.randn(samples, rows, generator=random, dtype=torch.float64)
    return z, y, torch.randn(rows, features, generator=random, dtype=torch.float64)


def explicit(z, y, start, ridge, *, constant):
    """The same minimum by an ordinary least-squares solver, with the ridge as further samples."""
    free = z.shape[1] - constant
    size = (ridge * z[:, :free].square().sum(0).mean()).sqrt()
    extra = size * torch.eye(z.shape[1], dtype=z.dtype)[:free]
    change = torch.linalg.lstsq(
        torch.cat([z, extra]), torch.cat([y - z @ start.T, torch.zeros(free, len(start)).double()])
    )
    return start + change.solution.T


@given(st.integers(1, 6), st.integers(1, 4), st.sampled_from([1e-3, 0.1, 10.0]), st.booleans(), st.integers(0, 99))
def test_the_solution_is_that_of_explicit_least_squares(features, rows, ridge, constant, seed):
    z, y, start = drawn(30, features + constant, rows, seed, constant=constant)
    found = Equations.of(z, y).solve(start, ridge, constant=constant)
    torch.testing.assert_close(found, explicit(z, y, start, ridge, constant=constant), rtol=1e-6, atol=1e-6)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 99))
def test_streamed_equations_are_those_of_one_batch(sizes, seed):
    z, y, start = drawn(sum(sizes), 4, 3, seed, constant=True)
    first, *others = [Equations.of(*pair) for pair in zip(z.split(sizes), y.split(sizes), strict=True)]
    total = first
    for each in others:
        total = total + each
    torch.testing.assert_close(vars(total), vars(Equations.of(z, y)))
    assert total.residual(start) == pytest.approx(float((y - z @ start.T).square().sum()), rel=1e-9)


def test_more_features_than_samples_and_features_that_are_all_zero():
    z, y, start = drawn(3, 8, 2, 0, constant=False)
    found = Equations.of(z, y).solve(start, 1e-3, constant=False)
    assert Equations.of(z, y).residual(found) < 0.1 * Equations.of(z, y).residual(start)
    nothing = Equations.of(torch.zeros_like(z), y)
    torch.testing.assert_close(nothing.solve(start, 1e-3, constant=False), start)


def test_a_strong_ridge_stays_where_it_is_and_a_constant_is_free():
    z, y, start = drawn(50, 4, 3, 0, constant=True)
    far = y + 100.0
    found = Equations.of(z, far).solve(start, 1e9, constant=True)
    torch.testing.assert_close(found[:, :-1], start[:, :-1], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found[:, -1], (far - z[:, :-1] @ start[:, :-1].T).mean(0), rtol=1e-3, atol=1e-3)


def explicit_weighted(z, y, weights, start, ridge, *, constant):
    """Row after row by an ordinary solver: samples times the root of their weight, the ridge times the mean weight."""
    size = (ridge * z[:, : z.shape[1] - constant].square().sum(0).mean() * weights.mean()).sqrt()
    extra = size * torch.eye(z.shape[1], dtype=z.dtype)[: z.shape[1] - constant]
    rows = []
    for row, root in enumerate(weights.sqrt().T):
        left = root * (y[:, row] - z @ start[row])
        change = torch.linalg.lstsq(
            torch.cat([root[:, None] * z, extra]), torch.cat([left, torch.zeros(len(extra)).double()])[:, None]
        )
        rows.append(start[row] + change.solution[:, 0])
    return torch.stack(rows)


@given(st.integers(1, 6), st.integers(1, 4), st.sampled_from([1e-3, 0.1, 10.0]), st.booleans(), st.integers(0, 99))
def test_weighted_samples_are_solved_as_by_a_solver_for_each_row(features, rows, ridge, constant, seed):
    z, y, start = drawn(40, features + constant, rows, seed, constant=constant)
    weights = 0.05 + torch.rand(40, rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    equations = Equations.of(z, y)
    pieces = [Weighted(*three) for three in zip(z.split(15), y.split(15), weights.split(15), strict=True)]
    found = equations.solve_weighted(
        start, equations.solve(start, ridge, constant=constant), ridge, lambda: iter(pieces),
        mean=float(weights.mean()), constant=constant,
    )  # fmt: skip
    twin = explicit_weighted(z, y, weights, start, ridge, constant=constant)
    torch.testing.assert_close(found, twin, rtol=1e-2, atol=1e-2)
    residuals = [sum(each.residual(matrix) for each in pieces) for matrix in (found, twin)]
    assert residuals[0] == pytest.approx(residuals[1], rel=1e-3)
    assert residuals[0] == pytest.approx(float((weights * (y - z @ found.T).square()).sum()), rel=1e-9)


@given(st.integers(3, 9), st.integers(1, 4), st.sampled_from([1e-3, 0.1, 10.0]), st.booleans(), st.integers(0, 99))
def test_few_weighted_samples_are_solved_as_by_a_solver_for_each_row(samples, rows, ridge, constant, seed):
    z, y, start = drawn(samples, 12, rows, seed, constant=constant)
    weights = 0.05 + torch.rand(samples, rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    few = problem_of(z, y)
    assert isinstance(few, Few)
    pieces = [Weighted(*three) for three in zip(z.split(2), y.split(2), weights.split(2), strict=True)]
    found = few.solve_weighted(
        start, few.solver(start, constant=constant)(ridge), ridge, lambda: iter(pieces), mean=float(weights.mean()),
        constant=constant,
    )  # fmt: skip
    twin = explicit_weighted(z, y, weights, start, ridge, constant=constant)
    torch.testing.assert_close(found, twin, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("features", [4, 40])
def test_rows_that_no_sample_counts_for_stay(features):
    z, y, start = drawn(30, features, 2, 0, constant=False)
    equations = problem_of(z, y)
    fitted = equations.solver(start, constant=False)(0.1)
    nothing = Weighted(z, y, torch.zeros_like(y))
    found = equations.solve_weighted(start, fitted, 0.1, lambda: [nothing], mean=0.0, constant=False)
    torch.testing.assert_close(found, fitted)


@given(st.integers(1, 6), st.integers(1, 4), st.sampled_from([1e-3, 0.1, 10.0]), st.booleans(), st.integers(0, 99))
def test_few_samples_have_the_solution_of_the_normal_equations(samples, rows, ridge, constant, seed):
    z, y, start = drawn(samples, 8, rows, seed, constant=constant)
    few = problem_of(z, y, 0.3)
    assert isinstance(few, Few)
    found = few.solver(start, constant=constant)(ridge)
    equations = Equations.of(z, y, 0.3)
    torch.testing.assert_close(found, equations.solve(start, ridge, constant=constant), rtol=1e-5, atol=1e-5)
    assert few.residual(start) == pytest.approx(equations.residual(start), rel=1e-9)
    torch.testing.assert_close(few.energy, equations.energy)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(0, 99))
def test_few_samples_become_normal_equations_when_they_are_many(sizes, seed):
    z, y, start = drawn(sum(sizes), 8, 3, seed, constant=True)
    first, *others = [problem_of(*pair) for pair in zip(z.split(sizes), y.split(sizes), strict=True)]
    total = first
    for each in others:
        total = total + each
    assert isinstance(total, Few) == (sum(sizes) < 8)
    assert total.residual(start) == pytest.approx(Equations.of(z, y).residual(start), rel=1e-9)
    torch.testing.assert_close(total.gram, Equations.of(z, y).gram)
