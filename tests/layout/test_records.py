"""Layouts as records: what contradicts itself, which widths explain a state, where units stand."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from random_layouts import layouts, shapes, states, walk
from transfuse import Axis, Fixed, Layout, LayoutError, Run, Slot, Space, Symmetry, parse


def problems(error: pytest.ExceptionInfo[LayoutError]) -> list[str]:
    """The entries below the headline of a message."""
    return [line.removeprefix("  - ") for line in str(error.value).splitlines()[1:]]


def empty(layout: Layout, **widths: int) -> dict[str, torch.Tensor]:
    return {name: torch.empty(shape) for name, shape in shapes(layout, widths).items()}


# --- Contradictions -----------------------------------------------------------------------------------------------


def test_all_contradictions_are_listed_at_once():
    with pytest.raises(LayoutError, match="contradicts itself") as error:
        Layout(
            (Space("a", 2), Space("a", 3), Space("b", 0), Space("c", -1)),
            {"x": (Axis((Fixed(-2),)), Axis((Run((Slot("d"), Slot("e"))), Run(()))))},
        )
    assert problems(error) == [
        "space a is listed twice; merge the entries",
        "space b has 0 units; it needs one or more",
        "space c has -1 units; it needs one or more",
        "x axis 0 has -2 fixed positions; give one or more",
        "x axis 1 names space d, which is not listed; add it to the spaces",
        "x axis 1 names space e, which is not listed; add it to the spaces",
        "x axis 1 has a run without slots; name at least one space",
    ]


def test_a_layout_does_not_change_with_the_mappings_it_was_made_from():
    tensors, reasons = {"x": (Axis((Fixed(2),)),)}, {"x": {0: "is returned by the model"}}
    layout = Layout((), tensors, reasons)
    tensors.clear()
    reasons["x"].clear()
    assert layout == parse("{spaces: {}, tensors: {x: [2]}, fixed: {x: {0: is returned by the model}}}")


@pytest.mark.parametrize("name", ["", "3", "a b", "a+b", "a[0]", "|a|", "<a", "(a)", "a*2"])
def test_a_space_whose_name_the_notation_cannot_write_is_refused(name: str):
    with pytest.raises(LayoutError, match="name"):
        Layout((Space(name, 2),), {"x": (Axis((Run((Slot(name),)),)),)})


def test_a_layout_can_be_pickled():
    layout = parse("{spaces: {a: 2 signs}, tensors: {x: [a, 3]}, fixed: {x: {1: is returned by the model}}}")
    assert pickle.loads(pickle.dumps(layout)) == layout


def test_a_space_is_found_by_its_name_and_an_unknown_name_is_told_the_known_ones():
    layout = parse("{spaces: {a: 2 signs, b: 3}, tensors: {}}")
    assert layout["a"] == Space("a", 2, Symmetry(signs=True))
    with pytest.raises(LayoutError, match="no space is called 'c'; the spaces of this layout: a, b"):
        layout["c"]


# --- Widths -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensors", "lengths", "widths"),
    [
        ("x: [a]", [5], {"a": 5, "b": 3}),  # b is nowhere: its traced width
        ("x: [a + 4], y: [b*3]", [9, 6], {"a": 5, "b": 2}),
        ("x: [a*4]", [20], {"a": 5, "b": 3}),
        ("x: [a + 1 + a*2]", [16], {"a": 5, "b": 3}),
        ("x: [a + b], y: [b]", [9, 4], {"a": 5, "b": 4}),
        ("x: ['a[1 0]'], y: [b]", [2, 5], {"a": 2, "b": 5}),
        ("x: ['a[1] + b + a[0]']", [8], {"a": 2, "b": 6}),
        ("x: [a + b]", [9], {"a": 2, "b": 7}),  # underdetermined: the first keeps its traced width
        ("x: [a + b], y: [b + a]", [9, 9], {"a": 2, "b": 7}),
    ],
)
def test_widths_are_read_off_shapes(tensors: str, lengths: list[int], widths: dict[str, int]):
    layout = parse(f"{{spaces: {{a: 2, b: 3}}, tensors: {{{tensors}}}}}")
    state = {name: np.empty(length) for name, length in zip("xy", lengths, strict=False)}
    assert layout.widths(state) == widths


@pytest.mark.parametrize(
    ("tensors", "lengths"),
    [
        ("x: [(a b)]", [14]),
        ("x: ['(a |b|)'], y: [b]", [14, 7]),
        ("x: [b], y: [(a b a) + 1]", [7, 22]),
        ("x: [(a b*2) + a]", [28]),
    ],
)
def test_woven_spaces_share_their_width(tensors: str, lengths: list[int]):
    layout = parse(f"{{spaces: {{a: 2, b: 2}}, tensors: {{{tensors}}}}}")
    state = {name: np.empty(length) for name, length in zip("xy", lengths, strict=False)}
    assert layout.widths(state) == {"a": 7, "b": 7}


@given(layouts())
def test_a_state_of_the_traced_widths_fits(layout: Layout):
    state = states(layout, layout.units)
    layout.check(state)
    assert shapes(layout, layout.widths(state)) == {name: tuple(tensor.shape) for name, tensor in state.items()}


@given(layouts(listed=False), st.data())
def test_other_widths_are_found_where_each_space_has_an_axis_of_its_own(layout: Layout, data: st.DataObject):
    own = {f"bias.{name}": (Axis((Run((Slot(name),)),)),) for name in layout.units}
    layout = Layout(layout.spaces, {**layout.tensors, **own})
    widths = {name: data.draw(st.integers(1, 6)) for name in layout.units}
    assert layout.widths(states(layout, widths)) == widths


def test_units_that_are_listed_allow_no_other_width():
    layout = parse("{spaces: {a: 2}, tensors: {x: ['a[1 0]'], y: [a]}}")
    with pytest.raises(LayoutError) as error:
        layout.widths({"x": np.empty(2), "y": np.empty(3)})
    assert problems(error) == ["tensor y axis 0 has length 3, expected 2 (a = 2)"]


def test_a_space_without_units_does_not_fit():
    layout = parse("{spaces: {a: 2}, tensors: {x: [a, 3]}}")
    with pytest.raises(LayoutError, match="tensor x axis 0"):
        layout.widths({"x": np.empty((0, 3))})


def test_every_mismatch_of_every_state_is_listed_at_once():
    layout = parse("{spaces: {a: 2}, tensors: {x: [a, 3], y: [4, < a*2], z: [a]}}")
    fitting = empty(layout, a=5)
    first = fitting | {"x": torch.empty(5, 4), "y": torch.empty(4, 9), "bias": torch.empty(1)}
    second = {"x": torch.empty(5), "z": torch.empty(5, 1)}
    with pytest.raises(LayoutError, match="states that do not fit the layout") as error:
        layout.check(first, fitting, second)
    assert problems(error) == [
        "state 1: tensor bias is not in the layout",
        "state 1: tensor x axis 1 has length 4, expected 3 (no moving units)",
        "state 1: tensor y axis 1 has length 9, expected 10 (a = 5)",
        "state 3: tensor y is missing",
        "state 3: tensor x has shape [5], the layout expects 2 axes",
        "state 3: tensor z has shape [5, 1], the layout expects 1 axes",
    ]


def test_a_single_state_is_not_numbered():
    layout = parse("{spaces: {a: 2}, tensors: {x: [a]}}")
    for compare in (layout.check, layout.widths):
        with pytest.raises(LayoutError) as error:
            compare({})
        assert problems(error) == ["tensor x is missing"]


# --- Blocks -------------------------------------------------------------------------------------------------------


@given(layouts())
def test_blocks_stand_where_a_walk_along_each_axis_meets_their_units(layout: Layout):
    found = {(block.tensor, block.axis, block.space): block for block in layout.blocks()}
    met = set()
    for tensor, axes in layout.tensors.items():
        for number, axis in enumerate(axes):
            path = list(walk(axis, layout.units))
            for space in {entry[0] for entry in path if entry}:
                block = found[tensor, number, space]
                met.add((tensor, number, space))
                assert block.side == axis.side
                for unit in range(layout[space].units):
                    slots = [p for p, entry in enumerate(path) if entry and entry[:2] == (space, unit)]
                    assert block.positions[unit].tolist() == slots
                    assert block.odd.tolist() == [not path[slot][2] for slot in slots]
    assert met == set(found)


def test_blocks_follow_the_widths_given():
    layout = parse("{spaces: {a: 2}, tensors: {x: [1 + a*2]}}")
    np.testing.assert_array_equal(layout.blocks()[0].positions, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(layout.blocks({"a": 3})[0].positions, [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    "axis",
    [
        "'a[0 0]'",  # a unit twice, another never
        "'a[0 1 2]'",  # a unit that is not there
        "'a[0]'",
        "'a + a[1]'",
        "'a[0] + |a|[1]'",  # two parities
        "'(a b)'",  # woven, though the widths differ
    ],
)
def test_units_with_different_slots_are_refused(axis: str):
    layout = parse(f"{{spaces: {{a: 2, b: 3}}, tensors: {{w: [1, {axis}]}}}}")
    with pytest.raises(LayoutError, match=r"w axis 1 does not give each of the . units of space . the same slots"):
        layout.blocks()


# --- The movable share --------------------------------------------------------------------------------------------


@given(layouts())
def test_the_movable_share_counts_each_number_that_lies_on_a_unit(layout: Layout):
    state = states(layout, layout.units)
    numbers = movable = 0
    for name, tensor in state.items():
        paths = [list(walk(axis, layout.units)) for axis in layout.tensors[name]]
        for index in np.ndindex(*tensor.shape):
            numbers += 1
            movable += any(path[position] for path, position in zip(paths, index, strict=True))
    assert layout.movable(state) == (movable / numbers if numbers else 0.0)


def test_what_was_worked_out_once_is_not_changed_by_who_gets_it():
    layout = parse("{spaces: {a: 2}, tensors: {up: [a, 3], down: [4, < a]}}")
    state = empty(layout, a=5)
    layout.widths(state)["a"] = 7
    assert layout.widths(state) == {"a": 5}
    assert layout.widths(empty(layout, a=6)) == {"a": 6}
    assert [len(block.positions) for block in layout.blocks({"a": 6})] == [6, 6]
    assert [len(block.positions) for block in layout.blocks()] == [2, 2]
