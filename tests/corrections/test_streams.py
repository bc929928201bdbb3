"""Transformers by selection: heads whole, streams by principal directions, in all ways in which they are written."""

import copy
import functools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import transfuse
from attention import INPUTS, PLACES, PRE_NORM, Fused, PreNorm, Transformer, post_norm
from transfuse.corrections import selection, streams
from transfuse.demo.data import digits
from transfuse.layout import folded, random_elements
from zoo import livened

X = torch.randn(120, PLACES, INPUTS, generator=torch.Generator().manual_seed(0)).double()


def network(name, seed):
    torch.manual_seed(seed)
    return livened(PRE_NORM[name]()).double().eval()


@functools.cache
def layout_of(name):
    return transfuse.trace(network(name, 0), X[:2])


def selected(models, weights=None, name="fused", data=X):
    options = {"layout": layout_of(name), "method": "selection", "weights": weights, "aim": "mean"}
    return transfuse.correct(models[0], data, models, **options)


def distance(model, models, weights=None, data=X):
    """Squared distance of outputs to the mean of the models' outputs, relative to how these vary."""
    shares = weights or [1 / len(models)] * len(models)
    with torch.no_grad():
        mean = sum(share * each(data) for share, each in zip(shares, models, strict=True))
        return float((model(data) - mean).square().sum() / (mean - mean.mean(0)).square().sum())


def turned(model, name):
    """The same function: the stream rotated, heads and units in another order and scale."""
    layout = layout_of(name)
    elements = random_elements(layout, layout.widths(model.state_dict()), np.random.default_rng(0))
    twin = copy.deepcopy(model)
    twin.load_state_dict(transfuse.permute(model.state_dict(), layout, elements))
    torch.testing.assert_close(twin(X[:5]), model(X[:5]))
    return twin


SLOW = [pytest.param(name, marks=pytest.mark.long) for name in ("multihead", "fused")]


@pytest.mark.parametrize("name", ["einsum", "encoder", "rms", *SLOW])
def test_a_network_and_its_turned_twin_give_the_network_back(name):
    model = network(name, 0)
    found, layout = selected([model, turned(model, name)], name=name), layout_of(name)
    assert distance(found, [model]) < (5e-3 if name == "einsum" else 1e-4)  # whose norms keep a bias that has a mean
    heads = [space.name for space in layout.spaces if space.units == 3]
    assert len(heads) == 2
    assert all(sum(found.correction.kept[space]) == 3 for space in heads)
    assert set(found.correction.kept).isdisjoint(layout.rotating)


def test_vectors_behind_layers_are_taken_as_if_they_were_in_the_layers():
    models, layout = [network("layer scale", seed) for seed in range(2)], layout_of("layer scale")
    flat = [copy.deepcopy(model) for model in models]
    for model in flat:
        model.load_state_dict(folded(model.state_dict(), layout))
    one, other = (selected(each, name="layer scale") for each in (models, flat))
    torch.testing.assert_close(one(X), other(X))
    assert f"streams by principal directions: {layout.rotating[0]}" in str(one.correction)


def test_the_stream_of_a_post_norm_network_is_averaged_and_its_heads_are_selected():
    torch.manual_seed(0)
    model = livened(post_norm()).double().eval()
    layout = transfuse.trace(model, X[:2])
    assert not layout.rotating
    found = transfuse.correct(model, X, [model, copy.deepcopy(model)], layout=layout, method="selection", aim="mean")
    assert distance(found, [model]) < 1e-4
    assert sum(sum(kept) == 3 for kept in found.correction.kept.values()) == 2


def test_weight_on_one_network_gives_that_network():
    models = [network("fused", 0), network("fused", 1)]
    found = selected(models, [0.0, 1.0])
    assert distance(found, models, [0.0, 1.0]) < 1e-4
    assert all(kept[0] == 0 for kept in found.correction.kept.values())


