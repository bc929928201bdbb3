"""Repair gives every unit the mean and the spread that its parents have."""

import copy

import pytest
import torch
from torch import nn

from transfuse.activations import Batches, observe
from transfuse.corrections.repair import MOST, Moments, repair_sites, rescale_in_closed_form, rescale_sites
from transfuse.corrections.task import Task
from zoo import livened, named
from zoo_problems import outputs

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
IMAGES = torch.randn(20, 2, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class Residual(nn.Module):
    """Norms, a projection, an identity; ReLU that writes over its input."""

    def __init__(self):
        super().__init__()
        self.lift, self.first = nn.Conv2d(2, 5, 3, padding=1), nn.Conv2d(5, 5, 3, padding=1, bias=False)
        self.norm, self.skip = nn.BatchNorm2d(5), nn.Conv2d(5, 5, 1)
        self.second, self.read = nn.Conv2d(5, 5, 3, padding=1), nn.Linear(5, 3)

    def forward(self, x):
        x = self.lift(x).relu_()
        x = (self.norm(self.first(x)) + self.skip(x)).relu_()
        x = x + self.second(x)
        return self.read(x.relu().mean((2, 3)))


def perceptron():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


FEED_FORWARD = {"perceptron": (perceptron, X), "residual": (Residual, IMAGES)}


def networks(build, count=2):
    found = []
    for seed in range(count):
        torch.manual_seed(seed)
        found.append(livened(build()).double().eval())
    return found


def averaged(parents, weights):
    fused = copy.deepcopy(parents[0])
    state = fused.state_dict()
    for name, tensor in state.items():
        if tensor.is_floating_point():
            tensor.copy_(sum(w * each.state_dict()[name] for w, each in zip(weights, parents, strict=True)))
    return fused


def task_of(build, data, weights=(0.3, 0.7), batches=3):
    parents = networks(build, len(weights))
    return Task(averaged(parents, weights), parents, weights, Batches.of(list(data.chunk(batches))))


def moments_at(model, data):
    """By site: mean and standard deviation of every unit."""
    found = {}
    for seen in observe(model, lambda each: each(data)):
        rows = seen.pre_activations.movedim(-1 - len(seen.kernel), -1).flatten(0, -2)
        found[seen.name] = rows.mean(0), rows.std(0, correction=0)
    return found


@pytest.mark.parametrize("name", FEED_FORWARD)
def test_every_unit_has_the_mean_and_spread_of_its_parents(name):
    build, data = FEED_FORWARD[name]
    task = task_of(build, data)
    with torch.no_grad():
        repair_sites(task)
    theirs = [moments_at(parent, data) for parent in task.parents]
    for site, (mean, deviation) in moments_at(task.network, data).items():
        torch.testing.assert_close(mean, task.mean([each[site][0] for each in theirs]), msg=f"mean at {site}")
        torch.testing.assert_close(deviation, task.mean([each[site][1] for each in theirs]), msg=f"spread at {site}")


@pytest.mark.parametrize("bias", [True, False])
def test_rescale_sets_the_spread_and_keeps_the_mean_where_there_is_a_constant(bias):
    task = task_of(lambda: nn.Sequential(nn.Linear(4, 6, bias=bias), nn.ReLU()), X)
    before = moments_at(task.network, X)["0.weight"]
    with torch.no_grad():
        rescale_sites(task)
    mean, deviation = moments_at(task.network, X)["0.weight"]
    scale = deviation / before[1]
    torch.testing.assert_close(mean, before[0] if bias else scale * before[0])
    wanted = task.mean([moments_at(parent, X)["0.weight"][1] for parent in task.parents])
    torch.testing.assert_close(deviation, wanted)


def test_repair_without_a_constant_sets_the_spread_only():
    one, other = (task_of(lambda: nn.Linear(4, 6, bias=False), X) for _ in range(2))
    with torch.no_grad():
        repair_sites(one)
        rescale_sites(other)
    torch.testing.assert_close(one.network.weight, other.network.weight)


def test_closed_form_is_its_formula_and_does_not_run_the_network():
    task = task_of(lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)), X)
    means = averaged(task.parents, task.weights)
    values = [parent[0](X).detach() for parent in task.parents]
    mean = 0.3 * values[0] + 0.7 * values[1]
    scale = (0.3 * values[0].std(0) + 0.7 * values[1].std(0)) / mean.std(0)
    runs = []
    task.network.register_forward_hook(lambda *_: runs.append(1))
    with torch.no_grad():
        rescale_in_closed_form(task)
    assert len(runs) <= 1  # to see which sites there are
    torch.testing.assert_close(task.network[0].weight, means[0].weight * scale[:, None])
    expected = mean.mean(0) + scale * (means[0].bias - mean.mean(0))
    torch.testing.assert_close(task.network[0].bias, expected)


@pytest.mark.parametrize("correct", [repair_sites, rescale_sites, rescale_in_closed_form])
@pytest.mark.parametrize("name", ["perceptron", "residual", "lstm", "gru_bidirectional", "rnn_relu", "mobilenet"])
def test_an_unfused_network_stays_as_it_is(correct, name):
    if name in FEED_FORWARD:
        build, data = FEED_FORWARD[name]
    else:
        build, data = named(name).build, named(name).inputs().double()
    (model,) = networks(build, 1)
    task = Task(copy.deepcopy(model), [model, model], [0.5, 0.5], Batches.of([data, data + 0.1]))
    with torch.no_grad():
        correct(task)
    torch.testing.assert_close(outputs(task.network, data), outputs(model, data))


@pytest.mark.parametrize("correct", [repair_sites, rescale_sites, rescale_in_closed_form])
@pytest.mark.parametrize(
    "build", [perceptron, lambda: nn.Sequential(nn.Unflatten(1, (2, 2)), nn.LSTM(2, 3, batch_first=True))]
)
def test_streamed_statistics_are_those_of_one_batch(correct, build):
    tasks = [task_of(build, X, batches=count) for count in (1, 7)]
    with torch.no_grad():
        for task in tasks:
            correct(task)
    torch.testing.assert_close(tasks[0].network.state_dict(), tasks[1].network.state_dict())


def test_moments_are_those_of_numpy():
    one, other = torch.randn(2, 30, 3).double()
    total = Moments.of([one[:11], other[:11]]) + Moments.of([one[11:], other[11:]])
    torch.testing.assert_close(total.mean, torch.stack([one.mean(0), other.mean(0)]))
    for row in range(3):
        expected = torch.cov(torch.stack([one[:, row], other[:, row]]), correction=0)
        torch.testing.assert_close(total.covariance[:, :, row], expected)


def test_units_that_do_not_vary_stay_and_none_is_scaled_without_end():
    task = task_of(lambda: nn.Linear(4, 3), X)
    with torch.no_grad():
        task.network.weight[0] = 0
        task.network.weight[1] /= 1e6
        before = task.network.weight.clone()
        repair_sites(task)
    assert torch.equal(task.network.weight[0], before[0])
    torch.testing.assert_close(task.network.weight[1], MOST * before[1])
    assert all(bool(tensor.isfinite().all()) for tensor in task.network.state_dict().values())


def test_parents_run_once_over_the_data():
    task = task_of(perceptron, X, batches=4)
    runs = []
    for parent in task.parents:
        parent.register_forward_pre_hook(lambda *_: runs.append(1))
    with torch.no_grad():
        repair_sites(task)
    assert len(runs) == 2 * 4
