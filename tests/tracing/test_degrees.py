"""Degrees: the solver against trying out all of them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transfuse.tracing.degrees import Row, solve

IDS = (1, 2, 3, 4)
COEFFICIENTS = {kind: st.sampled_from(values) for kind, values in {"small": (-2, -1, 1, 2), "unit": (-1, 1)}.items()}


def systems(kind: str) -> st.SearchStrategy[list[Row]]:
    """Rows of a few ids; id 0 is the constant."""
    rows = st.dictionaries(st.integers(0, len(IDS)), COEFFICIENTS[kind].map(Fraction), max_size=4)
    return st.lists(rows, max_size=5)


def products() -> st.SearchStrategy[list[Row]]:
    """Rows as the registry makes them: `total = first +- second`, where ids may coincide or be nobody."""
    ids = st.integers(0, len(IDS))

    def row(total: int, first: int, second: int, sign: int) -> Row:
        found = dict.fromkeys((total, first, second), Fraction(0))
        found[total] += 1
        found[first] -= 1
        found[second] -= sign
        found.pop(0, None)
        return found

    wanted = st.dictionaries(st.sampled_from(IDS), st.sampled_from([-1, 1]), min_size=1, max_size=2).map(
        lambda degrees: [{key: Fraction(1), 0: Fraction(-degree)} for key, degree in degrees.items()]
    )
    return st.builds(
        list.__add__, st.lists(st.builds(row, ids, ids, ids, st.sampled_from([-1, 1])), max_size=4), wanted
    )


def solutions(rows: Sequence[Row], choices: Sequence[int], modulo: int = 0) -> Iterator[tuple[int, ...]]:
    """All degrees of `IDS` among the choices that satisfy all rows."""
    for degrees in itertools.product(choices, repeat=len(IDS)):
        values = dict(zip((0, *IDS), (1, *degrees), strict=True))
        totals = [sum(coefficient * values[key] for key, coefficient in row.items()) for row in rows]
        if not any(total % modulo if modulo else total for total in totals):
            yield degrees


def in_order(degrees: Mapping[int, Fraction]) -> tuple[Fraction | int, ...]:
    """Degrees of all `IDS`; those that no row mentions are zero."""
    return tuple(degrees.get(key, 0) for key in IDS)


@given(systems("small") | products())
def test_signs_are_solved_as_by_trying_all_with_later_ids_zero_where_there_is_a_choice(rows: list[Row]):
    best = min(solutions(rows, (0, 1), modulo=2), key=lambda degrees: degrees[::-1], default=None)
    found = solve(rows, modulo_two=True)
    assert (None if found is None else in_order(found)) == best


@given(systems("small") | products())
def test_scales_that_are_found_satisfy_all_rows(rows: list[Row]):
    found = solve(rows, modulo_two=False)
    if found is not None:
        values = found | {0: 1}
        assert [sum(c * values.get(key, 0) for key, c in row.items()) for row in rows] == [0] * len(rows)


@given(products())
@example(
    [{3: Fraction(1), 1: Fraction(-2)}, {3: Fraction(1), 2: Fraction(-1), 4: Fraction(-1)}, {2: Fraction(1), 0: -1}]
)
def test_scales_are_found_wherever_trying_all_finds_some(rows: list[Row]):
    if next(solutions(rows, range(-2, 3)), None) is not None:
        assert solve(rows, modulo_two=False) is not None


@given(systems("unit"), st.permutations(range(5)))
def test_the_order_of_the_rows_does_not_matter(rows: list[Row], order: list[int]):
    shuffled = [rows[index] for index in order if index < len(rows)]
    for modulo_two in (True, False):
        assert solve(shuffled, modulo_two=modulo_two) == solve(rows, modulo_two=modulo_two)


@pytest.mark.parametrize(
    ("rows", "signs", "scales"),
    [
        ([], {}, {}),
        ([{}], {}, {}),
        ([{0: 1}], None, None),  # 1 = 0
        ([{0: 2}], {}, None),  # 2 = 0, which holds for signs
        ([{1: 1, 0: -1}], {1: 1}, {1: 1}),
        ([{1: 1, 0: 1}], {1: 1}, {1: -1}),
        ([{1: 1, 2: -1}, {2: 1}, {1: 1, 0: -1}], None, None),
        ([{1: 2, 0: -1}], None, {1: Fraction(1, 2)}),  # a square that is wanted odd: half a degree
        ([{2: 1, 1: -2}, {1: 1, 0: -1}], {1: 1, 2: 0}, {1: 1, 2: 2}),
    ],
)
def test_known_systems(rows: list[dict[int, int]], signs: dict[int, int] | None, scales: dict[int, Fraction] | None):
    exact = [{key: Fraction(value) for key, value in row.items()} for row in rows]
    assert solve(exact, modulo_two=True) == signs
    assert solve(exact, modulo_two=False) == scales
