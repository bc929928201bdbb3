"""The algebra on small hand-made values: which units an operation ties together, which it tells apart.

What is checked is what the registry relates in the end: slots, units, colours and degrees of the ids of weights.
"""

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from transfuse.tracing.algebra import Algebra
from transfuse.tracing.degrees import solve
from transfuse.tracing.labels import Labels, support

ELEMENTWISE = ("add", "multiply", "divide", "maximum", "other")


def ids(value: Labels, axis: int = 0) -> list[int]:
    """The unit ids along an axis of a value; 0 where there is none."""
    (field,) = [array for array in value.units if support(array) == {axis}]
    return field.reshape(-1).tolist()


def slots(t: Algebra, wanted: list[int]) -> list[int]:
    """For each id, its slot."""
    return t.registry.slots(torch.tensor(wanted).numpy()).tolist()


def units(t: Algebra, wanted: list[int]) -> list[int]:
    """For each id, its unit: slots are joined along the edges between them until nothing changes."""
    unit = dict(enumerate(slots(t, list(range(t.registry.size)))))
    edges = [edge for ends in t.registry.together for edge in zip(*(end.tolist() for end in ends), strict=True)]
    while any(unit[a] != unit[b] for a, b in edges):
        for a, b in edges:
            low, high = sorted((unit[a], unit[b]))
            unit = {each: low if old == high else old for each, old in unit.items()}
    return [unit[each] for each in wanted]


def colours(t: Algebra, wanted: list[int]) -> list[int]:
    """For each id, the colour of its slot; those of equal colour can be exchanged."""
    total: dict[int, int] = defaultdict(int)
    every = list(range(t.registry.size))
    for slot, colour in zip(slots(t, every), t.registry.colour.tolist(), strict=False):
        total[slot] += colour
    return [total[slot] for slot in slots(t, wanted)]


def moved(t: Algebra, function: Callable[..., Tensor], *values: Labels) -> Labels:
    (result,) = t.move(function, *values)
    return result


def different(items: list[int]) -> bool:
    return len(set(items)) == len(items)


def alike(items: list[int]) -> bool:
    return len(set(items)) == 1


# --- Joining ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ELEMENTWISE)
@settings(max_examples=25)
@given(order=st.permutations(range(4)))
def test_joining_ties_the_units_that_meet(kind: str, order: list[int]):
    t = Algebra()
    a, b = t.parameter((4,)), t.parameter((4,))
    result = t.join(a, moved(t, lambda array: array[order], b), kind=kind)
    assert slots(t, ids(a)) == [slots(t, ids(b))[index] for index in order]
    assert slots(t, ids(result)) == slots(t, ids(a))
    assert different(units(t, ids(a)))
    assert alike(colours(t, ids(a)))


@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_joining_with_broadcasting_ties_common_axes_only(kind: str):
    t = Algebra()
    weight, bias = t.parameter((3, 4)), t.parameter((4,))
    result = t.join(weight, bias, kind=kind)
    assert slots(t, ids(weight, 1)) == slots(t, ids(bias)) == slots(t, ids(result, 1))
    assert ids(result, 0) == ids(weight, 0)
    assert different(units(t, ids(weight, 0) + ids(weight, 1)))


def test_joining_with_its_transpose_ties_rows_to_columns():
    t = Algebra()
    weight = t.parameter((3, 3))
    t.join(weight, moved(t, lambda array: array.t(), weight), kind="add")
    assert slots(t, ids(weight, 0)) == slots(t, ids(weight, 1))
    assert different(units(t, ids(weight, 0)))


@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_units_of_one_axis_that_meet_are_slots_of_one_unit(kind: str):
    t = Algebra()
    a = t.parameter((4,))
    t.join(a, moved(t, lambda array: array.flip(0), a), kind=kind)
    first, second, third, fourth = units(t, ids(a))
    assert (first, second) == (fourth, third)
    assert first != second
    assert different(slots(t, ids(a)))


def test_what_meets_nobody_stays_by_itself():
    t = Algebra()
    short, long = t.parameter((2,)), t.parameter((4,))
    padded = moved(t, lambda array: F.pad(array, (0, 2)), short)
    t.join(padded, long, kind="add")
    assert slots(t, ids(long)[:2]) == slots(t, ids(short))
    assert different(units(t, ids(long)))
    met, alone = colours(t, ids(long))[:2], colours(t, ids(long))[2:]
    assert not set(met) & set(alone)


