"""Couplings: what is carried, by true sums, however far Sinkhorn's algorithm came."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transfuse.barycenter import CouplingMatrices, Plan, packed
from transfuse.barycenter.coupling import best_coupling, same, start_coupling
from transfuse.layout import Permutation, Symmetry
from transfuse.transport import entropic


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def permutation(width, seed):
    rng = np.random.default_rng(seed)
    return Permutation(torch.from_numpy(rng.permutation(width)), torch.from_numpy(rng.choice([-1.0, 1.0], width)))


@given(m=st.integers(1, 9), n=st.integers(1, 9), seed=st.integers(0, 10**6), iterations=st.integers(1, 5))
def test_means_stay_means_and_sums_stay_sums_also_before_convergence(m, n, seed, iterations):
    plan = entropic(drawn(seed, m, n), 0.05, iterations=iterations)
    coupling = Plan.of(plan.coupling)
    ones, weights = torch.ones(n, 1, dtype=torch.float64), drawn(seed + 1, n, 3)
    torch.testing.assert_close(coupling.carry(ones, odd=True, produced=True), torch.ones(m, 1, dtype=torch.float64))
    handed_out = coupling.carry(weights, odd=True, produced=False).sum(0)
    torch.testing.assert_close(handed_out, weights.sum(0))


@given(target=st.integers(1, 12), model=st.integers(1, 12))
def test_a_start_uses_every_unit_and_repeats_or_merges_neighbours(target, model):
    matrix = start_coupling(target, model, torch.ones(1).double()).matrices[1]
    torch.testing.assert_close(matrix.sum(1), torch.ones(target).double())
    assert float(matrix.sum(0).min()) > 0
    assert target < model or bool(((matrix == 0) | (matrix == 1)).all())


@given(width=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_renumbering_by_a_coupling_makes_it_the_identity(width, seed):
    first, other = permutation(width, seed), permutation(width, seed + 1)
    assert torch.equal(first.relative_to(first).matrices[0], torch.eye(width, dtype=torch.float64))
    expected = first.matrices[0].T @ other.matrices[0]
    assert torch.equal(other.relative_to(first).matrices[0], expected)
    assert torch.equal(Plan(other.matrices).relative_to(first).matrices[0], expected)


@given(width=st.integers(2, 8), seed=st.integers(0, 10**6))
def test_permutations_and_plans_are_compared_and_shuffled_alike(width, seed):
    one, order = permutation(width, seed), np.random.default_rng(seed).permutation(width)
    soft = Plan(one.matrices)
    assert same(one, soft)
    assert same(one.of_shuffled(order), soft.of_shuffled(order))
    assert not same(one, Permutation(one.order, -one.factor))


def test_permutations_are_compared_without_matrices(monkeypatch):
    one = permutation(6, 0)
    monkeypatch.setattr(Permutation, "matrices", property(lambda _: pytest.fail("a matrix was made")))
    assert same(one, Permutation(one.order.clone(), one.factor.clone()))


@given(width=st.integers(1, 8), seed=st.integers(0, 10**6), count=st.integers(1, 2))
def test_the_best_coupling_has_the_largest_agreement_of_all(width, seed, count):
    scores = drawn(seed, count, width, width)
    best = best_coupling(scores, Symmetry(signs=True), signs=True)
    assert best.agreement(scores) == pytest.approx(float((best.carriers(count) * scores).sum()))
    for other in range(5):
        assert permutation(width, seed + other).agreement(scores) <= best.agreement(scores) + 1e-9


def test_matrices_are_made_when_they_are_asked_for():
    couplings = {"one": permutation(4, 0), "two": start_coupling(6, 3, torch.ones(1))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Permutation, "signed", property(lambda _: pytest.fail("a matrix was made")))
        matrices = pickle.loads(pickle.dumps(CouplingMatrices(couplings)))
        assert list(matrices) == ["one", "two"]
    assert {name: tuple(matrix.shape) for name, matrix in matrices.items()} == {"one": (4, 4), "two": (6, 3)}
    assert torch.equal(matrices["one"], couplings["one"].matrices[0])
    matrices["one"].zero_()  # a new one each time
    assert torch.equal(matrices["one"], couplings["one"].matrices[0])


def test_packed_couplings_are_the_same_in_one_piece_of_memory():
    couplings = {name: permutation(width, width) for name, width in {"a": 5, "b": 3, "c": 7}.items()}
    soft = {"d": start_coupling(4, 2, torch.ones(1))}
    found = packed(couplings | soft)
    assert list(found) == ["a", "b", "c", "d"]
    assert all(same(found[name], each) for name, each in couplings.items())
    assert found["d"] is soft["d"]
    for kind in ("order", "factor"):
        assert len({getattr(found[name], kind).untyped_storage().data_ptr() for name in couplings}) == 1
    assert packed(soft) == soft
