"""Members: parts of units that change places inside of them, in the notation and as elements."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transfuse import LayoutError, parse
from transfuse.layout import Framed, Permutation, permute, random_elements
from transfuse.layout.transposing import transposed, transposed_element

# Two groups of three heads of queries, each of two directions, with one head of keys and of values.
TEXT = """
spaces: {groups: 2}
tensors:
  query.weight: ['groups*6', 8]
  key.weight:   ['groups*2', 8]
  value.weight: ['groups*2', 8]
  out.weight:   [5, < groups*6]
frames:
  groups:
  - {one: ['query.weight 0 0:2', 'query.weight 0 2:4', 'query.weight 0 4:6'], other: ['key.weight 0 0:2']}
  - {one: ['value.weight 0 0:2'], other: ['out.weight 1 0:2', 'out.weight 1 2:4', 'out.weight 1 4:6']}
members:
  groups: [['query.weight 0 0:2', 'out.weight 1 0:2'], ['query.weight 0 2:4', 'out.weight 1 2:4'],
           ['query.weight 0 4:6', 'out.weight 1 4:6']]
"""
LAYOUT = parse(TEXT)
SHAPES = {"query.weight": (12, 8), "key.weight": (4, 8), "value.weight": (4, 8), "out.weight": (5, 12)}
seeds = st.integers(0, 10**6)
some = settings(max_examples=8)


def drawn(seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in SHAPES.items()}


def computed(state):
    """What heads look at, through a function that is not linear, times what they write, summed over heads."""
    query, out = state["query.weight"].view(2, 3, 2, 8), state["out.weight"].view(5, 2, 3, 2)
    key, value = (state[f"{name}.weight"].view(2, 2, 8) for name in ("key", "value"))
    scores = torch.einsum("ghda,gdb->ghab", query, key).softmax(-1)
    return torch.einsum("ghab,gdb,oghd->ao", scores, value, out)


def element(seed):
    return random_elements(LAYOUT, LAYOUT.units, np.random.default_rng(seed))["groups"]


def turned(seed):
    """A random element whose matrices are rotations, as couplings have them."""
    drawn = element(seed)
    rotations = tuple(torch.linalg.qr(each).Q for each in drawn.matrices)
    return Framed(drawn.permutation, drawn.frames, rotations, members=drawn.members, orders=drawn.orders)


def same(one, other):
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name])


def test_they_are_written_and_read_back():
    assert parse(str(LAYOUT)) == LAYOUT
    assert LAYOUT.members_of("groups").count == 3
    assert not LAYOUT.without_rotations().members


@some
@given(seeds)
def test_a_random_element_keeps_what_is_computed_and_its_inverse_undoes_it(seed):
    state, moving = drawn(seed), element(seed)
    moved = permute(state, LAYOUT, {"groups": moving})
    torch.testing.assert_close(computed(moved), computed(state))
    same(permute(moved, LAYOUT, {"groups": moving.inverse()}), state)


@some
@given(seeds, seeds)
def test_relative_to_another_one(first, second):
    """Both applied to one state differ by what is relative, and a permutation counts as one that moves no members."""
    state, one, other = drawn(first), turned(first), turned(second)
    plain = Permutation(np.array([1, 0]))
    for a, b in ((one, other), (one, plain), (plain, other)):
        wanted = permute(permute(state, LAYOUT, {"groups": a}), LAYOUT, {"groups": b.inverse()})
        same(permute(state, LAYOUT, {"groups": a.relative_to(b)}), wanted)
    assert one.relative_to(one).permutation.is_identity
    same(permute(state, LAYOUT, {"groups": one.relative_to(one)}), state)


def test_of_a_transposed_weight():
    state, moving = drawn(0), element(0)
    names = ["out.weight"]
    other = {**state, "out.weight": state["out.weight"].T}
    moved = permute(other, transposed(LAYOUT, names), {"groups": transposed_element(moving, names)})
    wanted = permute(state, LAYOUT, {"groups": moving})
    same({**moved, "out.weight": moved["out.weight"].T}, wanted)


def test_an_order_that_is_none_is_refused():
    moving = element(0)
    wrong = Framed(moving.permutation, moving.frames, moving.matrices, moving.duals, moving.members,
                   torch.zeros(2, 3, dtype=torch.int64))  # fmt: skip
    with pytest.raises(LayoutError, match="a permutation of 3 members for each of 2 units"):
        permute(drawn(0), LAYOUT, {"groups": wrong})


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ("[query.weight 0 0:2]", "expected a list for each member"),
        ("[[query.weight], [out.weight]]", "expected a tensor, an axis and slots"),
        ("[['query.weight 0 0:2']]", "two members or more"),
        ("[['query.weight 0 0:2'], ['out.weight 1 0:2']]", "the same axes of the same tensors"),
        ("[['query.weight 0 0:2'], ['query.weight 0 1:3']]", "a slot is named twice"),
        ("[['query.weight 0 0:2'], ['query.weight 0 6:8']]", "has 6 slots of it"),
    ],
)
def test_what_cannot_be_is_refused(members, words):
    text = TEXT[: TEXT.index("members:")] + f"members: {{groups: {members}}}"
    with pytest.raises(LayoutError, match=words):
        parse(text)


def test_members_need_frames():
    with pytest.raises(LayoutError, match="has no frames"):
        parse("{spaces: {a: 2}, tensors: {up: [a*2]}, members: {a: [['up 0 0:1'], ['up 0 1:2']]}}")
