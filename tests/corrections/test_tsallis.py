"""Entmax: shares of classes, of order 1 a softmax, of order 2 the projection on the simplex, and its slopes."""

import pytest
import torch

from transfuse.corrections.tsallis import entmax, negentropy

SCORES = 3 * torch.randn(40, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
ORDERS = [1.0, 1.01, 1.25, 1.5, 1.9, 2.0]


def projected(scores):
    """The slow twin: the nearest point of the simplex, by sorting (Held, Wolfe and Crowder, 1974)."""
    found = torch.empty_like(scores)
    for row, mine in enumerate(scores):
        largest = sorted(mine.tolist(), reverse=True)
        levels = [(sum(largest[:count]) - 1) / count for count in range(1, len(largest) + 1)]
        level = max(each for each, score in zip(levels, largest, strict=True) if score > each)
        found[row] = (mine - level).clamp_min(0)
    return found


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shares_are_shares_keep_the_order_of_scores_and_know_no_level(order, dtype):
    scores = SCORES.to(dtype)
    found = entmax(scores, order)
    assert float(found.min()) >= 0
    torch.testing.assert_close(found.sum(1), torch.ones(len(scores), dtype=dtype))
    assert torch.equal(found.argmax(1), scores.argmax(1))
    torch.testing.assert_close(entmax(scores + 5, order), found, atol=1e-4, rtol=1e-4)


def test_of_order_one_it_is_a_softmax_and_comes_near_to_it_just_above():
    assert torch.equal(entmax(SCORES, 1.0), SCORES.softmax(1))
    torch.testing.assert_close(entmax(SCORES, 1.0001), SCORES.softmax(1), atol=1e-3, rtol=0)


def test_of_order_two_it_is_the_projection_on_the_simplex():
    torch.testing.assert_close(entmax(SCORES, 2.0), projected(SCORES))
    shares = SCORES.softmax(1)
    torch.testing.assert_close(entmax(shares, 2.0), shares)


@pytest.mark.parametrize("order", [1.25, 1.5])
def test_no_other_shares_have_more_of_score_and_entropy(order):
    def worth(shares):
        return (shares * SCORES).sum(1) - negentropy(shares, order)

    best, random = worth(entmax(SCORES, order)), torch.Generator().manual_seed(1)
    for _ in range(50):
        other = torch.distributions.Dirichlet(torch.ones(7).double()).sample((len(SCORES),))
        step = float(torch.rand((), generator=random))
        assert bool((worth(torch.lerp(entmax(SCORES, order), other, step)) <= best + 1e-12).all())


@pytest.mark.parametrize("order", [1.25, 1.5, 1.9, 2.0])
def test_slopes_are_right(order):
    assert torch.autograd.gradcheck(lambda scores: entmax(scores, order), (SCORES[:6].clone().requires_grad_(),))
