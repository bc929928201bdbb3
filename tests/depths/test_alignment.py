"""Layers are put beside each other as cheaply as can be, by what they compute."""

from itertools import combinations
from math import inf

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transfuse.depths.alignment import cheapest, linear_alignment

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
