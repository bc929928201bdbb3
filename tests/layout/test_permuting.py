"""Moving the units of a state: against a twin that moves one number at a time, there and back, and refusals."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from random_layouts import layouts, states, walk
from transfuse import Layout, LayoutError, Permutation, parse, permute
from transfuse.layout import random_elements

FACTORS = (-4.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 8.0)  # powers of two: multiplied and divided without rounding


@st.composite
def elements(draw: st.DrawFn, layout: Layout) -> dict[str, Permutation]:
    """What each space allows, for some of the spaces."""
    drawn = {}
    for space in layout.spaces:
        allowed = [f for f in FACTORS if (space.signs or f > 0) and (space.scales or abs(f) == 1)]
        factor = st.lists(st.sampled_from(allowed), min_size=space.units, max_size=space.units).map(np.array)
        if draw(st.booleans()):
            order = st.permutations(range(space.units)).map(np.array)
            drawn[space.name] = Permutation(draw(st.just(np.arange(space.units)) | order), draw(st.none() | factor))
    return drawn


def slowly(state: dict[str, Tensor], layout: Layout, elements: dict[str, Permutation]) -> dict[str, Tensor]:
    """One number at a time: find its unit on every axis, take the number of the old unit, multiply."""
    moved = {}
    for name, axes in layout.tensors.items():
        paths = [list(walk(axis, layout.units)) for axis in axes]
        moved[name] = torch.empty_like(state[name])
        for index in itertools.product(*map(range, state[name].shape)):
            source, factor = list(index), 1.0
            for number, (axis, path, position) in enumerate(zip(axes, paths, index, strict=True)):
                space, unit, even = path[position] or (None, 0, True)
                if space not in elements:
                    continue
                element = elements[space]
                slot = sum(entry is not None and entry[:2] == (space, unit) for entry in path[:position])
                old = int(element.order[unit])
                source[number] = [p for p, entry in enumerate(path) if entry and entry[:2] == (space, old)][slot]
                if not even:
                    factor *= float(element.factor[unit]) ** (1 if axis.side == "produces" else -1)
            moved[name][index] = state[name][tuple(source)] * factor
    return moved


def identical(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    torch.testing.assert_close(first, second, rtol=0, atol=0)


# --- Laws ---------------------------------------------------------------------------------------------------------


@given(layouts(), st.data())
def test_units_move_as_one_number_at_a_time(layout: Layout, data: st.DataObject):
    state, drawn = states(layout, layout.units), data.draw(elements(layout))
    identical(permute(state, layout, drawn), slowly(state, layout, drawn))


@settings(max_examples=50)
@given(layouts(), st.data())
def test_the_inverse_gives_the_state_back(layout: Layout, data: st.DataObject):
    state, drawn = states(layout, layout.units), data.draw(elements(layout))
    back = {name: element.inverse() for name, element in drawn.items()}
    identical(permute(permute(state, layout, drawn), layout, back), state)


@settings(max_examples=50)
@given(layouts(), st.data())
def test_the_given_state_is_not_modified_and_what_nothing_moves_is_passed_on(layout: Layout, data: st.DataObject):
    state, drawn = states(layout, layout.units), data.draw(elements(layout))
    before = {name: tensor.clone() for name, tensor in state.items()}
    moved = permute(state, layout, drawn)
    identical(state, before)
    for name, axes in layout.tensors.items():
        entries = [entry for axis in axes for entry in walk(axis, layout.units) if entry and entry[0] in drawn]
        reordered = any(drawn[space].reorders for space, _, _ in entries)
        scaled = any(drawn[space].rescales and not even for space, _, even in entries)
        assert (moved[name] is state[name]) is not (reordered or scaled)


@settings(max_examples=50)
@given(layouts(), st.data())
def test_the_order_of_the_spaces_does_not_matter(layout: Layout, data: st.DataObject):
    state, drawn = states(layout, layout.units), data.draw(elements(layout))
    one_by_one = state
    for name in reversed(drawn):
        one_by_one = permute(one_by_one, layout, {name: drawn[name]})
    identical(one_by_one, permute(state, layout, drawn))


NETWORK = parse("""
spaces: {up.out: 5 signs scales}
tensors: {up.weight: [up.out, 3], up.bias: [up.out], down.weight: [2, < up.out]}
""")


def test_a_linear_network_computes_the_same_at_another_width():
    state = states(NETWORK, {"up.out": 7})
    element = Permutation(np.random.default_rng(0).permutation(7), np.array([1, -2, 0.5, 4, -1, -0.25, 8]))
    moved = permute(state, NETWORK, {"up.out": element})
    with pytest.raises(AssertionError):
        identical(moved, state)
    x = torch.tensor([1.0, -3.0, 2.0], dtype=torch.float64)
    before, after = (s["down.weight"] @ (s["up.weight"] @ x + s["up.bias"]) for s in (state, moved))
    torch.testing.assert_close(after, before, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_dtype_is_kept(dtype: torch.dtype):
    element = Permutation(np.array([4, 3, 2, 1, 0]), np.array([1, -2, 0.5, 4, -1]))
    exact = permute(states(NETWORK, NETWORK.units), NETWORK, {"up.out": element})
    moved = permute(states(NETWORK, NETWORK.units, dtype), NETWORK, {"up.out": element})
    identical(moved, {name: tensor.to(dtype) for name, tensor in exact.items()})


# --- Bad elements ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "order",
    [
        np.array([0, 0, 1]),
        np.array([1, 2, 3]),
        np.array([-1, 0, 1]),
        np.array([1, 0]),
        np.array([0, 1, 2, 3]),
        np.array([[0, 1, 2]]),
        np.array([]),
        np.array([2.0, 0.0, 1.0]),
    ],
)
def test_an_order_that_is_no_permutation_is_refused(order: np.ndarray):
    layout = parse("{spaces: {a: 2}, tensors: {x: [a]}}")
    with pytest.raises(LayoutError, match="space a: order is not a permutation of its 3 units"):
        permute({"x": torch.ones(3)}, layout, {"a": Permutation(order)})


def test_a_mask_is_no_permutation():
    layout = parse("{spaces: {a: 2}, tensors: {x: [a]}}")
    with pytest.raises(LayoutError, match="space a: order is not a permutation of its 2 units"):
        permute({"x": torch.ones(2)}, layout, {"a": Permutation(np.array([True, False]))})


@pytest.mark.parametrize(
    ("symmetries", "factor", "complaint"),
    [
        ("signs scales", [1, 2], "factor must be 3 finite numbers other than zero"),
        ("signs scales", [[1, 2, 4]], "factor must be 3 finite numbers other than zero"),
        ("signs scales", [1, 0, 1], "factor must be 3 finite numbers other than zero"),
        ("signs scales", [1, math.nan, 1], "factor must be 3 finite numbers other than zero"),
        ("signs scales", [1, math.inf, 1], "factor must be 3 finite numbers other than zero"),
        ("scales", [1, -2, 1], "its units may not be negated"),
        ("", [1, -1, 1], "its units may not be negated"),
        ("signs", [1, -2, 1], "its units may not be scaled"),
        ("", [1, 1, 0.5], "its units may not be scaled"),
    ],
)
def test_a_factor_that_the_space_does_not_allow_is_refused(symmetries: str, factor: list[float], complaint: str):
    layout = parse(f"{{spaces: {{a: 3 {symmetries}}}, tensors: {{x: [a]}}}}")
    with pytest.raises(LayoutError, match=f"the permutation of space a: {complaint}"):
        permute({"x": torch.ones(3)}, layout, {"a": Permutation(np.arange(3), np.array(factor, dtype=float))})


def test_an_action_on_a_space_that_is_not_there_is_refused():
    layout = parse("{spaces: {a: 3}, tensors: {x: [a]}}")
    with pytest.raises(LayoutError, match="no space is called 'b'"):
        permute({"x": torch.ones(3)}, layout, {"b": Permutation(np.arange(3))})


def test_a_state_that_does_not_fit_is_refused():
    with pytest.raises(LayoutError, match=r"tensor up\.bias is missing"):
        permute({}, NETWORK, {})


# --- Random elements ---------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 5), max_size=4), st.booleans())
def test_random_elements_move_something_wherever_there_is_something_to_move(seed: int, widths: list[int], plain: bool):
    spaces = {f"s{number}": width for number, width in enumerate(widths)}
    layout = parse(f"{{spaces: {spaces}, tensors: {{}}}}")
    drawn = random_elements(layout, layout.units, np.random.default_rng(seed), symmetries=not plain)
    assert list(drawn) == list(spaces)
    for name, width in spaces.items():
        assert sorted(drawn[name].order.tolist()) == list(range(width))
        assert (drawn[name].order.tolist() != list(range(width))) is (width > 1)


@pytest.mark.parametrize("symmetries", [True, False])
@pytest.mark.parametrize("signs", [True, False])
@pytest.mark.parametrize("scales", [True, False])
def test_random_elements_use_the_symmetries_of_a_space_and_no_others(symmetries: bool, signs: bool, scales: bool):
    layout = parse(f"{{spaces: {{a: 3 {'signs ' * signs}{'scales' * scales}}}, tensors: {{}}}}")
    element = random_elements(layout, {"a": 64}, np.random.default_rng(0), symmetries=symmetries)["a"]
    assert (element.factor < 0).any() == (symmetries and signs)
    assert (element.factor > 0).any()
    assert (element.factor.abs() != 1).any() == (symmetries and scales)


def test_random_elements_are_repeated_by_their_seed():
    first, second = (random_elements(NETWORK, NETWORK.units, np.random.default_rng(3))["up.out"] for _ in range(2))
    np.testing.assert_array_equal(first.order, second.order)
    np.testing.assert_array_equal(first.factor, second.factor)
