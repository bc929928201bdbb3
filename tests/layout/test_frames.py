"""Frames: elements that mix what is inside of units, and the balance of both sides."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transfuse import LayoutError, parse
from transfuse.layout import Framed, Permutation, all_balanced, in_balance_of, permute, random_elements
from transfuse.lazy import as_lazy

TEXT = """
spaces: {heads: 2 scales, up.out: 3}
tensors:
  query.weight: ['|heads|*3', 8]
  key.weight:   ['|heads|*3', 7]
  value.weight: [heads*3, < up.out]
  out.weight:   [8, < heads*3]
  up.weight:    [up.out, 6]
frames:
  heads:
  - {one: ['query.weight 0 0:3'], other: ['key.weight 0 0:3']}
  - {one: ['value.weight 0 0:3'], other: ['out.weight 1 0:3']}
"""
LAYOUT = parse(TEXT)
seeds = st.integers(0, 10**6)
some = settings(max_examples=8)


def drawn(seed):
    generator = torch.Generator().manual_seed(seed)
    shapes = {"query.weight": (6, 8), "key.weight": (6, 7), "value.weight": (6, 3), "out.weight": (8, 6),
              "up.weight": (3, 6)}  # fmt: skip
    return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}


def met(state):
    """What the two sides of all heads give: queries with keys, and values with what reads them."""
    query, key, value = (state[f"{name}.weight"].reshape(2, 3, -1) for name in ("query", "key", "value"))
    out = state["out.weight"].reshape(8, 2, 3)
    scores = torch.einsum("hda,hdb->hab", query, key)
    return scores.sum(0), torch.einsum("ohd,hdu->ou", out, value) @ state["up.weight"]


def element(seed):
    return random_elements(LAYOUT, LAYOUT.units, np.random.default_rng(seed))


@some
@given(seeds)
def test_the_sides_meet_as_before_and_the_inverse_undoes_it(seed):
    state, elements = drawn(seed), element(seed)
    moved = permute(state, LAYOUT, elements)
    for before, after in zip(met(state), met(moved), strict=True):
        torch.testing.assert_close(after, before)
    back = permute(moved, LAYOUT, {name: each.inverse() for name, each in elements.items()})
    for name, tensor in state.items():
        torch.testing.assert_close(back[name], tensor)


@some
@given(seeds, st.booleans())
def test_balance_gives_both_sides_the_same_products_and_is_undone(seed, lazy):
    state = drawn(seed)
    flat = all_balanced(as_lazy(state) if lazy else state, LAYOUT)
    query, key = (flat[f"{name}.weight"].reshape(2, 3, -1) for name in ("query", "key"))
    torch.testing.assert_close(query @ query.mT, key @ key.mT)
    for before, after in zip(met(state), met(flat), strict=True):
        torch.testing.assert_close(after, before)
    back = in_balance_of(state, flat, LAYOUT)
    for name, tensor in state.items():
        torch.testing.assert_close(back[name], tensor)


@some
@given(seeds)
def test_what_differs_by_any_matrices_differs_by_rotations_in_balance(seed):
    state = drawn(seed)
    inside = Framed.random(Permutation([0, 1]), LAYOUT.frames, np.random.default_rng(seed))
    one, other = (all_balanced(each, LAYOUT) for each in (state, permute(state, LAYOUT, {"heads": inside})))
    for name, axis in (("query.weight", 0), ("value.weight", 0), ("out.weight", 1)):
        a, b = (each[name].movedim(axis, 0).reshape(2, 3, -1) for each in (one, other))
        torch.testing.assert_close(a.mT @ a, b.mT @ b, rtol=1e-5, atol=1e-5)


def test_a_head_that_has_too_few_directions_stays_as_it_is():
    state = drawn(0)
    state["query.weight"][:3] = 0.0
    flat = all_balanced(state, LAYOUT, scales=False)
    assert torch.equal(flat["key.weight"][:3], state["key.weight"][:3])
    assert not torch.equal(flat["key.weight"][3:], state["key.weight"][3:])


@some
@given(seeds, seeds)
def test_relative_to_another_one(first, second):
    turned = [
        Framed(each.permutation, each.frames, tuple(torch.linalg.qr(m).Q for m in each.matrices))
        for each in (element(first)["heads"], element(second)["heads"])
    ]
    turned = [Framed(Permutation(each.permutation.order), each.frames, each.matrices) for each in turned]
    state = drawn(first)
    one, other = (permute(state, LAYOUT, {"heads": each}) for each in turned)
    moved = permute(state, LAYOUT, {"heads": turned[1].relative_to(turned[0])})
    back = permute(other, LAYOUT, {"heads": turned[0].inverse()})
    assert turned[0].relative_to(turned[0]).permutation.is_identity
    for name in state:
        torch.testing.assert_close(moved[name], back[name])
    assert set(one) == set(state)


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ("[{one: ['query.weight 0 0:3']}]", "expected two sides"),
        ("[{one: ['query.weight 0 0:3'], other: [key.weight]}]", "expected a tensor, an axis and slots"),
        ("[{one: ['query.weight 0 0:3'], other: ['key.weight 0 0:2']}]", r"expected 3 of them"),
        ("[{one: ['query.weight 0 0:4'], other: ['key.weight 0 0:4']}]", r"has 3 slots of it"),
        ("[{one: ['query.weight 0 2:2'], other: ['key.weight 0 0:4']}]", r"has no slots"),
        ("[{one: ['query.weight 0 0:3'], other: ['key.weight 0 0:3'], planes: yes}]", "a number if they have planes"),
        ("[{one: ['query.weight 0 0:3'], other: ['key.weight 0 0:3'], planes: 1}]", "3 directions cannot be planes"),
        ("[{one: ['query.weight 0 0:2'], other: ['key.weight 0 0:2'], planes: -1}]", "2 directions cannot be planes"),
    ],
)
def test_frames_that_cannot_be_are_refused(frames, words):
    with pytest.raises(LayoutError, match=words):
        parse(TEXT[: TEXT.index("frames:")] + f"frames: {{heads: {frames}}}")


def test_an_element_of_other_frames_is_refused():
    state, inside = drawn(0), element(0)["heads"]
    other = Framed(inside.permutation, inside.frames[:1], inside.matrices[:1])
    with pytest.raises(LayoutError, match="the framed of space heads: its frames are not those of the layout"):
        permute(state, LAYOUT, {"heads": other})


# -- planes that positions turn: queries and keys of four directions ------------------------------------------------

TURNING = {
    apart: parse(f"""