def test_the_order_of_networks_does_not_matter():
    models = [network("fused", seed) for seed in range(3)]
    one, other = selected(models), selected(models[::-1])
    assert distance(one, models) == pytest.approx(distance(other, models), rel=0.05)


def test_a_network_with_large_numbers_does_not_push_the_others_out():
    models = [network("fused", 0), network("fused", 1)]
    loud = copy.deepcopy(models[0])
    with torch.no_grad():  # what is read through norms is the same
        for tensor in (loud.embed.weight, loud.embed.bias, loud.positions):
            tensor.mul_(50.0)
        for layer in loud.layers:
            for tensor in (layer.attention.out.weight, layer.attention.out.bias):
                tensor.mul_(50.0)
            for tensor in (layer.inner[2].weight, layer.inner[2].bias):
                tensor.mul_(50.0)
    torch.testing.assert_close(loud(X), models[0](X), rtol=1e-3, atol=1e-3)
    assert distance(selected([loud, models[1]]), models) == pytest.approx(distance(selected(models), models), rel=0.2)


def trained(seed):
    """A transformer that was trained for seconds to tell digits apart, row by row."""
    torch.manual_seed(seed)
    model = PRE_NORM["fused"]()
    images, labels = digits("train")
    adam = torch.optim.Adam(model.parameters(), 1e-2)
    for rows in torch.randint(len(images), (150, 64)):
        adam.zero_grad()
        F.cross_entropy(model(images[rows, 0]), labels[rows]).backward()
        adam.step()
    return model.eval()


def test_random_heads_units_and_directions_are_clearly_worse(monkeypatch):
    models, images = [trained(seed) for seed in range(2)], digits("test")[0][:, 0]
    generator = torch.Generator().manual_seed(0)

    def random_units(gram, weights, keep, *, size):
        return torch.randperm(len(gram) // size, generator=generator)[:keep].sort().values

    def random_directions(products):
        return torch.linalg.qr(torch.randn(products.shape, generator=generator, dtype=torch.float64)).Q

    chosen = distance(selected(models, data=images), models, data=images)
    monkeypatch.setattr(selection, "eliminated", random_units)
    monkeypatch.setattr(streams, "principal_directions", random_directions)
    assert chosen < 0.6 * min(distance(selected(models, data=images), models, data=images) for _ in range(3))


@pytest.mark.long
@pytest.mark.parametrize("name", ["llama", "qwen2", "phi"])
def test_definitions_of_transformers_are_taken_apart(name):
    pytest.importorskip("transformers")
    from transformers_zoo import MODELS

    row = next(each for each in MODELS if each.name == name)
    model, twin = row.build(), row.build()
    layout = transfuse.trace(model, row.inputs())
    elements = random_elements(layout, layout.widths(model.state_dict()), np.random.default_rng(0))
    twin.load_state_dict(transfuse.permute(model.state_dict(), layout, elements))
    data = [row.inputs(seed) for seed in range(30)]
    found = transfuse.correct(model, data, [model, twin], layout=layout, method="selection", aim="mean")
    assert found.correction.disagreement["selection"] < 1e-3
    assert f"streams by principal directions: {layout.rotating[0]}" in str(found.correction)


def test_a_stream_that_no_layer_is_seen_to_add_to_is_averaged_and_the_result_says_so():
    class Scaled(PreNorm):
        """What a layer adds is scaled first."""

        def forward(self, x):
            x = x + 0.5 * self.attention(self.before(x))
            return x + 0.5 * self.inner(self.between(x))

    torch.manual_seed(0)
    model = livened(Transformer(lambda: Scaled(Fused))).double().eval()
    layout = transfuse.trace(model, X[:2])
    found = transfuse.correct(model, X, [model, copy.deepcopy(model)], layout=layout, method="selection", aim="mean")
    assert distance(found, [model]) < 1e-4
    assert "positions.out (no layer is seen to add to this stream)" in found.correction.note
