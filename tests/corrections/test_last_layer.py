"""Last layers by evidence: the regression is that of its slow twins, and what is right already stays as it is."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import transfuse
from transfuse.corrections.affine import Part
from transfuse.corrections.aims import evidence
from transfuse.corrections.last_layer import Regression
from transfuse.corrections.tsallis import entmax

WARM = 2.0
DRAWN = torch.Generator().manual_seed(0)
Z = nn.functional.pad(torch.randn(60, 4, generator=DRAWN), (0, 1), value=1.0)
TRUTH = torch.randn(3, 5, generator=DRAWN)
START = torch.zeros(3, 5)


def pieces(outputs, weights=(1.0, 1.0)):
    """Two batches of a layer whose outputs shall be some evidence."""
    halves = zip(Z.split(30), outputs.split(30), weights, strict=True)
    return [SimpleNamespace(parts=[Part(z, y)], batch=SimpleNamespace(weight=weight)) for z, y, weight in halves]


def regression(outputs, order=1.0, **options):
    return Regression.of(pieces(outputs, **options), WARM, order)


@pytest.mark.parametrize("order", [1.0, 1.2, 1.5, 2.0])
def test_scores_are_found_from_their_evidence(order):
    wanted = evidence(Z @ TRUTH.T, WARM, order)
    found = regression(wanted, order).fitted(START, ridge=0.0, constant=True)
    torch.testing.assert_close(evidence(Z.double() @ found.T, WARM, order), wanted.double(), atol=2e-3, rtol=2e-3)


def test_of_order_two_it_is_least_squares_where_nothing_overshoots():
    """The slow twin: normal equations, of scores that stay on the simplex because what is wanted is all but even."""
    wanted = evidence(0.2 * Z @ TRUTH.T, WARM)
    found = regression(wanted, order=2.0).fitted(START, ridge=0.0, constant=True)
    solved = torch.linalg.lstsq(Z.double(), wanted.double()).solution
    own = Z.double() @ found.T
    assert float((evidence(own, WARM, 2.0) - (own - own.mean(1, keepdim=True))).abs().max()) < 1e-9  # none overshoots
    torch.testing.assert_close(own - own.mean(1, keepdim=True), Z.double() @ solved, atol=1e-3, rtol=1e-3)


def test_of_order_two_to_overshoot_costs_nothing():
    sure = torch.tensor([[1.0, 0.0, 0.0]]).double()
    far = Regression(torch.ones(1, 1).double(), sure, torch.ones(1).double(), WARM, 2.0)
    scores = torch.tensor([[9.0], [-3.0], [-4.0]]).double() * far.scale
    assert far.loss(scores) == far.loss(2 * scores)
    assert far.loss(-scores) > far.loss(scores) + 1


@pytest.mark.parametrize("order", [1.0, 1.2, 1.5, 2.0])
def test_the_slope_of_the_loss_is_how_far_shares_are_from_what_is_wanted(order):
    own = regression(evidence(Z @ TRUTH.flip(0).T, WARM), order)
    matrix = TRUTH.double().requires_grad_()
    (slope,) = torch.autograd.grad(own.loss(matrix), matrix)
    found = entmax(own.features @ TRUTH.double().T / own.scale, order)
    expected = (own.counts[:, None] * (found - own.shares)).T @ own.features / own.scale
    torch.testing.assert_close(slope, expected)
    assert torch.autograd.gradcheck(own.loss, (matrix,), atol=1e-4)


def test_a_mean_of_evidence_is_a_mean_of_probabilities():
    other = TRUTH.flip(0)
    mean = (evidence(Z @ TRUTH.T, WARM) + evidence(Z @ other.T, WARM)) / 2
    shares = ((Z @ TRUTH.T / WARM).softmax(1) + (Z @ other.T / WARM).softmax(1)) / 2
    torch.testing.assert_close(regression(mean).shares, shares.double())


@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_it_is_the_minimum_of_loss_and_ridge(ridge):
    """The slow twin: many steps of gradient descent, on a batch that counts three times three times."""
    given = evidence(Z @ TRUTH.T, WARM)
    fast = regression(given, weights=(3.0, 1.0)).fitted(START, ridge=ridge, constant=True)
    often = torch.cat([Z[:30], Z[:30], Z[:30], Z[30:]]).double()
    shares = (often.float() @ TRUTH.T / WARM).softmax(1).double()
    size = (often - often.mean(0))[:, :4].square().mean() * (shares * (1 - shares)).mean() / (2 * WARM**2)
    slow = START.double().clone().requires_grad_()
    for _ in range(3_000):
        loss = -(shares * (often @ slow.T / WARM).log_softmax(1)).sum(1).mean()
        (gradient,) = torch.autograd.grad(loss + ridge * size * slow[:, :4].square().sum(), slow)
        slow = (slow - 8 * gradient).detach().requires_grad_()
    torch.testing.assert_close(fast, slow.detach(), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("order", [1.0, 1.3, 2.0])
def test_shares_that_rounding_makes_negative_do_no_harm(order):
    """1.1 is no number of single precision: what is nothing comes back as a little less."""
    sure = evidence(300 * Z @ TRUTH.T, 1.1)
    assert float((sure.double() / 1.1 + 1).min()) < 0
    own = Regression.of(pieces(sure), 1.1, order)
    assert float(own.shares.min()) == 0
    assert bool(own.fitted(START, constant=True).isfinite().all())


def test_a_layer_that_gives_it_already_stays_as_it_is():
    found = regression(evidence(Z @ TRUTH.T, WARM)).fitted(TRUTH, constant=True)
    torch.testing.assert_close(found, TRUTH.double(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("last", [nn.Identity(), nn.BatchNorm1d(5)])
def test_a_network_fused_with_itself_stays_as_it_is_with_evidence_too(last):
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 5), last), torch.randn(200, 6)
    net(x)  # a norm remembers its inputs
    net.eval()
    with torch.inference_mode():
        fusion = transfuse.fuse([net, net], x[:2], data=x, correct="refit", aim="evidence")
        torch.testing.assert_close(fusion.model(x), net(x), atol=1e-5, rtol=1e-5)
    assert fusion.correction.aim == "evidence"
    assert fusion.correction.disagreement["refit"] < 1e-9  # evidence is held against evidence
