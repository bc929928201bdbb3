"""Activations as terms: they find planted units again, streamed or not."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import transfuse
from transfuse.activations import Batches, activation_terms
from zoo_problems import assert_same_function, moved_twin, outputs, sample

NETWORKS = ["mlp_tanh", "lenet", "resnet_identity", "rnn_tanh", "gru", "lstm_bidirectional"]


def inputs_like(inputs, samples, axis=0):
    shape = list(inputs.shape)
    shape[axis] = samples
    return torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=inputs.dtype)


@pytest.mark.long
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("options", [{"method": "activation"}, {"terms": "both", "restarts": 0}])
def test_planted_signed_permutations_are_found_again(name, options):
    model, layout, inputs = sample(name)
    data = [inputs_like(inputs, 64, 1 if name == "rnn_tanh" else 0)]
    scales = any(space.scales for space in layout.spaces)  # only methods that balance undo these
    twin = moved_twin(model, layout, 3, symmetries=not scales or "method" not in options)
    fusion = transfuse.fuse([model, twin], layout=layout, data=data, correct="none", **options)
    for each in (fusion.model, fusion.aligned[1]):
        torch.testing.assert_close(outputs(each, inputs), outputs(model, inputs), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("method", ["ot", "wb", "rebasin"])
def test_other_methods_take_activations_too(method):
    model, layout, inputs = sample("mlp_tanh")
    twin = moved_twin(model, layout, 3, symmetries=False)
    data = [inputs_like(inputs, 64)]
    fusion = transfuse.fuse([model, twin], layout=layout, data=data, method=method, terms="activations")
    assert_same_function(fusion.model, model, inputs)


def gram(terms):
    """What a matching sees: products of units with units, of all models."""
    return {
        name: torch.cat([state[name] for state in terms.states], 1).T
        @ torch.cat([state[name] for state in terms.states], 1)
        for name in terms.axes
    }


@pytest.mark.parametrize("name", ["mlp_tanh", "lenet", "gru"])
def test_streamed_activations_are_those_of_one_batch(name):
    model, layout, inputs = sample(name)
    models = [model, moved_twin(model, layout, 3)]
    data = inputs_like(inputs, 40)
    one, many = (activation_terms(models, layout, Batches.of(list(data.split(size)))) for size in (40, 7))
    assert one.axes.keys() == many.axes.keys()
    for key, value in gram(one).items():
        torch.testing.assert_close(gram(many)[key], value, rtol=1e-8, atol=1e-8)


def test_terms_are_correlations_of_what_weights_are_applied_to():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    x = torch.randn(50, 3).double()
    terms = activation_terms([model], transfuse.trace(model, x), Batches.of([x]))
    assert list(terms.axes) == ["activations at 2.weight of 0.out"]
    (found,) = gram(terms).values()
    torch.testing.assert_close(found, torch.corrcoef(model[:2](x).detach().T))


def test_units_that_never_vary_do_not_count():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    with torch.no_grad():
        model[0].weight[1] = 0
        model[0].bias[1] = -1
    x = torch.randn(50, 3).double()
    (found,) = gram(activation_terms([model], transfuse.trace(model, x), Batches.of([x]))).values()
    torch.testing.assert_close(found[1], torch.zeros(4).double())
    assert float(found[0, 0]) == pytest.approx(1.0)
    assert bool(found.isfinite().all())


def test_different_widths():
    torch.manual_seed(0)
    narrow = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    wide = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    with torch.no_grad():  # every unit twice, with half of its outgoing weight
        wide[0].weight.copy_(narrow[0].weight.repeat(2, 1))
        wide[0].bias.copy_(narrow[0].bias.repeat(2))
        wide[2].weight.copy_(narrow[2].weight.repeat(1, 2) / 2)
        wide[2].bias.copy_(narrow[2].bias)
    x = torch.randn(60, 3).double()
    fusion = transfuse.fuse([narrow, wide], x, method="activation", data=x, target={"0.out": 4})
    assert_same_function(fusion.model, narrow, x)


def test_spaces_without_activations_are_matched_by_their_weights():
    model, layout, inputs = sample("einsum")  # no linear layers: nothing is seen
    terms = activation_terms([model, model], layout, Batches.of([inputs]))
    assert not terms.axes
    fusion = transfuse.fuse([model, moved_twin(model, layout, 3)], layout=layout, data=[inputs], terms="activations")
    assert_same_function(fusion.model, model, inputs)
    mixed, layout, inputs = sample("functional")  # one weight of three is applied by a linear layer
    fusion = transfuse.fuse([mixed, moved_twin(mixed, layout, 3)], layout=layout, data=[inputs], terms="activations")
    assert_same_function(fusion.model, mixed, inputs)


@pytest.mark.parametrize("options", [{"method": "activation"}, {"method": "auto", "restarts": 0}])
def test_the_order_of_models_does_not_matter(options):
    x = torch.randn(80, 5, generator=torch.Generator().manual_seed(0)).double()
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2)).double())
    one = transfuse.fuse(models, x, data=x, **options)
    other = transfuse.fuse(models[::-1], x, data=x, **options)
    torch.testing.assert_close(outputs(one.model, x)[0], outputs(other.model, x)[0], rtol=1e-6, atol=1e-8)


def test_both_terms_count_alike_but_for_the_trust_in_few_samples():
    model, layout, inputs = sample("mlp_tanh")
    terms = activation_terms([model], layout, Batches.of([inputs_like(inputs, 30)]))
    (mixed,), _, importances = terms.beside([model.state_dict()], layout)
    moving = [name for name, axes in layout.tensors.items() if any(axis.spaces for axis in axes)]
    weights = sum(float(mixed[name].square().sum()) for name in moving)
    trust = {name: terms.samples[name] / (terms.samples[name] + terms.states[0][name].shape[1]) for name in terms.axes}
    activations = sum(
        importance / trust[name] * float(mixed[name].square().sum()) for name, importance in importances.items()
    )
    assert activations == pytest.approx(weights, rel=1e-9)
    assert all(samples == 30 and 0 < trust[name] < 1 for name, samples in terms.samples.items())
    _, alone, _ = replace(terms, weights=False).beside([model.state_dict()], layout)
    assert set(alone.tensors) == set(terms.axes)


class Fork(nn.Module):
    """Skips a layer, or does not, by what it holds."""

    def __init__(self):
        super().__init__()
        self.first, self.extra, self.last = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x):
        x = self.first(x).tanh()
        if float(self.first.bias.sum()) > 0:
            x = self.extra(x).tanh()
        return self.last(x)


def test_networks_that_go_different_ways_show_nothing():
    model, twin, x = Fork(), Fork(), torch.randn(5, 4)
    for each, value in ((model, 1.0), (twin, -1.0)):
        nn.init.constant_(each.first.bias, value)
    layout = transfuse.trace(model, x)
    assert activation_terms([model, model], layout, Batches.of([x])).axes
    assert not activation_terms([model, twin], layout, Batches.of([x])).axes


def convolutions(seed):
    torch.manual_seed(seed)
    layers = [nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.ReLU(), nn.Conv2d(5, 6, 3), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(24, 3))


@pytest.mark.parametrize(
    ("count", "options", "starts"),
    [(2, {}, 1), (2, {"restarts": 2}, 4), (2, {"terms": "weights"}, 4), (3, {}, 4)],
    ids=["two", "restarts", "weights", "three"],
)
def test_two_models_that_are_matched_at_many_places_start_once_unless_more_is_asked_for(count, options, starts):
    told, data = [], torch.randn(50, 2, 8, 8, generator=torch.Generator().manual_seed(1))
    models = [convolutions(seed) for seed in range(count)]
    transfuse.fuse(models, data[:2], data=data, correct="none", progress=lambda *each: told.append(each[0]), **options)
    assert any(f"start {starts} of {starts}" in stage for stage in told)
