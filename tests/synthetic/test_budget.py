"""A budget counts operations: it is the same on every machine."""

import pytest
import torch
from torch import nn

from transfuse.modules import Arguments
from transfuse.synthetic import Budget


def network():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def test_a_budget_does_not_depend_on_how_large_the_example_is():
    budgets = {Budget.of(network(), Arguments.of(torch.randn(count, 4)), models=2) for count in (1, 3, 50)}
    assert budgets == {Budget(500, inverted=True, convolutions=False)}


@pytest.mark.parametrize(("effort", "images"), [(1e13, 1000), (60.5, 60), (49.5, 0)])
def test_as_many_images_as_can_be_afforded(effort, images, monkeypatch):
    net, example = nn.Conv2d(3, 2, 3), torch.randn(1, 3, 10, 10)
    each = 2 * 8 * 8 * 27 * 2 * 60 * 2  # products and sums; places; features; channels; runs; models
    monkeypatch.setattr("transfuse.synthetic.budget.EFFORT", {"cpu": effort * each})
    assert Budget.of(net, Arguments.of(example), models=2).images == images


def test_images_too_small_for_shapes_and_other_inputs_are_no_images():
    for net, example in (
        (nn.Conv2d(3, 2, 3), torch.randn(1, 3, 7, 30)),
        (nn.Conv1d(3, 2, 3), torch.randn(1, 3, 30)),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), torch.randn(1, 1, 8, 8)),
    ):
        assert Budget.of(net, Arguments.of(example), models=2).images == 0


def test_no_more_images_than_a_refit_keeps_in_memory(monkeypatch):
    net, example = nn.Conv2d(3, 2, 3), Arguments.of(torch.randn(1, 3, 10, 10))
    each = 8 * 8 * (27 + 2 * 2) * 4  # places; features, outputs and their weights; bytes
    for kept, images in ((100.5, 100), (3.0, 50)):
        monkeypatch.setattr("transfuse.synthetic.budget.KEPT", kept * each)
        assert Budget.of(net, example, models=2).images == images
