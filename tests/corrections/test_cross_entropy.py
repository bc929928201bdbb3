"""Last layers by cross-entropy: the regression is that of its slow twin, and what is right already stays as it is."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import transfuse
from transfuse.corrections.affine import Part
from transfuse.corrections.aims import evidence
from transfuse.corrections.cross_entropy import Regression

WARM = 2.0
DRAWN = torch.Generator().manual_seed(0)
Z = nn.functional.pad(torch.randn(60, 4, generator=DRAWN), (0, 1), value=1.0)
TRUTH = torch.randn(3, 5, generator=DRAWN)
START = torch.zeros(3, 5)


def pieces(outputs, weights=(1.0, 1.0)):
    """Two batches of a layer whose outputs shall be some evidence."""
    halves = zip(Z.split(30), outputs.split(30), weights, strict=True)
    return [SimpleNamespace(parts=[Part(z, y)], batch=SimpleNamespace(weight=weight)) for z, y, weight in halves]


def regression(outputs, **options):
    return Regression.of(pieces(outputs, **options), WARM)


def test_scores_are_found_from_their_evidence():
    found = regression(evidence(Z @ TRUTH.T, WARM)).fitted(START, ridge=0.0, constant=True)
    scores = Z.double() @ found.T
    torch.testing.assert_close(evidence(scores, WARM), evidence(Z @ TRUTH.T, WARM).double(), atol=1e-3, rtol=1e-3)


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
    size = often[:, :4].square().mean() * (shares * (1 - shares)).mean() / (2 * WARM**2)
    slow = START.double().clone().requires_grad_()
    for _ in range(3_000):
        loss = -(shares * (often @ slow.T / WARM).log_softmax(1)).sum(1).mean()
        (gradient,) = torch.autograd.grad(loss + ridge * size * slow[:, :4].square().sum(), slow)
        slow = (slow - 8 * gradient).detach().requires_grad_()
    torch.testing.assert_close(fast, slow.detach(), atol=2e-3, rtol=2e-3)


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
