"""Synthetic inputs of a fusion: why there are none is told, and what others raise is not swallowed."""

import pytest
import torch
from torch import nn

import transfuse
from transfuse.modules import Arguments
from transfuse.synthetic import Budget, SyntheticInputs

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def made(models, example=X, **options):
    given = Arguments.of(example)
    return SyntheticInputs.of(models, given, **{"plain": False, "data": False, "seed": 0, **options})


def test_networks_that_see_classes_get_inverted_inputs():
    found = made([network(0), network(1)])
    assert found.batches.count == 5
    assert (found.why_not, found.matches) == ("", False)


class Fails(nn.Module):
    """Raises what is no error of the package, on any inputs but the example's size."""

    def __init__(self):
        super().__init__()
        self.read = nn.Linear(4, 3)

    def forward(self, x):
        if len(x) > 6:
            raise LookupError("no such batch")
        return self.read(x)


def test_the_cause_is_told_with_its_type():
    found = made([Fails()])
    assert found.batches is None
    assert "no correction by synthetic inputs: Fails does not run on batch 1" in found.why_not
    assert "LookupError: no such batch" in found.why_not


def test_half_precision_gets_none():
    assert made([network(0).half()]).batches is None


def test_plain_noise_is_given_to_convolutions_only_if_asked_for():
    pictures = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Conv2d(2, 1, 3, padding=1))
    example = torch.randn(2, 1, 6, 6)
    found = made([pictures], example)
    assert found.batches is None
    assert "no classes to see: what they give is of shape [40, 1, 6, 6], not [samples, classes]" in found.why_not
    assert made([pictures], example, plain=True).batches is not None
    assert made([pictures], example, data=True).batches is None


def test_what_the_users_own_watcher_raises_goes_through():
    def watch(stage, done, total):
        raise TimeoutError(stage)

    with pytest.raises(TimeoutError, match="inverting inputs"):
        made([network(0)], progress=watch)


def test_a_budget_does_not_depend_on_how_large_the_example_is():
    budgets = {Budget.of(network(0), Arguments.of(torch.randn(count, 4)), models=2) for count in (1, 3, 50)}
    assert budgets == {Budget(500, inverted=True, convolutions=False)}


def test_too_many_operations_are_told(monkeypatch):
    monkeypatch.setattr("transfuse.synthetic.budget.EFFORT", {"cpu": 1.0})
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 3))
    found = made([net], torch.randn(2, 1, 6, 6))
    assert "it would take too long to invert as few as 50 samples (more than 1e+00 floating-point" in found.why_not
    assert transfuse.synthetic_inputs([net], torch.randn(2, 1, 6, 6), samples=10).count == 5