@pytest.mark.parametrize("kind", ELEMENTWISE)
@settings(max_examples=25)
@given(numbers=st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=5, max_size=5))
def test_a_constant_tells_units_apart_by_its_values(kind: str, numbers: list[float]):
    t = Algebra()
    a = t.parameter((5,))
    t.join(a, torch.tensor(numbers), kind=kind)
    found = colours(t, ids(a))
    assert [found.index(colour) for colour in found] == [numbers.index(number) for number in numbers]


def test_a_constant_that_differs_everywhere_fixes_units():
    t = Algebra()
    result = t.join(t.parameter((3,)), torch.arange(3), kind="multiply")
    assert result.units == ()


def test_an_input_fixes_the_units_it_meets_and_no_others():
    t = Algebra(where="a sum")
    weight = t.parameter((3, 4))
    result = t.join(weight, t.source((4,)), kind="add")
    assert different(colours(t, ids(weight, 1)))
    assert alike(colours(t, ids(weight, 0)))
    assert ids(result, 0) == ids(weight, 0)
    reasons = {d.reason for d in t.registry.distinctions if set(ids(weight, 1)) <= {*d.ids.tolist()}}
    assert reasons == {"its positions meet different inputs or constants, a sum"}


# --- Contracting --------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(order=st.permutations(range(5)))
def test_contracting_ties_the_units_that_are_summed_over(order: list[int]):
    t = Algebra()
    up, down = t.parameter((5, 3)), t.parameter((2, 5))
    hidden = t.contract("bi,oi->bo", t.source((7, 3)), up)
    result = t.contract("bi,oi->bo", hidden, moved(t, lambda array: array[:, order], down))
    assert slots(t, ids(up, 0)) == [slots(t, ids(down, 1))[index] for index in order]
    assert slots(t, ids(result, 1)) == slots(t, ids(down, 0))
    assert alike(colours(t, ids(up, 0)))
    assert different(units(t, ids(up, 0) + ids(down, 0)))


def test_contracting_with_an_input_fixes_the_columns_of_a_weight():
    t = Algebra()
    weight = t.parameter((5, 3))
    result = t.contract("bi,oi->bo", t.source((7, 3)), weight)
    assert different(colours(t, ids(weight, 1)))
    assert alike(colours(t, ids(weight, 0)))
    assert ids(result, 1) == ids(weight, 0)


def test_a_weight_consumes_what_it_is_summed_over():
    t = Algebra()
    up, down = t.parameter((5, 3)), t.parameter((2, 5))
    t.contract("bi,oi->bo", t.contract("bi,oi->bo", t.source((7, 3)), up), down)
    consumed = {each for array in t.registry.consumed for each in array.tolist()}
    shown = {each for showing in t.registry.shown for each in showing.ids.tolist()}
    assert consumed == {*ids(up, 1), *ids(down, 1)}
    assert {*ids(up, 0), *ids(down, 0)} <= shown
    assert not consumed & shown


def test_a_weight_applied_to_its_own_outputs_ties_its_rows_to_its_columns():
    t = Algebra()
    start, step = t.parameter((4, 3)), t.parameter((4, 4))
    hidden = t.contract("bi,oi->bo", t.source((7, 3)), start)
    t.join(hidden, t.contract("bi,oi->bo", hidden, step), kind="add")
    assert slots(t, ids(start, 0)) == slots(t, ids(step, 0)) == slots(t, ids(step, 1))
    assert different(units(t, ids(start, 0)))


def test_an_index_twice_in_one_operand_is_refused():
    t = Algebra()
    with pytest.raises(ValueError, match="repeated index in aa"):
        t.contract("aa,ab->b", t.parameter((3, 3)), t.parameter((3, 2)))


# --- Reducing -----------------------------------------------------------------------------------------------------


def test_reducing_parts_of_an_axis_makes_them_the_units():
    t = Algebra()
    query, key = t.parameter((6,)), t.parameter((6,))
    split = [moved(t, lambda array: array.reshape(2, 3), value) for value in (query, key)]
    heads = ids(t.contract("hd,hd->h", *split))
    assert units(t, ids(query)) == units(t, ids(key)) == [unit for unit in units(t, heads) for _ in range(3)]
    assert different(units(t, heads))
    assert slots(t, ids(query)) == slots(t, ids(key))
    assert different(slots(t, ids(query)))


