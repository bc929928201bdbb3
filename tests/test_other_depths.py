"""Networks of other depths are fused as if they were of one: what is grown changes nothing."""

import functools
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import transfuse
from depth_networks import TWO_DEPTHS, built, inputs_of
from transfuse import InputError
from transfuse.activations import Batches
from transfuse.depths import brought_to
from zoo_problems import moved_twin

QUICK = ("perceptron",)
ALL = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in QUICK)) for name in TWO_DEPTHS]
)
METHODS = pytest.mark.parametrize(
    "method", ["auto", *(pytest.param(name, marks=pytest.mark.long) for name in ("clafusion", "rebasin", "vanilla"))]
)


def pair(name):
    row = TWO_DEPTHS[name]
    return built(row.shallow, 1), built(row.deep, 2)


@functools.cache
def layout_of(name):
    """The layout of the deeper network."""
    return transfuse.trace(pair(name)[1], inputs_of(name)[:4])


def fused(name, models, **options):
    """A fusion whose layers are compared on the inputs of a row, and whose units are matched by weights alone."""
    given = {"layout": layout_of(name), "correct": "none", "data": inputs_of(name), "terms": "weights", **options}
    return transfuse.fuse(models, inputs_of(name)[:4], **given)


def assert_same(name, one, other):
    torch.testing.assert_close(other(inputs_of(name)), one(inputs_of(name)), rtol=1e-6, atol=1e-6)


def deepened(name):
    """The shallower network with as many layers as the deeper one, and anything in tensors that do not matter."""
    shallow, deep = pair(name)
    (grown,), depths = brought_to(deep, [shallow], Batches.of(inputs_of(name)))
    for each, tensor in grown.state_dict().items():
        if each in depths.changes[0].free and tensor.is_floating_point():
            tensor.uniform_(0.5, 1.5)
    return grown


@ALL
@METHODS
def test_fusing_with_a_copy_that_was_deepened_gives_the_function_back(name, method):
    shallow = pair(name)[0]
    fusion = fused(name, [shallow, deepened(name)], method=method)
    assert_same(name, shallow, fusion.model)
    assert fusion.depths.changes[1] is None


@pytest.mark.parametrize("name", ["perceptron", pytest.param("resnet", marks=pytest.mark.long)])
def test_so_does_one_whose_units_stand_in_another_order(name):
    shallow = pair(name)[0]
    twin = moved_twin(deepened(name), layout_of(name), 0)
    assert_same(name, shallow, fused(name, [shallow, twin]).model)


@ALL
def test_aligned_networks_compute_what_the_models_do(name):
    models = pair(name)
    fusion = fused(name, models)
    assert type(fusion.model) is type(models[1])
    for model, aligned in zip(models, fusion.aligned, strict=True):
        assert_same(name, model, aligned)


def test_the_order_of_the_models_decides_about_widths_only():
    shallow, deep = pair("perceptron")
    one, other = fused("perceptron", [shallow, deep]), fused("perceptron", [deep, shallow])
    assert_same("perceptron", one.model, other.model)


@pytest.mark.long
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0)])
def test_a_model_of_full_weight_is_given_back(weights):
    models = pair("resnet")
    fusion = fused("resnet", models, weights=weights)
    assert_same("resnet", models[weights.index(1.0)], fusion.model)


def test_a_shallow_target_has_the_deeper_model_lose_layers():
    shallow, deep = pair("perceptron")
    fusion = transfuse.fuse([shallow, deep], inputs_of("perceptron"), target=shallow, correct="none")
    assert fusion.model.state_dict().keys() == shallow.state_dict().keys()
    assert fusion.depths.changes[0] is None
    assert len(fusion.depths.changes[1].lost) == 2
    assert "depths: model 2: 5 layers became 3: it lost hidden." in str(fusion)


@pytest.mark.long
def test_three_networks_of_three_depths():
    def chain(layers):
        inner = [each for _ in range(layers) for each in (nn.Linear(6, 6), nn.ReLU())]
        return nn.Sequential(nn.Linear(6, 6), nn.ReLU(), *inner, nn.Linear(6, 3))

    models = [built(functools.partial(chain, layers), layers) for layers in (1, 2, 3)]
    x = inputs_of("perceptron")
    fusion = transfuse.fuse(models, x, correct="none")
    told = str(fusion)
    assert re.search(r"model 1: 3 layers became 5: it grew .*; model 2: 4 layers became 5: it grew", told)
    for model, aligned in zip(models, fusion.aligned, strict=True):
        torch.testing.assert_close(aligned(x), model(x))


@pytest.mark.long
def test_what_does_not_matter_is_lent_unless_a_method_says_otherwise():
    """A block that one of two equal models lacks is half as strong, and not a quarter or less."""
    shallow, deep = pair("resnet")
    lent, published = (fused("resnet", [shallow, deep], method=each) for each in ("ot", "clafusion"))
    free = sorted(lent.depths.changes[0].free)
    weight = next(name for name in free if name.endswith("conv1.weight"))
    own = lent.aligned[1].state_dict()[weight]
    torch.testing.assert_close(lent.model.state_dict()[weight], own)
    torch.testing.assert_close(published.model.state_dict()[weight], published.aligned[1].state_dict()[weight] / 2)
    end = next(iter(lent.depths.changes[0].grown)) + ".bn2.weight"
    torch.testing.assert_close(lent.model.state_dict()[end], lent.aligned[1].state_dict()[end] / 2)


@pytest.mark.long
def test_layers_are_compared_on_data():
    shallow, deep = pair("vgg")
    x = inputs_of("vgg").float()
    fusion = transfuse.fuse([shallow.float(), deep.float()], x[:4], data=x, layout=layout_of("vgg"))
    assert fusion.depths.changes[0].difference < 1e-5
    assert fusion.correction.disagreement


