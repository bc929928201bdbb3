"""Couplings: what is carried, by true sums, however far Sinkhorn's algorithm came."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transfuse.barycenter import Coupling, Matrices, packed
from transfuse.transport import entropic


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def hard(width, seed):
    rng = np.random.default_rng(seed)
    return Coupling(torch.from_numpy(rng.permutation(width)), torch.from_numpy(rng.choice([-1.0, 1.0], width)))


@given(m=st.integers(1, 9), n=st.integers(1, 9), seed=st.integers(0, 10**6), iterations=st.integers(1, 5))
def test_means_stay_means_and_sums_stay_sums_also_before_convergence(m, n, seed, iterations):
    plan = entropic(drawn(seed, m, n), 0.05, iterations=iterations)
    coupling = Coupling(soft=torch.stack([plan.coupling, plan.coupling]))
    ones, weights = torch.ones(n, 1, dtype=torch.float64), drawn(seed + 1, n, 3)
    torch.testing.assert_close(coupling.carry(ones, odd=True, side="produces"), torch.ones(m, 1, dtype=torch.float64))
    handed_out = coupling.carry(weights, odd=True, side="consumes").sum(0)
    torch.testing.assert_close(handed_out, weights.sum(0))


@given(target=st.integers(1, 12), model=st.integers(1, 12))
def test_a_start_uses_every_unit_and_repeats_or_merges_neighbours(target, model):
    matrix = Coupling.start(target, model, torch.ones(1).double()).matrices[1]
    torch.testing.assert_close(matrix.sum(1), torch.ones(target).double())
    assert float(matrix.sum(0).min()) > 0
    assert target < model or bool(((matrix == 0) | (matrix == 1)).all())


@given(width=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_renumbering_by_a_coupling_makes_it_the_identity(width, seed):
    first, other = hard(width, seed), hard(width, seed + 1)
    assert torch.equal(first.after(first).matrices[0], torch.eye(width, dtype=torch.float64))
    expected = first.matrices[0].T @ other.matrices[0]
    assert torch.equal(other.after(first).matrices[0], expected)
    assert torch.equal(Coupling(soft=other.matrices).after(first).matrices[0], expected)


@given(width=st.integers(2, 8), seed=st.integers(0, 10**6))
def test_hard_and_soft_couplings_are_compared_and_shuffled_alike(width, seed):
    one, order = hard(width, seed), np.random.default_rng(seed).permutation(width)
    soft = Coupling(soft=one.matrices)
    assert one.same_as(soft)
    assert one.of_shuffled(order).same_as(soft.of_shuffled(order))
    assert not one.same_as(Coupling(one.order, -one.sign))


def test_permutations_are_compared_without_matrices(monkeypatch):
    one = hard(6, 0)
    monkeypatch.setattr(Coupling, "matrices", property(lambda _: pytest.fail("a matrix was made")))
    assert one.same_as(Coupling(one.order.clone(), one.sign.clone()))


@given(width=st.integers(1, 8), seed=st.integers(0, 10**6), count=st.integers(1, 2))
def test_the_best_coupling_has_the_largest_agreement_of_all(width, seed, count):
    scores = drawn(seed, count, width, width)
    best = Coupling.best(scores, signs=True)
    assert best.agreement(scores) == pytest.approx(float((best.carriers(count) * scores).sum()))
    for other in range(5):
        assert hard(width, seed + other).agreement(scores) <= best.agreement(scores) + 1e-9


def test_matrices_are_made_when_they_are_asked_for():
    couplings = {"one": hard(4, 0), "two": Coupling.start(6, 3, torch.ones(1))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Coupling, "signed", property(lambda _: pytest.fail("a matrix was made")))
        matrices = pickle.loads(pickle.dumps(Matrices(couplings)))
        assert list(matrices) == ["one", "two"]
    assert {name: tuple(matrix.shape) for name, matrix in matrices.items()} == {"one": (4, 4), "two": (6, 3)}
    assert torch.equal(matrices["one"], couplings["one"].matrices[0])
    matrices["one"].zero_()  # a new one each time
    assert torch.equal(matrices["one"], couplings["one"].matrices[0])


def test_packed_couplings_are_the_same_in_one_piece_of_memory():
    couplings = {name: hard(width, width) for name, width in {"a": 5, "b": 3, "c": 7}.items()}
    soft = {"d": Coupling.start(4, 2, torch.ones(1))}
    found = packed(couplings | soft)
    assert list(found) == ["a", "b", "c", "d"]
    assert all(found[name].same_as(each) for name, each in couplings.items())
    assert found["d"] is soft["d"]
    for kind in ("order", "sign"):
        assert len({getattr(found[name], kind).untyped_storage().data_ptr() for name in couplings}) == 1
    assert packed(soft) == soft
