"""How alike layers are does not depend on the order of units, and planted copies are found by it."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import transfuse
from depth_networks import TWO_DEPTHS, ResNet, built, inputs_of
from transfuse.activations import Batches
from transfuse.depths import brought_to
from transfuse.depths.likeness import LIKENESSES, curve, linear_alignment
from zoo_problems import moved_twin

EACH = pytest.mark.parametrize("likeness", LIKENESSES)


def gram(features):
    centred = features - features.mean(0)
    return centred @ centred.T


def test_likeness_of_layers_is_that_of_the_paper():
    """Kornblith et al. (2019): ||Y'X||^2 / (||X'X|| ||Y'Y||) of centred features, Frobenius norms."""
    torch.manual_seed(0)
    one, other = (torch.randn(30, width).double() for width in (5, 8))
    x, y = one - one.mean(0), other - other.mean(0)
    expected = (y.T @ x).norm() ** 2 / ((x.T @ x).norm() * (y.T @ y).norm())
    assert linear_alignment(gram(one), gram(other)) == pytest.approx(float(expected))


def test_likeness_sees_neither_rotations_nor_scales():
    torch.manual_seed(0)
    one, other = (torch.randn(30, 6).double() for _ in range(2))
    turn = torch.linalg.qr(torch.randn(6, 6).double())[0]
    assert linear_alignment(gram(one), gram(3 * one @ turn + 1)) == pytest.approx(1.0)
    assert linear_alignment(gram(one), gram(other)) < 0.9


def test_layers_that_give_nothing_are_like_none():
    assert linear_alignment(torch.zeros(4, 4), torch.ones(4, 4)) == 0.0


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    seed=st.integers(0, 99),
    scale=st.floats(0.1, 10.0),
)
def test_the_curve_of_a_tensor_does_not_see_the_order_of_units(shape, seed, scale):
    random = torch.Generator().manual_seed(seed)
    tensor = torch.randn(shape, generator=random).double()
    moved = tensor[torch.randperm(shape[0], generator=random)]
    if len(shape) > 1:
        moved = moved[:, torch.randperm(shape[1], generator=random)]
    torch.testing.assert_close(curve(moved), curve(tensor), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(curve(scale * tensor), scale * curve(tensor), rtol=1e-6, atol=1e-6)


def test_singular_values_are_those_of_the_slow_way():
    for shape in ((3, 70), (70, 3), (64, 64)):
        matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0)).double()
        values = torch.linalg.svdvals(matrix)
        torch.testing.assert_close(curve(matrix)[[0, -1]], values[[0, -1]])


def shuffled_and_deepened(name):
    """The shallower network of a row with as many layers as the deeper one, units in another order."""
    shallow, deep = built(TWO_DEPTHS[name].shallow, 1), built(TWO_DEPTHS[name].deep, 2)
    (grown,), depths = brought_to(deep, [shallow], Batches.of(inputs_of(name)))
    twin = moved_twin(grown, transfuse.trace(grown, inputs_of(name)[:4]), 3)
    return shallow, twin, depths.changes[0]


@EACH
@pytest.mark.parametrize(
    "name", ["perceptron", *(pytest.param(name, marks=pytest.mark.long) for name in ("vgg", "resnet"))]
)
def test_layers_that_were_planted_are_found(name, likeness):
    """A network loses just the layers that it grew, though its units stand in another order."""
    shallow, deep, planted = shuffled_and_deepened(name)
    _, depths = brought_to(shallow, [deep], Batches.of(inputs_of(name)), likeness=likeness)
    assert depths.changes[0].lost == planted.grown
    assert depths.changes[0].difference < 0.05  # an identity in another order is made good by a fit


def test_a_block_that_stands_there_twice_is_found_by_weights():
    """Blocks 1 and 2 of the deeper network are copies of block 1 of the shallower one: one of them has no partner.

    What comes after them sees other inputs than it did, so that activations do not tell it.
    """
    shallow, deep = built(lambda: ResNet((3, 1)), 1), built(lambda: ResNet((4, 1)), 2)
    state = shallow.state_dict()
    numbers = {0: 0, 1: 1, 2: 1, 3: 2}
    deep.load_state_dict({name: state[_numbered(name, numbers)] for name in deep.state_dict()})
    _, depths = brought_to(deep, [shallow], Batches.of(inputs_of("resnet")), likeness="weights")
    assert depths.changes[0].grown in (("layer1.1",), ("layer1.2",))


def _numbered(name, numbers):
    """The name of a tensor in the network whose block a block is a copy of."""
    first, *rest = name.split(".")
    return ".".join([first, str(numbers[int(rest[0])]), *rest[1:]]) if first == "layer1" else name


def test_weights_of_other_widths_can_be_compared():
    wide, narrow = built(lambda: ResNet((1, 1), width=8), 1), built(lambda: ResNet((2, 2), width=4), 2)
    (grown,), _ = brought_to(narrow, [wide], Batches.of(inputs_of("resnet")), likeness="weights")
    torch.testing.assert_close(grown(inputs_of("resnet")), wide(inputs_of("resnet")), rtol=1e-9, atol=1e-9)


def chain(layers, last):
    """Linear layers with ReLU, and a last one without."""
    return nn.Sequential(*(each for layer in layers for each in (copy.deepcopy(layer), nn.ReLU())), copy.deepcopy(last))


def test_the_terms_of_a_fusion_say_what_layers_are_compared_by():
    torch.manual_seed(0)
    one, two, flat, last = (nn.Linear(4, 4) for _ in range(4))
    with torch.no_grad():
        flat.weight.copy_(torch.eye(4))
        flat.bias.zero_()
    shallow, deep = chain([one, two], last), chain([one, flat, two], last)
    x = torch.randn(50, 4)
    fusion = transfuse.fuse([shallow, deep], x, terms="weights", correct="none")
    assert fusion.depths.changes[0].grown == ("2",)
    torch.testing.assert_close(fusion.model(x), shallow(x), rtol=1e-4, atol=1e-4)
    with pytest.raises(transfuse.InputError, match="terms is 'likeness'; expected one of weights, activations, both"):
        transfuse.fuse([shallow, deep], x, terms="likeness")