def test_without_example_inputs_it_is_refused():
    shallow, deep = pair("perceptron")
    with pytest.raises(InputError, match=r"different numbers of layers \(3, 5.*pass example_inputs"):
        transfuse.fuse([shallow, deep], layout=layout_of("perceptron"))


def test_networks_that_are_not_built_alike_are_refused():
    with pytest.raises(InputError, match="model 1 cannot be brought to the depth of the result"):
        transfuse.fuse([nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), built(TWO_DEPTHS["vgg"].deep, 0).float()],
                       torch.randn(4, 1, 8, 8))  # fmt: skip


class Attributes(nn.Module):
    """Residual blocks as attributes with numbers, each written by hand, and outputs in a dictionary."""

    def __init__(self, deep):
        super().__init__()
        self.stem, self.deep = nn.Conv2d(1, 3, 3, padding=1), deep
        self.block1, self.block2 = Preactivated(), Preactivated()
        if deep:
            self.block3 = Preactivated()
        self.classifier = nn.Linear(3, 4)

    def forward(self, x):
        x = self.block2(self.block1(self.stem(x)))
        x = self.block3(x) if self.deep else x
        pooled = F.adaptive_avg_pool2d(x, 1).view(x.shape[0], -1)
        return {"scores": self.classifier(pooled), "loss": None}


class Preactivated(nn.Module):
    """A residual block whose norms and functions come first."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
        self.conv1, self.conv2 = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        return x + self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(x))))))


@pytest.mark.parametrize("terms", ["weights", pytest.param("both", marks=pytest.mark.long)])
def test_outputs_in_a_dictionary_and_blocks_as_attributes(terms):
    shallow, deep = built(lambda: Attributes(False), 1), built(lambda: Attributes(True), 2)
    x = torch.randn(30, 1, 8, 8).double()
    fusion = transfuse.fuse([shallow, deep], x[:4], data=x, terms=terms, weights=[1, 0], correct="none")
    assert len(fusion.depths.changes[0].grown) == 1
    torch.testing.assert_close(fusion.model(x)["scores"], shallow(x)["scores"], rtol=1e-6, atol=1e-6)


def test_networks_that_read_other_inputs_are_refused_whatever_their_depth():
    def chain(inputs, layers):
        inner = [each for _ in range(layers) for each in (nn.Linear(6, 6), nn.ReLU())]
        return nn.Sequential(nn.Linear(inputs, 6), nn.ReLU(), *inner, nn.Linear(6, 3))

    with pytest.raises(InputError, match=r"model 2 .* does not run on the example inputs: .*the same inputs"):
        transfuse.fuse([chain(5, 1), chain(4, 2)], torch.randn(4, 5))


class Recurrent(nn.Module):
    """A recurrent module of several layers, or several of one layer each."""

    def __init__(self, layers, apart):
        super().__init__()
        inside = 1 if apart else layers
        self.cells = nn.ModuleList(nn.GRU(6, 6, inside, batch_first=True) for _ in range(layers if apart else 1))

    def forward(self, x):
        for cell in self.cells:
            x = cell(x)[0]
        return x[:, -1]


@pytest.mark.parametrize(
    ("apart", "told"),
    [
        (False, "cells.0 of model 2 .* has 3 layers, that of model 1 2"),
        (True, "cells.0, cells.1, cells.2 cannot be left"),
    ],
)
def test_recurrent_layers_are_refused(apart, told):
    with pytest.raises(InputError, match=told):
        transfuse.fuse([Recurrent(2, apart), Recurrent(3, apart)], torch.randn(4, 5, 6))


def test_networks_whose_first_layers_have_other_names_are_told_apart_by_their_layers():
    """Inputs are drawn by the first layers' weights, which one of the networks has under another name."""
    image = nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 3, 3, padding=1), nn.Flatten(), nn.Linear(18, 3))
    with pytest.raises(InputError, match=r"nothing in the deeper one is of the kind of 1"):
        transfuse.fuse([built(TWO_DEPTHS["perceptron"].shallow, 0).float(), image], torch.randn(4, 6))


class Cached(nn.Module):
    """Blocks in a list that give keys beside their outputs, as language models do with a cache."""

    def __init__(self, layers):
        super().__init__()
        self.blocks = nn.ModuleList(Keyed() for _ in range(layers))
        self.read = nn.Linear(6, 3)

    def forward(self, x):
        keys = []
        for block in self.blocks:
            x, own = block(x)
            keys.append(own)
        return self.read(x), keys


class Keyed(nn.Module):
    """A residual block that gives what its first layer made, too."""

    def __init__(self):
        super().__init__()
        self.key, self.value = nn.Linear(6, 5), nn.Linear(5, 6)

    def forward(self, x):
        key = self.key(x)
        return x + self.value(torch.tanh(key)), key


def test_what_a_grown_block_returns_beside_its_outputs_may_be_anything():
    """Its keys are lent by the other model, so that they are none of those that the aligned networks are held to."""
    shallow, deep = built(lambda: Cached(1), 1), built(lambda: Cached(2), 2)
    x = torch.randn(20, 6).double()
    with pytest.warns(transfuse.TraceWarning, match="no unit of these networks can move"):  # keys are returned
        fusion = transfuse.fuse([shallow, deep], x, correct="none", data=x)
    assert len(fusion.depths.changes[0].free) == 2
    torch.testing.assert_close(fusion.aligned[0](x)[0], shallow(x)[0], rtol=1e-6, atol=1e-6)
