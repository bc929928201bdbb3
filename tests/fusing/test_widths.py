"""Widths of the result: units or factors, by name, by pattern or for all spaces."""

import pytest
import torch
from torch import nn

import transfuse
from transfuse import InputError
from transfuse.fusing.widths import named_widths

OWN = {"layer1.out": 10, "layer2.out": 20, "head.out": 7}
X = torch.randn(200, 3)


def build(seed, *widths):
    torch.manual_seed(seed)
    sizes = [3, *widths]
    layers = [part for size, width in zip(sizes, widths, strict=False) for part in (nn.Linear(size, width), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 2))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (1.5, {"layer1.out": 15, "layer2.out": 30, "head.out": 10}),
        ({"layer*": 1.5}, {"layer1.out": 15, "layer2.out": 30}),
        ({"layer*": 12}, {"layer1.out": 12, "layer2.out": 12}),
        ({"layer2.out": 3, "*": 2.0}, {"layer1.out": 20, "layer2.out": 3, "head.out": 14}),
        ({"*": 2.0, "layer*": 1.0}, {"layer1.out": 10, "layer2.out": 20, "head.out": 14}),
        (0.01, {"layer1.out": 1, "layer2.out": 1, "head.out": 1}),
        ({}, {}),
    ],
)  # fmt: skip
def test_widths_are_units_or_factors_by_name_or_pattern(wanted, found):
    assert named_widths(OWN, wanted) == found


@pytest.mark.parametrize("wanted", [{"conv*": 1.5}, {"layer3.out": 4}, {"Layer*": 2.0}])
def test_what_no_space_is_called_is_refused(wanted):
    with pytest.raises(InputError, match=r"layer1\.out, layer2\.out, head\.out(?s:.*)no space is called"):
        named_widths(OWN, wanted)


def test_a_network_in_which_nothing_moves_cannot_be_widened():
    with pytest.raises(InputError, match="the spaces of this network: none"):
        transfuse.fuse([nn.Linear(3, 2), nn.Linear(3, 2)], X[:2], target=1.5)


@pytest.mark.parametrize("method", ["auto", "wb"])
def test_a_factor_gives_a_network_of_that_width(method):
    models = [build(0, 8, 6), build(1, 8, 6)]
    fusion = transfuse.fuse(models, X[:2], target=1.5, method=method, correct="none")
    assert [fusion.model[0].out_features, fusion.model[2].out_features] == [12, 9]
    assert "spaces: 0.out 12, 2.out 9" in str(fusion)


@pytest.mark.parametrize("count", [2, 3])
def test_at_the_sum_of_the_widths_selection_is_the_mean_of_the_outputs(count):
    models = [build(seed, 8, 6) for seed in range(count)]
    fusion = transfuse.fuse(models, X[:2], target=float(count), data=X, correct="selection")
    mean = sum(model(X) for model in models) / count
    torch.testing.assert_close(fusion.model(X), mean, rtol=1e-4, atol=1e-5)


def test_the_wider_the_result_the_nearer_it_is_to_the_mean_of_the_outputs():
    models = [build(seed, 16, 12) for seed in range(2)]
    mean = sum(model(X) for model in models) / 2
    made = [
        transfuse.fuse(models, X[:2], target=factor, data=X, correct="selection").model for factor in (1.0, 1.5, 2.0)
    ]
    apart = [float((model(X) - mean).detach().square().sum()) for model in made]
    assert apart[0] > apart[1] > apart[2]


def test_states_take_factors_too():
    models = [build(0, 8), build(1, 8)]
    layout = transfuse.trace(models[0], X[:2])
    fused = transfuse.fuse_states([model.state_dict() for model in models], layout, widths={"0.*": 1.25})
    assert fused.state["0.weight"].shape == (10, 3)


def test_what_a_fusion_shows_of_itself_is_short():
    fusion = transfuse.fuse([build(0, 8), build(1, 8)], X[:2], correct="none")
    assert repr(fusion) == str(fusion)
    assert len(repr(fusion)) < 600
    assert len(repr(fusion.states)) < 600
