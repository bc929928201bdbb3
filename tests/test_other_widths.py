"""Targets of other widths: growing, merging, starts, and what cannot be rebuilt."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import transfuse
from transfuse import InputError
from transfuse.layout import random_elements
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
    "embedding_then_lstm", "convolution_then_lstm", "siamese", "convolution_3d", "wavenet", "lstm_cell_loop",
]  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (number % 2)) for number, name in enumerate(GROWING)]
)
def test_one_model_fused_into_a_wider_target_computes_the_same(name):
    model, layout, inputs = sample(name)
    grown = transfuse.fuse([model], layout=layout, target=doubled(layout)).model
    assert_same_function(model, grown, inputs)
    assert sum(p.numel() for p in grown.parameters()) > sum(p.numel() for p in model.parameters())


@pytest.mark.long
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
    elements = random_elements(layout, layout.widths(state), np.random.default_rng(seed), symmetries=False)
    return transfuse.permute(state, layout, elements)


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


@pytest.mark.parametrize(
    "widths", [(12, 10), (5, 3), *(pytest.param(w, marks=pytest.mark.long) for w in ((8, 9), (3, 20)))]
)
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


@pytest.mark.long
@pytest.mark.parametrize("start", ["base", "random", pytest.param("distilled", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "method", ["wb", "auto", *(pytest.param(name, marks=pytest.mark.long) for name in ("ot", "gwb"))]
)
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


class Own(nn.Module):
    """A weight that the network itself holds, used as it is and, where it is tied, the other way round as well."""

    def __init__(self, tied, units=5):
        super().__init__()
        self.up = nn.Parameter(torch.randn(units, 3))
        self.down = None if tied else nn.Parameter(torch.randn(3, units))

    def forward(self, x):
        return (x @ self.up.T).relu() @ (self.up if self.down is None else self.down.T)


# A norm without parameters, parameters of the user's own: their sizes are not in the layout.
@pytest.mark.parametrize("name", ["mlp_layer_norm", "own parameters"])
def test_layers_that_cannot_be_rebuilt_ask_for_a_target_module(name):
    if name == "own parameters":
        model, inputs = Own(tied=False), torch.randn(4, 3)
        layout = transfuse.trace(model, inputs)
    else:
        model, layout, inputs = sample(name)
    with pytest.raises(InputError, match="Pass a module of the wanted widths as target"):
        transfuse.fuse([model], inputs, layout=layout, target=doubled(layout))


class Reduced(nn.Module):
    """Linear, a function of all units at once, linear."""

    def __init__(self, between, units=5):
        super().__init__()
        self.up, self.between, self.down = nn.Linear(3, units), between(units), nn.Linear(units, 2)
        for parameter in self.parameters():
            nn.init.normal_(parameter)

    def forward(self, x):
        return self.down(self.between(self.up(x)))


class Of(nn.Module):
    """A function as a layer, whatever the width."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def of(function):
    return lambda units: Of(function)


AVERAGED = {
    "layer norm": nn.LayerNorm,
    "rms norm": nn.RMSNorm,
    "mean": of(lambda h: h - h.mean(1, keepdim=True)),
    "variance": of(lambda h: h / h.var(1, keepdim=True, correction=0)),
    "median": of(lambda h: h - h.median(1, keepdim=True).values),
    "cosine": of(lambda h: h * torch.cosine_similarity(h, h.tanh(), dim=1)[:, None]),
}
SUMMED = {
    "softmax": of(lambda h: h.softmax(1)),
    "sum": of(lambda h: h - h.tanh().sum(1, keepdim=True)),
    "normalize": of(lambda h: torch.nn.functional.normalize(h, dim=1)),
    "logsumexp": of(lambda h: h - h.logsumexp(1, keepdim=True)),
    "corrected variance": of(lambda h: h / h.var(1, keepdim=True)),
    "queries and keys": of(lambda h: (h @ h.T).softmax(1) @ h),
}


