"""Distillation: nearer to the parents' mean, the same for the same seed, never chosen by itself, told in the result."""

import copy

import pytest
import torch
from torch import nn

import transfuse
from transfuse.activations import Batches
from transfuse.corrections import CORRECTIONS, candidates, distillation
from transfuse.corrections.distillation import distance_to_parents, distill_towards_parents, varied
from transfuse.corrections.task import Task
from zoo import livened

X = torch.randn(100, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def network(seed, norm=True):
    torch.manual_seed(seed)
    layers = [nn.Conv2d(1, 5, 3), *([livened(nn.BatchNorm2d(5))] if norm else []), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(180, 6), nn.Tanh(), nn.Linear(6, 3)).eval()


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(distillation, "STEPS", (25, 25))


@pytest.fixture(scope="module")
def fusion():
    return transfuse.fuse([network(0), network(1)], X[:2], correct="none")


def distilled(fusion, seed=0, **options):
    return transfuse.correct(
        fusion.model, X, fusion.aligned, method="distill", layout=fusion.layout, seed=seed, **options
    )


def began(done):
    return min(("refit", "selection"), key=lambda name: done.disagreement[name])


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def test_outputs_come_nearer_to_the_mean_and_it_is_told(fusion):
    done = distilled(fusion).correction
    before = min(done.disagreement["refit"], done.disagreement["selection"])
    assert done.method == "distill"
    assert done.disagreement["distill"] < before
    assert "without labels, towards the parents' mean outputs and pre-activations" in str(done)
    assert f"the better of refit and selection: {began(done)}" in str(done)


@pytest.mark.long
def test_it_is_never_chosen_by_itself(fusion):
    assert "distill" not in candidates(fusion.model)
    done = transfuse.correct(fusion.model, X, fusion.aligned, layout=fusion.layout).correction
    assert "distill" not in done.disagreement


@pytest.mark.long
def test_the_seed_decides(fusion):
    one, again, other = distilled(fusion), distilled(fusion), distilled(fusion, seed=1)
    assert same(one, again)
    assert not same(one, other)


@pytest.mark.long
def test_statistics_of_norms_stay_as_the_start_has_them(fusion):
    done = distilled(fusion)
    start = transfuse.correct(fusion.model, X, fusion.aligned, method=began(done.correction), layout=fusion.layout)
    assert torch.equal(done[1].running_var, start[1].running_var)
    assert not torch.equal(done[1].weight, start[1].weight)


def task(seeds=(0, 1), x=X, **options):
    parents = [network(seed, **options) for seed in seeds]
    return Task(copy.deepcopy(parents[0]), parents, [0.5, 0.5], Batches.of(x, size=20))


def test_it_stays_as_it_is_where_that_is_no_nearer(monkeypatch):
    monkeypatch.setattr(distillation, "RATE", 1e3)
    own = task()
    before = copy.deepcopy(own.network)
    distill_towards_parents(own)
    assert same(own.network, before)


def test_a_training_that_ends_in_no_numbers_leaves_the_network_as_it_was(monkeypatch):
    monkeypatch.setattr(distillation, "RATE", 1e30)
    own = task(norm=False)
    before = copy.deepcopy(own.network)
    distill_towards_parents(own)
    assert same(own.network, before)


def in_another_scale(model, factor=8.0):
    """The same function: what ReLUs give is so many times as large, and what reads it so much smaller."""
    own = copy.deepcopy(model)
    with torch.no_grad():
        own[0].weight.mul_(factor)
        own[0].bias.mul_(factor)
        own[3].weight.div_(factor)
    return own


def test_the_scale_of_weights_makes_no_difference():
    usual = task(norm=False)
    parents = [in_another_scale(each) for each in usual.parents]
    other = Task(in_another_scale(usual.network), parents, [0.5, 0.5], usual.batches)
    before = copy.deepcopy(usual.network)
    for each in (usual, other):
        distill_towards_parents(each)
    torch.testing.assert_close(other.network.state_dict(), in_another_scale(usual.network).state_dict())
    assert not same(usual.network, before)


def test_frozen_networks_are_distilled_too_and_stay_frozen():
    own = task()
    for each in (own.network, *own.parents):
        each.requires_grad_(False)
    before = copy.deepcopy(own.network)
    with torch.inference_mode():
        distill_towards_parents(own)
    assert not same(own.network, before)
    assert not any(each.requires_grad for each in own.network.parameters())


def test_parents_are_at_no_distance_from_themselves_and_gradients_reach_every_layer():
    own = task(seeds=(0, 0))
    batch = next(iter(own.batches))
    with torch.enable_grad():
        assert float(distance_to_parents(own.network, own, batch).detach()) < 1e-9
        other = network(3)
        distance_to_parents(other, own, batch).backward()
    assert all(float(each.grad.abs().sum()) > 0 for each in other.parameters() if each.dim() > 1)


def test_sites_count_beside_outputs(monkeypatch):
    own = task()
    batch = next(iter(own.batches))
    whole = float(distance_to_parents(own.network, own, batch).detach())
    monkeypatch.setattr(distillation, "SITES", 0.0)
    assert 0 < float(distance_to_parents(own.network, own, batch).detach()) < whole


@pytest.mark.long
def test_a_wider_network_with_batch_norm_is_distilled():
    found = transfuse.fuse([network(0), network(1)], X[:2], data=X, target=1.5, correct="distill")
    assert found.correction.method == "distill"
    assert found.correction.disagreement["distill"] < found.correction.disagreement["selection"]


@pytest.mark.long
def test_a_recurrent_network_is_distilled(monkeypatch):
    monkeypatch.setattr(
        distillation, "STEPS", (100, 100)
    )  # its layers were fitted by whole trajectories: little is left

    class Last(nn.Module):
        def __init__(self, seed):
            super().__init__()
            torch.manual_seed(seed)
            self.cell, self.read = nn.LSTM(3, 12, batch_first=True), nn.Linear(12, 2)

        def forward(self, x):
            return self.read(self.cell(x)[0][:, -1])

    x = torch.randn(200, 4, 3, generator=torch.Generator().manual_seed(0))
    done = transfuse.fuse([Last(0), Last(1)], x[:2], data=x, correct="distill").correction
    assert done.disagreement["distill"] < min(value for name, value in done.disagreement.items() if name != "distill")


def test_tokens_stay_as_they_are():
    tokens = torch.randint(0, 9, (6, 5))
    assert varied(tokens, torch.Generator()) is tokens


def test_varied_images_have_the_range_and_the_shape_of_images():
    for inputs in (X, X.flatten(1), X.to(memory_format=torch.channels_last)):
        found = varied(inputs, torch.Generator().manual_seed(0))
        assert found.shape == inputs.shape
        assert not torch.equal(found, inputs)
        assert float(found.min()) >= float(inputs.min())
        assert float(found.max()) <= float(inputs.max())


def test_inputs_that_are_no_images_are_mixed_and_nothing_else(monkeypatch):
    monkeypatch.setattr(distillation, "MIXED", 0.0)
    rows = X.flatten(1)
    assert torch.equal(varied(rows, torch.Generator().manual_seed(0)), rows)
    assert not torch.equal(varied(X, torch.Generator().manual_seed(0)), X)


@pytest.mark.parametrize(("size", "steps"), [(10, 40), (50, 40), (100, 20), (400, 10)])
def test_smaller_batches_make_more_steps(monkeypatch, size, steps):
    monkeypatch.setattr(distillation, "INPUTS", 2000)
    monkeypatch.setattr(distillation, "STEPS", (10, 40))
    told, parent = [], nn.Linear(3, 2)
    batches = Batches.of(torch.randn(2000, 3), size=size)
    network = nn.Linear(3, 2)
    distill_towards_parents(
        Task(network, [parent], [1.0], batches, step=lambda done, total: told.append((done, total)))
    )
    assert told == [(number, steps) for number in range(steps)]


def test_each_step_is_told():
    told = []
    own = Task(**{**vars(task()), "step": lambda done, total: told.append((done, total))})
    distill_towards_parents(own)
    assert told == [(step, 25) for step in range(25)]


def test_the_row_says_what_it_goes_on_from():
    assert CORRECTIONS["distill"].after == ("refit", "selection")
    assert all(CORRECTIONS[name].automatic for name in CORRECTIONS["distill"].after)