spaces: {{heads: 2}}
tensors: {{query.weight: ['|heads|*4', 8], key.weight: ['|heads|*4', 7]}}
frames: {{heads: [{{one: ['query.weight 0 0:4'], other: ['key.weight 0 0:4'], planes: {apart}}}]}}
""")
    for apart in (1, 2)
}
PLANES = {1: ((0, 1), (2, 3)), 2: ((0, 2), (1, 3))}


def sides(seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(8, width, generator=generator, dtype=torch.float64)
            for name, width in (("query.weight", 8), ("key.weight", 7))}  # fmt: skip


def turned_and_met(state, apart, angles):
    """Queries with keys, after positions have turned each plane of the queries by an angle."""
    query, key = (state[f"{name}.weight"].reshape(2, 4, -1).clone() for name in ("query", "key"))
    for (a, b), angle in zip(PLANES[apart], angles, strict=True):
        cosine, sine = np.cos(angle), np.sin(angle)
        first, second = query[:, a].clone(), query[:, b].clone()
        query[:, a], query[:, b] = cosine * first - sine * second, sine * first + cosine * second
    return torch.einsum("hda,hdb->hab", query, key).sum(0)


@pytest.mark.parametrize("apart", TURNING)
@some
@given(seed=seeds, angles=st.tuples(*[st.floats(-3, 3)] * 2))
def test_turned_planes_meet_as_before_whatever_positions_turn(apart, seed, angles):
    layout, state = TURNING[apart], sides(seed)
    moved = permute(state, layout, random_elements(layout, layout.units, np.random.default_rng(seed)))
    torch.testing.assert_close(turned_and_met(moved, apart, angles), turned_and_met(state, apart, angles))
    flat = all_balanced(state, layout)
    torch.testing.assert_close(turned_and_met(flat, apart, angles), turned_and_met(state, apart, angles))
    query, key = (flat[f"{name}.weight"].reshape(2, 4, -1).square().sum(-1) for name in ("query", "key"))
    for plane in map(list, PLANES[apart]):
        torch.testing.assert_close(query[:, plane].sum(1), key[:, plane].sum(1))


def test_a_matrix_that_mixes_planes_is_refused():
    layout = TURNING[2]
    mixed = Framed.random(Permutation([0, 1]), [replace(layout.frames[0], planes=0)], np.random.default_rng(0))
    with pytest.raises(LayoutError, match="does more than to turn and scale planes"):
        permute(sides(0), layout, {"heads": replace(mixed, frames=layout.frames)})
