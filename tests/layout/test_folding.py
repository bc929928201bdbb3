"""Folding: gains of one, the same function, and the way back."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from transfuse import LayoutError, parse
from transfuse.layout import folded, unfolded
from transfuse.lazy import as_lazy

TEXT = """
spaces: {stream: 5 rotations fixing the mean, up.out: 4}
tensors:
  words.weight: [7, stream]
  norm.weight:  ['|stream|']
  norm.bias:    [stream]
  up.weight:    [up.out, < stream]
  up.bias:      [up.out]
  gate.weight:  [< stream, up.out]
folds:
  norm.weight: {bias: norm.bias, into: %s}
"""
BOTH = parse(TEXT % "{up.weight: up.bias, gate.weight: null}")
ALONE = parse(TEXT % "{up.weight: up.bias}")


def drawn(seed):
    generator = torch.Generator().manual_seed(seed)
    shapes = {name: [BOTH.units.get(axis.alone, 7) for axis in axes] for name, axes in BOTH.tensors.items()}
    return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}


def outputs(state):
    x = F.layer_norm(state["words.weight"], (5,), state["norm.weight"], state["norm.bias"])
    return F.linear(x, state["up.weight"], state["up.bias"]), x @ state["gate.weight"]


SQUARE = parse("""
spaces: {stream: 5 rotations}
tensors:
  words.weight: [7, stream]
  norm.weight:  [1, '|stream|']
  norm.bias:    [stream]
  both.weight:  [stream, < stream]
  both.bias:    [stream]
  scale:        [1, '|stream|']
  read.weight:  [3, < stream]
folds:
  norm.weight: {bias: norm.bias, into: {both.weight: both.bias}}
  scale:       {from: [both.weight, both.bias]}
""")


def through_square(state):
    x = state["words.weight"]
    normed = F.rms_norm(x, (5,)) * state["norm.weight"] + state["norm.bias"]
    return (x + F.linear(normed, state["both.weight"], state["both.bias"]) * state["scale"]) @ state["read.weight"].T


@given(st.integers(0, 10**6), st.booleans())
def test_a_layer_takes_the_norm_before_it_and_the_vector_behind_it(seed, lazy):
    generator = torch.Generator().manual_seed(seed)
    shapes = {name: [sum(SQUARE.units.get(s, 1) for s in axis.spaces) or axis.segments[0].count for axis in axes]
              for name, axes in SQUARE.tensors.items()}  # fmt: skip
    state = {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
    flat = folded(as_lazy(state) if lazy else state, SQUARE)
    assert bool((flat["scale"] == 1).all())
    torch.testing.assert_close(through_square(flat), through_square(state))
    back = unfolded(state, flat, SQUARE)
    for name, tensor in state.items():
        torch.testing.assert_close(back[name], tensor)


@given(st.integers(0, 10**6), st.booleans())
def test_folding_keeps_the_function_and_is_undone(seed, lazy):
    state = drawn(seed)
    flat = folded(as_lazy(state) if lazy else state, BOTH)
    assert torch.equal(flat["norm.weight"], torch.ones(5, dtype=torch.float64))
    for before, after in zip(outputs(state), outputs(flat), strict=True):
        torch.testing.assert_close(after, before)
    back = unfolded(state, flat, BOTH)
    for name, tensor in state.items():
        torch.testing.assert_close(back[name], tensor)


def test_a_bias_goes_where_all_readers_have_one_and_stays_otherwise():
    state = drawn(0)
    assert not bool(folded(state, ALONE)["norm.bias"].any())
    torch.testing.assert_close(folded(state, BOTH)["norm.bias"], state["norm.bias"] / state["norm.weight"])
    assert folded(state, BOTH)["up.bias"] is state["up.bias"]


def test_what_is_folded_stays_as_it_is_and_inputs_are_not_modified():
    state = drawn(1)
    before = {name: tensor.clone() for name, tensor in state.items()}
    flat = folded(state, ALONE)
    again = folded(flat, ALONE)
    assert all(again[name] is flat[name] for name in flat)
    assert all(torch.equal(state[name], before[name]) for name in state)


def test_nothing_is_folded_for_spaces_that_are_not_named():
    state = drawn(2)
    assert all(folded(state, ALONE, spaces=["up.out"])[name] is state[name] for name in state)


def test_a_gain_of_zero_that_hides_a_bias_is_refused():
    state = drawn(3)
    state["norm.weight"][1] = 0.0
    with pytest.raises(LayoutError, match=r"gain of zero where its bias norm\.bias is not, at 1 of 5 units, and gate"):
        folded(state, BOTH)
    torch.testing.assert_close(outputs(folded(state, ALONE))[0], outputs(state)[0])
    with pytest.raises(LayoutError, match="cannot be taken out"):
        unfolded(state, folded(state, ALONE), ALONE)
    state["norm.bias"][1] = 0.0
    torch.testing.assert_close(outputs(folded(state, BOTH))[1], outputs(state)[1])


@pytest.mark.parametrize(
    ("into", "words"),
    [
        ("{strange.weight: null}", "no tensor is called strange.weight"),
        ("{words.weight: null}", "words.weight does not consume space stream along one axis"),
        ("[up.weight]", "cannot read"),
    ],
)
def test_folds_that_cannot_be_are_refused(into, words):
    with pytest.raises(LayoutError, match=words):
        parse(TEXT % into)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{from: [read.weight]}", "read.weight does not produce space stream along one axis"),
        ("{from: [nothing]}", "no tensor is called nothing"),
        ("{from: []}", "cannot read"),
    ],
)
def test_vectors_that_cannot_go_where_the_layout_says_are_refused(entry, words):
    with pytest.raises(LayoutError, match=words):
        parse(str(SQUARE).replace("{from: [both.weight, both.bias]}", entry))


def test_a_layout_without_rotations_has_no_folds():
    plain = ALONE.without_rotations()
    assert not plain.rotating
    assert not plain.folds
    assert plain["stream"].symmetry.words == ()
