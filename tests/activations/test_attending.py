"""Attention patterns: what is seen of them, and that heads are matched by them."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import transfuse
from attention import INPUTS, PLACES, PRE_NORM
from transfuse.activations import Batches, activation_terms
from transfuse.activations.attending import MOST, by_head, pattern_of
from transfuse.activations.sites import observe, observe_attending
from transfuse.layout import Framed, Permutation, random_elements
from zoo_problems import with_weights

X = torch.randn(6, PLACES, INPUTS, generator=torch.Generator().manual_seed(0)).double()


def network(name, seed=0):
    torch.manual_seed(seed)
    return PRE_NORM[name]().double().eval()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("by_name", [True, False])
def test_a_pattern_is_what_the_softmax_gives(causal, by_name):
    query, key, value = torch.randn(3, 2, 4, 5, 6).unbind()
    mask = torch.ones(5, 5, dtype=torch.bool).tril() if causal else None
    args = (query, key, value, mask)
    names = ("query", "key", "value", "attn_mask")
    given = ((), dict(zip(names, args, strict=True))) if by_name else (args, {})
    scores = query @ key.mT / 6**0.5
    wanted = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
    torch.testing.assert_close(pattern_of(F.scaled_dot_product_attention, *given), wanted)


def test_of_long_texts_fewer_are_looked_at_or_none():
    places = 2048
    query = torch.zeros(1, 1, places, 1).expand(MOST // places**2 + 3, 1, places, 1)
    assert len(pattern_of(F.scaled_dot_product_attention, (query, query, query), {})) == MOST // places**2
    alone = torch.zeros(1, MOST // places**2 + 1, places, 1)
    assert pattern_of(F.scaled_dot_product_attention, (alone, alone, alone), {}) is None


@pytest.mark.parametrize("name", PRE_NORM)
def test_what_reads_heads_tells_how_they_attend_in_every_style(name):
    model = network(name)
    layout = transfuse.trace(model, X[:2], proof=False)
    seen = [each for each in observe_attending(model, lambda net: net(X)) if each.pattern is not None]
    assert len(seen) == 2  # layers
    for each in seen:
        (block,) = (one for one in layout.blocks() if one.tensor == each.name and one.axis == 1)
        rows = by_head(each.pattern, block)
        assert rows.shape == (len(X) * PLACES**2, 3)
        torch.testing.assert_close(rows.view(len(X), PLACES, PLACES, 3).sum(2), torch.ones(6, PLACES, 3).double())
    assert all(each.pattern is None for each in observe(model, lambda net: net(X)))


def test_patterns_count_beside_what_heads_write_and_do_not_depend_on_how_these_are_turned():
    model = network("fused")
    layout = transfuse.trace(model, X[:2], proof=False)
    elements = random_elements(layout, layout.units, np.random.default_rng(0))
    inside = {
        name: Framed(Permutation(range(each.width)), each.frames, each.matrices, each.duals)
        for name, each in elements.items()
        if isinstance(each, Framed)
    }
    twin = with_weights(model, transfuse.permute(model.state_dict(), layout, inside))
    terms = activation_terms([model, twin], layout, Batches.of(X))
    looks = [name for name in terms.axes if name.startswith("attention before ")]
    assert len(looks) == 2
    for name in looks:
        one, other = (state[name] for state in terms.states)
        torch.testing.assert_close(one, other, atol=1e-7, rtol=1e-5)
        torch.testing.assert_close(one.square().sum(0), torch.full((3,), 4.0).double())  # directions of a head


def test_heads_that_write_alike_are_told_apart_by_where_they_look():
    model = network("fused")
    with torch.no_grad():
        for layer in model.layers:
            attention = layer.attention
            value, width = attention.qkv.weight[24:], 4
            value.copy_(value[:width].repeat(3, 1))
            attention.qkv.bias[24:] = attention.qkv.bias[24 : 24 + width].repeat(3)
    layout = transfuse.trace(model, X[:2], proof=False)
    terms = activation_terms([model], layout, Batches.of(X))
    (name, *_) = (each for each in terms.axes if each.startswith("attention before "))
    rows = terms.states[0][name]
    assert float((rows.T @ rows / 4).fill_diagonal_(0).abs().max()) < 0.99


@pytest.mark.parametrize("shape", [(2, 5, 5), (4, 5, 5, 5), (5, 5)])
def test_patterns_of_other_heads_are_left_alone(shape):
    layout = transfuse.trace(network("fused"), X[:2], proof=False)
    block = next(each for each in layout.blocks() if each.tensor == "layers.0.attention.out.weight" and each.axis == 1)
    assert by_head(torch.rand(shape), block) is None