def test_reducing_other_axes_keeps_units_and_reducing_their_own_ends_them():
    t = Algebra()
    weight = t.parameter((3, 4))
    assert ids(t.reduce(weight, [1])) == ids(weight, 0)
    assert ids(t.reduce(weight, [-2], keepdim=True), 1) == ids(weight, 1)
    assert t.reduce(weight, [0, 1]).units == ()
    assert different(units(t, ids(weight, 0) + ids(weight, 1)))
    assert alike(colours(t, ids(weight, 0)))


@pytest.mark.parametrize(("keepdim", "shape"), [(False, (3, 5)), (True, (3, 1, 5, 1))])
def test_reducing_gives_the_shape_of_a_sum(keepdim: bool, shape: tuple[int, ...]):
    t = Algebra()
    result = t.reduce(t.parameter((3, 4, 5, 2)), [1, -1], keepdim=keepdim)
    assert result.shape == shape
    assert [support(field) for field in result.units] == [{axis} for axis, size in enumerate(shape) if size > 1]


def test_groups_of_the_same_units_are_one_unit():
    t = Algebra()
    a = t.parameter((3,))
    twice = moved(t, lambda array: torch.stack([array, array.roll(1)]), a)
    assert alike(ids(t.reduce(twice, [1])))


def test_a_group_of_nobody_is_nobody():
    t = Algebra()
    a = t.parameter((4,))
    padded = moved(t, lambda array: F.pad(array, (0, 2)).reshape(3, 2), a)
    first, second, third = ids(t.reduce(padded, [1]))
    assert units(t, [first, first, second, second]) == units(t, ids(a))
    assert third == 0


# --- Mixing, moving, fixing ---------------------------------------------------------------------------------------


def test_blending_fixes_the_units_along_its_axes_and_keeps_the_others():
    t = Algebra(where="a pooling")
    weight = t.parameter((3, 4))
    result = t.blend(weight, [1], (3, 2), why="is pooled over")
    assert result.shape == (3, 2)
    assert ids(result, 0) == ids(weight, 0)
    assert different(colours(t, ids(weight, 1)))
    assert alike(colours(t, ids(weight, 0)))
    (pinned,) = [d for d in t.registry.distinctions if d.reason == "is pooled over, a pooling"]
    assert pinned.ids.tolist() == ids(weight, 1)


def test_blending_parts_of_an_axis_makes_them_the_units():
    t = Algebra()
    a = t.parameter((6,))
    result = t.blend(moved(t, lambda array: array.reshape(2, 3), a), [1], (2, 3))
    assert [unit for unit in units(t, ids(result, 0)) for _ in range(3)] == units(t, ids(a))
    assert different(units(t, ids(result, 0)))


def test_positions_after_blending_are_told_apart():
    t = Algebra()
    blended = t.blend(t.parameter((3, 4)), [1], (3, 2))
    bias = t.parameter((2,))
    t.join(blended, bias, kind="add")
    assert different(colours(t, ids(bias)))


def test_a_concatenation_keeps_its_parts_apart():
    t = Algebra()
    a, b = t.parameter((2,)), t.parameter((3,))
    both = moved(t, lambda *arrays: torch.cat(arrays), a, b)
    assert ids(both) == ids(a) + ids(b)
    assert different(units(t, ids(both)))
    assert alike(colours(t, ids(a)))
    assert alike(colours(t, ids(b)))
    assert set(colours(t, ids(a))) != set(colours(t, ids(b)))


def test_of_two_axes_that_become_one_the_larger_keeps_moving():
    t = Algebra(where="a flatten")
    weight = t.parameter((2, 3))
    flat = moved(t, lambda array: array.reshape(6), weight)
    assert ids(flat) == ids(weight, 1) * 2
    assert different(colours(t, ids(weight, 0)))
    assert alike(colours(t, ids(weight, 1)))
    assert "shares its axis with other units, a flatten" in {d.reason for d in t.registry.distinctions}


def test_an_opaque_operation_fixes_all_that_it_touches():
    t = Algebra(where="a mystery")
    weight, bias, other = t.parameter((3, 4)), t.parameter((4,)), t.parameter((5,))
    result = t.opaque((6, 2), [weight, bias, 1.0], "has no rule")
    assert (result.shape, result.units) == ((6, 2), ())
    for touched in (ids(weight, 0), ids(weight, 1), ids(bias)):
        assert different(colours(t, touched))
    assert alike(colours(t, ids(other)))
    assert {d.reason for d in t.registry.distinctions} == {"has no rule, a mystery"}