@pytest.mark.parametrize("between", AVERAGED.values(), ids=AVERAGED)
def test_where_units_are_averaged_only_whole_multiples_compute_the_same(between):
    net = Reduced(between).double()
    x = torch.randn(4, 3, dtype=torch.float64)
    layout = transfuse.trace(net, x)
    assert layout.reduced["up.out"].startswith("averaged by aten.")
    for units in (10, 15):
        grown = transfuse.fuse([net], layout=layout, target={"up.out": units}).model
        torch.testing.assert_close(grown(x), net(x))
    with pytest.raises(
        InputError, match=r"space up\.out cannot grow from 5 to 8 units: they are averaged by aten\..*multiple"
    ):
        transfuse.fuse([net], layout=layout, target={"up.out": 8})


@pytest.mark.parametrize("between", SUMMED.values(), ids=SUMMED)
def test_where_units_are_summed_no_other_width_is_taken(between):
    net, x = Reduced(between), torch.randn(4, 3)
    layout = transfuse.trace(net, x)
    for units in (8, 10):
        with pytest.raises(
            InputError, match=r"space up\.out cannot grow from 5 to .* they are summed by aten\..*leave it"
        ):
            transfuse.fuse([net], layout=layout, target={"up.out": units})
        with pytest.raises(InputError, match="cannot grow"):
            transfuse.fuse([net], layout=layout, target=Reduced(between, units))


class Embedded(nn.Module):
    """Embeddings, a norm, and scores by a weight of its own or by the embeddings."""

    def __init__(self, tied, units=5):
        super().__init__()
        self.up, self.norm, self.down = nn.Embedding(7, units), nn.LayerNorm(units), nn.Linear(units, 7)
        if tied:
            self.down.weight = self.up.weight

    def forward(self, tokens):
        return self.down(self.norm(self.up(tokens)))


@pytest.mark.parametrize(("kind", "x"), [(Own, torch.randn(4, 3)), (Embedded, torch.arange(6).view(2, 3))])
def test_a_weight_that_is_tied_takes_no_other_width(kind, x):
    """What shows a unit is copied, what sums over it is shared among the copies: one tensor cannot be both."""
    free, target = kind(tied=False), kind(tied=False, units=10)
    torch.testing.assert_close(transfuse.fuse([free], x, target=target, correct="none").model(x), free(x))
    with pytest.raises(
        InputError, match=r"cannot grow from 5 to 10 .* summed by up.*\(tied or shared\); leave it at 5"
    ):
        transfuse.fuse([kind(tied=True)], x, target=kind(tied=True, units=10))


def test_extreme_values_and_products_with_weights_grow_to_any_width():
    for between in (of(lambda h: h - h.amax(1, keepdim=True)), of(torch.tanh)):
        net, x = Reduced(between).double(), torch.randn(4, 3, dtype=torch.float64)
        layout = transfuse.trace(net, x)
        assert not layout.reduced
        torch.testing.assert_close(transfuse.fuse([net], layout=layout, target={"up.out": 8}).model(x), net(x))


def test_parents_that_would_have_to_grow_so_are_warned_of():
    small, large, x = Reduced(nn.LayerNorm, 5), Reduced(nn.LayerNorm, 8), torch.randn(4, 3)
    layout, states = transfuse.trace(large, x), [large.state_dict(), small.state_dict()]
    for call in (lambda: transfuse.fuse([large, small], x, correct="none"),
                 lambda: transfuse.fuse_states(states, layout)):  # fmt: skip
        with pytest.warns(transfuse.WidthWarning, match=r"model 2: space up\.out cannot grow from 5 to 8") as warned:
            call()
        assert [each.filename for each in warned] == [__file__]
    with pytest.warns(transfuse.WidthWarning, match=r"model 2: space up\.out has 8 units, which merge into 5"):
        transfuse.fuse([small, large], x, correct="none")


