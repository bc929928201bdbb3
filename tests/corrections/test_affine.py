"""A site is an affine map of its features: folding changes nothing, writing gives what was written."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from transfuse.activations import observe
from transfuse.corrections.affine import PLACES, has_constant, matrices, parts, written
from transfuse.modules import state_of
from zoo import livened
from zoo_problems import outputs

RECURRENT = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def computed(found, parts_matrices):
    """What matrices make of the features of parts, side by side."""
    return torch.cat([part.features.double() @ m.T for part, m in zip(found, parts_matrices, strict=True)], 1)


def wanted(found):
    return torch.cat([part.outputs.double() for part in found], 1)


def check(model, x):
    """Features times matrices are pre-activations, before and after new matrices are written."""
    model = livened(model).double().eval()
    x = x.double()
    for seen in observe(model, lambda each: each(x)):
        own = seen.pre_activations if seen.rest is None else seen.output - seen.rest
        torch.testing.assert_close(
            computed(parts(seen, own), matrices(seen, state_of(model))), wanted(parts(seen, own))
        )
        before = outputs(model, x)
        write(model, seen, matrices(seen, state_of(model)))
        torch.testing.assert_close(outputs(model, x), before)
        new = [torch.randn_like(matrix) for matrix in matrices(seen, state_of(model))]
        write(model, seen, new)
        for matrix, again in zip(new, matrices(seen, state_of(model)), strict=True):
            torch.testing.assert_close(again, matrix)
        again = observe(model, lambda each: each(x), only=seen.name)[0]
        own = again.pre_activations if again.rest is None else again.output - again.rest
        torch.testing.assert_close(computed(parts(again, own), new), wanted(parts(again, own)))


def write(model, seen, new):
    state = state_of(model)
    rows = sum(map(len, new))
    statistics = {"mean": torch.randn(rows).double(), "variance": torch.rand(rows).double() + 0.1} if seen.norm else {}
    for name, tensor in written(seen, state, new, **statistics).items():
        assert tensor.dtype == state[name].dtype
        state[name].copy_(tensor)


@settings(max_examples=20)
@given(bias=st.booleans(), norm=st.booleans(), dims=st.integers(1, 3))
def test_linear(bias, norm, dims):
    assume(dims == 2 or not norm)
    torch.manual_seed(0)
    layers = [nn.Linear(3, 5, bias=bias), *([nn.BatchNorm1d(5)] if norm else []), nn.Tanh()]
    check(nn.Sequential(*layers), torch.randn(*(4, 6, 3)[-dims:]))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@given(
    dims=st.integers(1, 3), kernel=st.integers(1, 3), stride=st.integers(1, 2), dilation=st.integers(1, 2),
    padding=st.sampled_from([0, 1, "same", "valid"]), groups=st.sampled_from([1, 2, 4]), bias=st.booleans(),
    norm=st.booleans(),
)  # fmt: skip
def test_convolutions(*, dims, kernel, stride, dilation, padding, groups, bias, norm):
    assume(padding != "same" or stride == 1)
    torch.manual_seed(0)
    convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
    follows = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[dims - 1]
    layer = convolution(4, 8, kernel, stride, padding, dilation, groups, bias)
    check(nn.Sequential(layer, *([follows(8)] if norm else []), nn.ReLU()), torch.randn(2, 4, *[7, 6, 5][:dims]))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@given(kernel=st.tuples(st.integers(1, 3), st.integers(1, 4)), padding=st.sampled_from([(0, 1), (2, 0), "same"]))
def test_convolutions_that_differ_along_their_axes(kernel, padding):
    torch.manual_seed(0)
    stride = (1, 1) if padding == "same" else (2, 1)
    check(nn.Conv2d(2, 3, kernel, stride, padding, dilation=(1, 2)), torch.randn(2, 2, 9, 10))


def test_an_image_without_a_batch_and_circular_padding():
    check(nn.Conv2d(2, 3, 3), torch.randn(2, 6, 6))
    check(nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), torch.randn(2, 2, 6, 6))


@pytest.mark.parametrize("kind", RECURRENT)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, True)])
def test_recurrent_layers(kind, bias, layers, both):
    torch.manual_seed(0)
    check(RECURRENT[kind](3, 4, num_layers=layers, bidirectional=both, bias=bias), torch.randn(5, 2, 3))


def test_what_has_a_constant():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5, bias=False), nn.BatchNorm1d(5), nn.Linear(5, 2, bias=False))
    assert [has_constant(seen) for seen in observe(net.eval(), lambda each: each(torch.randn(2, 3)))] == [
        True,
        True,
        False,
    ]
    for bias in (True, False):
        (seen,) = observe(nn.GRU(3, 4, bias=bias), lambda each: each(torch.randn(2, 2, 3)))
        assert has_constant(seen) is bias


def test_a_fit_looks_at_as_many_places_however_images_come_in_batches():
    layer, images = nn.Conv2d(2, 3, 3), torch.randn(200, 2, 18, 18)
    looks = {}
    for size in (50, 100, 200):
        seen = [observe(layer, lambda each, some=some: each(some))[0] for some in images.split(size)]
        looks[size] = sum(len(parts(each, each.output)[0].outputs) for each in seen)
    assert looks == dict.fromkeys((50, 100, 200), 4 * PLACES)
