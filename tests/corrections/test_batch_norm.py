"""Running statistics measured anew, with and without parents."""

import copy

import pytest
import torch
from torch import nn

from transfuse.activations import Batches
from transfuse.corrections.batch_norm import match_statistics, norms_of, reset_statistics
from transfuse.corrections.task import Task
from transfuse.errors import InputError
from zoo import livened, named
from zoo_problems import outputs

X = 3 + 2 * torch.randn(60, 4, generator=torch.Generator().manual_seed(0)).double()


def network(seed=0):
    torch.manual_seed(seed)
    return livened(nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))).double().eval()


def test_a_reset_gives_the_statistics_of_the_data():
    model = network()
    reset_statistics(Task(model, [], [], Batches.of([X])))
    seen = model[0](X)
    torch.testing.assert_close(model[1].running_mean, seen.mean(0))
    torch.testing.assert_close(model[1].running_var, seen.var(0))
    assert model[1].momentum == 0.1
    assert not model[1].training


def test_batches_of_equal_size_count_alike():
    model = network()
    reset_statistics(Task(model, [], [], Batches.of([X[:30], X[30:]])))
    torch.testing.assert_close(model[1].running_mean, model[0](X).mean(0))


@pytest.mark.parametrize("name", ["mlp_batch_norm", "resnet_pre_activation", "densenet", "batch_norm_without_affine"])
def test_matching_leaves_an_unfused_network_as_it_is(name):
    torch.manual_seed(0)
    model, x = named(name).build().double(), named(name).inputs().double()
    own = copy.deepcopy(model)
    match_statistics(Task(own, [model, model], [0.3, 0.7], Batches.of([x, x + 0.1])))
    torch.testing.assert_close(outputs(own, x), outputs(model, x))


def test_matching_is_a_reset_where_the_parents_statistics_are_those_of_the_data():
    parents, fused = [network(1), network(2)], network(3)
    batches = Batches.of([X])
    for parent in parents:
        reset_statistics(Task(parent, [], [], batches))
    twin = copy.deepcopy(fused)
    before = copy.deepcopy([parent.state_dict() for parent in parents])
    match_statistics(Task(fused, parents, [0.5, 0.5], batches))
    reset_statistics(Task(twin, [], [], batches))
    torch.testing.assert_close(fused.state_dict(), twin.state_dict())
    torch.testing.assert_close([parent.state_dict() for parent in parents], before, rtol=0, atol=0)


def test_what_is_no_number_is_refused():
    x = X.clone()
    x[3, 1] = float("nan")
    with pytest.raises(InputError, match="batch norm 1 sees NaN"):
        reset_statistics(Task(network(), [], [], Batches.of([x])))


def test_norms_without_statistics_do_not_count():
    model = nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False), nn.BatchNorm1d(3), nn.LayerNorm(3))
    assert list(norms_of(model)) == ["1"]