def test_fixing_an_axis_leaves_the_other():
    t = Algebra()
    weight = t.parameter((3, 4))
    result = t.pinned(weight, frozenset([0]), "is a kernel position")
    assert [support(field) for field in result.units] == [{1}]
    assert different(colours(t, ids(weight, 0)))
    assert alike(colours(t, ids(weight, 1)))


@given(classes=st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_units_of_different_classes_cannot_be_exchanged(classes: list[int]):
    t = Algebra()
    a = t.parameter((4,))
    t.distinguish(a.units[0], torch.tensor(classes), "is in a group")
    found = colours(t, ids(a))
    assert [found.index(colour) for colour in found] == [classes.index(each) for each in classes]


# --- Signs and scales ---------------------------------------------------------------------------------------------


def degree(t: Algebra, kind: str, wanted: int, of: int) -> int | None:
    """The degree of one id when another has degree 1; None where that one cannot change at all."""
    rows = [{wanted: Fraction(1), 0: Fraction(-1)}]
    for equation in (equation for equation in t.registry.equations if getattr(equation, kind)):
        for total, first, second in zip(equation.total, equation.first, equation.second, strict=True):
            row: dict[int, Fraction] = defaultdict(Fraction)
            for each, coefficient in ((total, 1), (first, -1), (second, -equation.sign)):
                row[int(each)] += coefficient
            row.pop(0, None)
            rows.append(dict(row))
    degrees = solve(rows, modulo_two=kind == "signs")
    return None if degrees is None else degrees.get(of, 0)


CHANGES: dict[str, tuple[Callable[[Algebra, Labels], Labels], int | None, int | None]] = {
    "any function": (lambda t, a: t.pointwise(a), None, None),
    "tanh": (lambda t, a: t.pointwise(a, odd=True), 1, None),
    "relu": (lambda t, a: t.pointwise(a, homogeneous=True), None, 1),
    "a negative": (lambda t, a: t.pointwise(a, odd=True, homogeneous=True), 1, 1),
    "absolute": (lambda t, a: t.absolute(a), 0, 1),
    "plus one": (lambda t, a: t.join(a, 1.0, kind="add"), None, None),
    "plus zero": (lambda t, a: t.join(a, 0.0, kind="add"), 1, 1),
    "plus another": (lambda t, a: t.join(a, t.parameter((4,)), kind="add"), 1, 1),
    "times three": (lambda t, a: t.join(a, 3.0, kind="multiply"), 1, 1),
    "times itself": (lambda t, a: t.join(a, a, kind="multiply"), 0, 2),
    "over itself": (lambda t, a: t.join(a, a, kind="divide"), 0, 0),
    "one over": (lambda t, a: t.join(1.0, a, kind="divide"), 1, -1),
    "at least zero": (lambda t, a: t.join(a, 0.0, kind="maximum"), None, 1),
    "at least one": (lambda t, a: t.join(a, 1.0, kind="maximum"), None, None),
    "the larger": (lambda t, a: t.join(a, t.parameter((4,)), kind="maximum"), None, 1),
    "any function of two": (lambda t, a: t.join(a, 0.0, kind="other"), None, None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_how_a_result_changes_when_a_unit_is_negated_or_scaled(name: str):
    function, signs, scales = CHANGES[name]
    t = Algebra()
    a = t.parameter((4,))
    result = function(t, a)
    for first, made in zip(ids(a), ids(result), strict=True):
        assert degree(t, "signs", first, made) == signs
        assert degree(t, "scales", first, made) == scales


@pytest.mark.parametrize("odd", [True, False])
@pytest.mark.parametrize("homogeneous", [True, False])
def test_units_beside_a_reduced_axis_change_as_the_function_does(odd: bool, homogeneous: bool):
    t = Algebra()
    weight = t.parameter((3, 4))
    t.reduce(weight, [1], odd=odd, homogeneous=homogeneous)
    row, column = ids(weight, 0)[0], ids(weight, 1)[0]
    assert degree(t, "signs", row, row) == (1 if odd else None)
    assert degree(t, "scales", row, row) == (1 if homogeneous else None)
    assert degree(t, "signs", column, column) is degree(t, "scales", column, column) is None


def test_a_weight_divides_by_what_it_consumes():
    t = Algebra()
    up, down = t.parameter((5, 3)), t.parameter((2, 5))
    t.contract("bi,oi->bo", t.contract("bi,oi->bo", t.source((7, 3)), up), down)
    assert degree(t, "scales", ids(up, 0)[0], ids(down, 1)[0]) == -1
    assert degree(t, "signs", ids(up, 0)[0], ids(down, 1)[0]) == 1
