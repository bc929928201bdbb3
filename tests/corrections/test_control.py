"""The control: a parent with its last layer refitted; nothing else changes, and it is never farther than it was."""

import copy

import pytest
import torch
from torch import nn

from transfuse.activations import Batches
from transfuse.corrections import nearest_control, refitted_parent
from transfuse.corrections.task import Task
from zoo import livened, named
from zoo_problems import outputs

X = torch.randn(300, 6, generator=torch.Generator().manual_seed(0)).double()
BOTH = (0.5, 0.5)
ZOO = ("mlp", "resnet_projection", "lstm", "densenet", "vision_transformer")


def network(seed, hidden=8):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, hidden), nn.Tanh(), nn.Linear(hidden, 4)).double()


def numbers(model, x=X):
    with torch.no_grad():
        return model(x)


def distance(model, parents, weights, *, fits):
    """Squared distance to the parents' mean, on the batches that fit or on those that judge."""
    total = 0.0
    for batch in Batches.of(X):
        if batch.fits is fits:
            with torch.no_grad():
                own, *theirs = (batch.run(each) for each in (model, *parents))
            mean = sum(weight * each for weight, each in zip(weights, theirs, strict=True))
            total += float((own - mean).square().sum())
    return total


def test_equal_parents_give_the_parent_back():
    model = network(0)
    kept = refitted_parent(model, [model, copy.deepcopy(model)], BOTH, Batches.of(X))
    torch.testing.assert_close(numbers(kept), numbers(model), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ZOO)
def test_equal_parents_of_the_zoo_give_the_parent_back(name):
    torch.manual_seed(0)
    model, x = livened(named(name).build()).double(), named(name).inputs().double()
    kept = refitted_parent(model, [model, model], BOTH, Batches.of([x, x + 0.1]))
    torch.testing.assert_close(outputs(kept, x), outputs(model, x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ZOO)
def test_a_network_of_the_zoo_comes_nearer_and_only_its_last_layer_changes(name):
    parents = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        parents.append(livened(named(name).build()).double().eval())
    x = named(name).inputs().double()
    batches = Batches.of([torch.randn_like(x) for _ in range(10)])
    kept = refitted_parent(parents[0], parents, BOTH, batches)
    task = Task(parents[0], parents, BOTH, batches)
    assert task.disagreement(kept) < task.disagreement(parents[0])
    before = parents[0].state_dict()
    changed = {key for key, tensor in kept.state_dict().items() if not torch.equal(tensor, before[key])}
    assert len({key.rpartition(".")[0] for key in changed}) == 1


@pytest.mark.parametrize("weights", [BOTH, (0.2, 0.8)])
@pytest.mark.parametrize("fits", [True, False])
def test_it_is_never_farther_than_the_parent_was(weights, fits):
    for seed in range(0, 20, 2):
        parents = [network(seed), network(seed + 1)]
        kept = refitted_parent(parents[0], parents, weights, Batches.of(X))
        assert distance(kept, parents, weights, fits=fits) < distance(parents[0], parents, weights, fits=fits)


def test_what_the_last_layer_can_express_is_found():
    one = network(0)
    other = copy.deepcopy(one)
    nn.init.normal_(other[2].weight)
    kept = refitted_parent(one, [one, other], (0.25, 0.75), Batches.of(X))
    mean = 0.25 * numbers(one) + 0.75 * numbers(other)
    assert (numbers(kept) - mean).square().sum() < 1e-4 * (numbers(one) - mean).square().sum()


def test_with_all_the_weight_a_parent_stays_as_it_is():
    parents = [network(0), network(1)]
    kept = refitted_parent(parents[0], parents, (1.0, 0.0), Batches.of(X))
    torch.testing.assert_close(numbers(kept), numbers(parents[0]))


def test_parents_need_neither_a_common_order_nor_equal_widths():
    parents = [network(0), network(1, hidden=5)]
    shuffled, order = copy.deepcopy(parents[1]), torch.randperm(5, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for tensor in (shuffled[0].weight, shuffled[0].bias):
            tensor.copy_(tensor[order])
        shuffled[2].weight.copy_(shuffled[2].weight[:, order])
    kept, same = (
        refitted_parent(parents[0], [parents[0], each], BOTH, Batches.of(X)) for each in (parents[1], shuffled)
    )
    torch.testing.assert_close(numbers(kept), numbers(same))
    assert distance(kept, parents, BOTH, fits=False) < distance(parents[0], parents, BOTH, fits=False)


def test_the_nearest_is_the_one_whose_features_serve_best():
    poor, rich = network(0, hidden=1), network(1, hidden=40)
    for parents, number in (([poor, rich], 2), ([rich, poor], 1)):
        found = nearest_control(parents, BOTH, Batches.of(X))
        assert found.number == number
        assert found.disagreement == Task(found.model, parents, BOTH, Batches.of(X)).disagreement(found.model)
        assert str(found).startswith(f"model {number}, last layer refitted: ")


def test_all_heads_are_refitted():
    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.one, self.other = nn.Linear(6, 9), nn.Linear(9, 2), nn.Linear(9, 3)

        def forward(self, x):
            inner = self.body(x).tanh()
            return {"one": self.one(inner), "other": self.other(inner)}

    parents = [TwoHeads().double(), TwoHeads().double()]
    kept = refitted_parent(parents[0], parents, BOTH, Batches.of(X))
    for name in ("one", "other"):
        assert not torch.equal(getattr(kept, name).weight, getattr(parents[0], name).weight)
    assert torch.equal(kept.body.weight, parents[0].body.weight)


def test_scores_that_go_through_a_softmax_are_refitted_before_it():
    parents = [nn.Sequential(*network(seed), nn.LogSoftmax(1)) for seed in (0, 1)]
    kept = refitted_parent(parents[0], parents, BOTH, Batches.of(X))
    bare = refitted_parent(parents[0][:3], [each[:3] for each in parents], BOTH, Batches.of(X))
    assert torch.equal(kept[2].weight, bare[2].weight)


def test_parents_are_untouched_and_the_copy_has_their_mode():
    parents = [network(0).train(), network(1).eval()]
    before = [copy.deepcopy(each.state_dict()) for each in parents]
    kept = refitted_parent(parents[0], parents, BOTH, Batches.of(X))
    assert kept.training
    assert [each.training for each in parents] == [True, False]
    for each, state in zip(parents, before, strict=True):
        assert all(torch.equal(tensor, state[key]) for key, tensor in each.state_dict().items())
