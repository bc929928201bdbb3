"""Layers are put beside each other as cheaply as can be."""

from itertools import combinations
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transfuse.depths.alignment import cheapest

COSTS = st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0, inf])


@st.composite
def problems(draw):
    rows = draw(st.integers(1, 4))
    columns = draw(st.integers(rows, 6))
    line = st.lists(COSTS, min_size=columns, max_size=columns)
    return draw(st.lists(line, min_size=rows, max_size=rows)), draw(line)


def price(costs, skips, chosen):
    alone = [skips[j] for j in range(len(skips)) if j not in chosen]
    return sum(costs[i][j] for i, j in enumerate(chosen)) + sum(alone)


@given(problem=problems())
def test_no_choice_of_columns_is_cheaper(problem):
    """The slow twin tries all of them."""
    costs, skips = problem
    least = min(price(costs, skips, each) for each in combinations(range(len(skips)), len(costs)))
    found = cheapest(costs, skips)
    if least == inf:
        assert found is None
    else:
        assert found == sorted(set(found))
        assert price(costs, skips, found) == pytest.approx(least)
