"""Targets of other widths: growing, merging, starts, and what cannot be rebuilt."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import transfuse
from transfuse import InputError
from transfuse.layout import random_actions
from zoo_problems import another, assert_same_function, sample

X = torch.randn(2, 3)
WIDE = ["auto", "gwb", "ot", "rebasin", "vanilla", "wb"]  # the others only permute


def mlp(*widths, **options):
    layers = [nn.Linear(a, b, **options) for a, b in pairwise(widths)]
    return nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1])


def doubled(layout):
    return {space.name: 2 * space.units for space in layout.spaces}


# Growing repeats units, which functions of all units at once (a softmax over them) can see.
GROWING = [
    "mlp", "mlp_tanh", "mlp_batch_norm", "mlp_rms_norm", "lenet", "vgg", "resnet_projection", "densenet",
    "mobilenet", "unet_transposed", "inception", "rnn_tanh", "lstm", "lstm_bidirectional", "lstm_projected", "gru",
    "embedding_then_lstm", "convolution_then_lstm", "siamese", "convolution_3d",
]  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_one_model_fused_into_a_wider_target_computes_the_same(name):
    model, layout, inputs = sample(name)
    grown = transfuse.fuse([model], layout=layout, target=doubled(layout)).model
    assert_same_function(model, grown, inputs)
    assert sum(p.numel() for p in grown.parameters()) > sum(p.numel() for p in model.parameters())


@settings(max_examples=15)
@given(
    name=st.sampled_from([*GROWING[:8], "lstm", "gru", "rnn_tanh"]),
    method=st.sampled_from([method for method in WIDE if method != "vanilla"]),
    seed=st.integers(0, 10**6),
)
def test_units_that_were_doubled_and_moved_are_merged_again(name, method, seed):
    """The duplicate-unit law."""
    model, layout, inputs = sample(name)
    grown = transfuse.fuse([model], layout=layout, target=doubled(layout), method=method).model
    assert_same_function(model, grown, inputs)
    shuffled = moved(grown.state_dict(), layout, seed)
    shrunk = transfuse.fuse_states([shuffled], layout, method=method, widths=layout.units).state
    twin = another(name, 0)
    twin.load_state_dict(shrunk)
    assert_same_function(model, twin, inputs)


def moved(state, layout, seed):
    actions = random_actions(layout, layout.widths(state), np.random.default_rng(seed), symmetries=False)
    return transfuse.permute(state, layout, actions)


def test_a_narrower_target_keeps_more_by_merging_like_units_than_by_merging_neighbours():
    torch.manual_seed(0)
    wide = mlp(3, 24, 20, 2)
    x = torch.randn(200, 3)
    narrow = {"0.out": 12, "2.out": 10}
    merged, neighbours = (transfuse.fuse([wide], x, target=narrow, method=method) for method in ("auto", "vanilla"))
    with torch.no_grad():
        errors = [float((fusion.model(x) - wide(x)).square().mean()) for fusion in (merged, neighbours)]
    assert errors[0] < 0.5 * errors[1]
    assert merged.history[-1].objective < 0.7 * neighbours.history[-1].objective


@pytest.mark.parametrize("widths", [(12, 10), (5, 3), (8, 9), (3, 20)])
@pytest.mark.parametrize("method", WIDE)
def test_models_of_different_widths_are_fused_into_a_third(method, widths):
    torch.manual_seed(0)
    small, large, target = mlp(3, 8, 6, 2), mlp(3, 12, 9, 2), mlp(3, *widths, 2)
    fusion = transfuse.fuse([small, large], X, target=target, method=method)
    assert [tuple(p.shape) for p in fusion.model.parameters()] == [tuple(p.shape) for p in target.parameters()]
    for couplings, model in zip(fusion.couplings, (small, large), strict=True):
        own = fusion.layout.widths(model.state_dict())
        for name, matrix in couplings.items():
            assert matrix.shape == (fusion.layout.widths(target.state_dict())[name], own[name])
            torch.testing.assert_close(matrix.sum(1), torch.ones(len(matrix)))
            assert float(matrix.sum(0).min()) > 0
            if method in ("ot", "wb", "gwb"):  # growing without a change of function repeats some units more often
                torch.testing.assert_close(matrix.sum(0), torch.full((own[name],), len(matrix) / own[name]))
    objectives = [step.objective for step in fusion.history]
    assert method not in ("auto", "rebasin") or objectives == sorted(objectives, reverse=True)


@pytest.mark.parametrize("start", ["base", "random", "distilled"])
@pytest.mark.parametrize("method", ["ot", "wb", "gwb", "auto"])
def test_every_start_gives_a_fusion(method, start):
    torch.manual_seed(0)
    models = [mlp(3, 6, 4, 2), mlp(3, 6, 4, 2)]
    target = mlp(3, 12, 8, 2)
    results = [transfuse.fuse(models, X, target=target, method=method, start=start, seed=seed) for seed in (0, 0, 1)]
    first, again, other = (fusion.model.state_dict() for fusion in results)
    assert all(torch.equal(first[name], again[name]) for name in first)
    if start == "base" and method != "auto":
        assert all(torch.equal(first[name], other[name]) for name in first)
    if start != "base" and method != "auto":
        assert not all(torch.equal(first[name], other[name]) for name in first)


def test_one_model_stays_the_same_function_from_any_start_at_equal_widths():
    model, layout, inputs = sample("lenet")
    for start in ("random", "distilled"):
        fusion = transfuse.fuse([model], layout=layout, method="wb", start=start)
        assert_same_function(model, fusion.model, inputs)


# A norm without parameters, parameters of the user's own, a layer without effect: their sizes are not in the layout.
@pytest.mark.parametrize("name", ["mlp_layer_norm", "tied_autoencoder", "wavenet"])
def test_layers_that_cannot_be_rebuilt_ask_for_a_target_module(name):
    model, layout, inputs = sample(name)
    with pytest.raises(InputError, match="Pass a module of the wanted widths as target"):
        transfuse.fuse([model], inputs, layout=layout, target=doubled(layout))
