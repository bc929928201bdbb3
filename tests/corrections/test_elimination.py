"""Elimination keeps what cannot be made from the rest, as solving every problem from scratch does."""

import itertools

import pytest
import torch

from transfuse.corrections.elimination import eliminated, features_of, handed_out


def problem(units=8, samples=50, readers=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(units, units, generator=generator, dtype=torch.float64)
    features = torch.randn(samples, units, generator=generator, dtype=torch.float64) @ mixing
    return features, torch.randn(units, readers, generator=generator, dtype=torch.float64)


def loss(features, weights, kept, ridge):
    """The least of `|F (W0 - W)|^2 + ridge sum_j G_jj |W_j - W0_j|^2` with weights W of kept units, solved directly."""
    gram = features.T @ features
    penalty = ridge * gram.diagonal()
    lost = [unit for unit in range(len(gram)) if unit not in kept]
    kept = list(kept)
    left = gram[kept][:, lost] @ weights[lost]
    moved = torch.linalg.solve(gram[kept][:, kept] + torch.diag(penalty[kept]), left)
    gone = features[:, lost] @ weights[lost] - features[:, kept] @ moved
    return float(
        gone.square().sum()
        + (penalty[kept, None] * moved.square()).sum()
        + (penalty[lost, None] * weights[lost].square()).sum()
    )


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_each_unit_that_goes_is_the_one_whose_loss_costs_least(seed, ridge):
    features, weights = problem(seed=seed)
    left = set(range(8))
    for keep in range(7, 0, -1):
        cheapest = min(left, key=lambda unit: loss(features, weights, left - {unit}, ridge))
        left -= {cheapest}
        assert eliminated(features.T @ features, weights, keep, ridge=ridge).tolist() == sorted(left)


@pytest.mark.parametrize("ridge", [1e-3, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_each_group_of_features_that_goes_is_the_one_whose_loss_costs_least(seed, ridge):
    features, weights = problem(units=15, seed=seed)
    left = set(range(5))
    for keep in range(4, 0, -1):
        rest = {unit: features_of(torch.tensor(sorted(left - {unit})), 3).tolist() for unit in left}
        left -= {min(left, key=lambda unit: loss(features, weights, rest[unit], ridge))}
        assert eliminated(features.T @ features, weights, keep, size=3, ridge=ridge).tolist() == sorted(left)


def test_of_planted_groups_that_are_mixtures_of_others_one_each_is_kept():
    features, weights = problem(units=12)
    mixing = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    doubled = torch.cat([features, (features.unflatten(1, (4, 3)) @ mixing).flatten(1)], 1)
    gram, read = doubled.T @ doubled, torch.cat([weights, weights])
    assert sorted(eliminated(gram, read, 4, size=3, ridge=1e-3) % 4) == list(range(4))


@pytest.mark.parametrize("seed", range(5))
def test_it_is_near_the_best_of_all_choices(seed):
    features, weights = problem(seed=seed)
    kept = eliminated(features.T @ features, weights, 5, ridge=0.01).tolist()
    losses = sorted(loss(features, weights, choice, 0.01) for choice in itertools.combinations(range(8), 5))
    assert loss(features, weights, kept, 0.01) <= losses[len(losses) // 10]


@pytest.mark.parametrize("at_once", [128, 4])
def test_of_planted_duplicates_one_each_is_kept(at_once):
    features, weights = problem(units=20)
    doubled = torch.cat([features, 2 * features], 1)
    kept = eliminated(doubled.T @ doubled, torch.cat([weights, weights]), 20, ridge=1e-3, at_once=at_once)
    assert sorted(kept % 20) == list(range(20))


def test_units_that_nothing_reads_and_that_never_vary_go_first():
    features, weights = problem()
    features[:, 2], weights[5] = 0.0, 0.0
    assert {2, 5}.isdisjoint(eliminated(features.T @ features, weights, 6, ridge=0.1).tolist())


def test_numbering_does_not_matter():
    features, weights = problem()
    order = torch.randperm(8, generator=torch.Generator().manual_seed(1))
    plain = eliminated(features.T @ features, weights, 4)
    moved = eliminated(features[:, order].T @ features[:, order], weights[order], 4)
    assert sorted(order[moved].tolist()) == plain.tolist()


def test_many_readers_and_few_choose_alike():
    features, weights = problem(readers=30)
    small = torch.linalg.cholesky(weights @ weights.T)
    gram = features.T @ features
    assert torch.equal(eliminated(gram, weights, 4), eliminated(gram, small, 4))


def test_what_is_handed_out_makes_the_others():
    features, _ = problem()
    features[:, 6], features[:, 7] = features[:, 0] - 2 * features[:, 3], features[:, 5]
    kept = torch.arange(6)
    shares = handed_out(features.T @ features, kept, ridge=0.0)
    torch.testing.assert_close(features[:, kept] @ shares, features, rtol=1e-3, atol=1e-3)
    assert torch.equal(shares[:, kept], torch.eye(6, dtype=torch.float64))