@pytest.mark.parametrize("between", [nn.LayerNorm, of(torch.tanh)], ids=["norm", "plain"])
@pytest.mark.parametrize("units", [(5, 8), (8, 5)])
def test_aligning_to_other_widths_is_refused(between, units):
    net, reference = (Reduced(between, width) for width in units)
    with pytest.raises(
        InputError, match=rf"cannot be aligned (?s:.*)up\.out has {units[0]} units, {units[1]} in the ref"
    ):
        transfuse.align(net, to=reference, example_inputs=torch.randn(4, 3))


@pytest.mark.parametrize("method", ["auto", "ot", "wb"])
def test_a_first_model_of_one_unit_is_fused_like_any_other(method):
    one, more, x = mlp(3, 1, 2), mlp(3, 4, 2), torch.randn(5, 3)
    with pytest.warns(transfuse.WidthWarning, match="has 4 units, which merge into 1"):
        fusion = transfuse.fuse([one, more], x, method=method, correct="none")
    assert fusion.model[0].out_features == 1
    grown = transfuse.fuse([one], x, target=more, method=method, correct="none").model
    torch.testing.assert_close(grown(x), one(x))


def test_units_of_a_wider_model_that_merge_unasked_are_warned_of():
    narrow, wide = (nn.Sequential(nn.Linear(3, units), nn.Tanh(), nn.Linear(units, 2)) for units in (4, 7))
    x = torch.randn(5, 3)
    with pytest.warns(transfuse.WidthWarning, match=r"model 2: space 0\.out has 7 units, which merge into 4"):
        transfuse.fuse([narrow, wide], x, correct="none")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transfuse.fuse([wide, narrow], x, correct="none")
        transfuse.fuse([narrow, wide], x, correct="none", target={"0.out": 4})


class Written(nn.Module):
    """A size stands in its code."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)).view(-1, 4))


class OwnWeight(nn.Module):
    """A weight stands in a class of the user's."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Parameter(torch.randn(3, 4)), nn.Linear(4, 2)

    def forward(self, x):
        return self.down(torch.relu(x @ self.up))


@pytest.mark.parametrize(
    ("make", "said"), [(Written, "cannot be rebuilt with these widths"), (OwnWeight, "up of OwnWeight")]
)
def test_what_cannot_be_rebuilt_is_refused_before_the_work(make, said, monkeypatch):
    monkeypatch.setattr(transfuse.fusing.networks, "fused_states", lambda *_, **__: pytest.fail("work was done"))
    with pytest.raises(InputError, match=said):
        transfuse.fuse([make(), make()], X, target=2.0)


class Through(nn.Module):
    """Weights go through a function before they are applied."""

    def __init__(self, function):
        super().__init__()
        self.up, self.down, self.function = nn.Linear(3, 5), nn.Linear(5, 2), function

    def forward(self, x):
        return nn.functional.linear(torch.tanh(self.up(x)), self.function(self.down.weight), self.down.bias)


@pytest.mark.parametrize(
    "function",
    [torch.exp, torch.sign, torch.square, lambda w: w.clamp(-1, 1), lambda w: (8 * w).round() / 8,
     lambda w: w / w.abs().max(), lambda w: w / w.abs().mean()],
)  # fmt: skip
def test_weights_that_go_through_a_function_are_not_split(function):
    net = Through(function)
    assert transfuse.trace(net, X).reduced["up.out"].startswith("summed by aten.linear")
    with pytest.raises(InputError, match=r"space up\.out cannot grow from 5 to 10"):
        transfuse.fuse([net], X, target=2.0)


@pytest.mark.parametrize("function", [torch.relu, torch.neg, lambda w: w / 3])
def test_weights_that_go_through_a_homogeneous_function_are_split(function):
    net = Through(function).double()
    grown = transfuse.fuse([net], X.double(), target=2.0).model
    torch.testing.assert_close(grown(X.double()), net(X.double()))
