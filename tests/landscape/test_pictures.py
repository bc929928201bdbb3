"""What pictures show: levels, couplings in fewer cells, numbers and labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from transfuse.landscape.pictures import contour_levels, entries_per_row, pooled, short_number


@given(arrays(float, 6, elements=st.floats(-1e6, 1e6)), st.integers(2, 20))
def test_levels_rise_and_enclose_the_values(values, count):
    levels = contour_levels(values, count)
    assert np.all(np.diff(levels) > 0)
    assert levels[0] <= values.min()
    assert levels[-1] >= values.max() - 1e-9 * np.ptp(values)


def test_pooling_keeps_the_largest_of_each_part():
    matrix = np.zeros((10, 7))
    matrix[9, 6], matrix[0, 0] = -5.0, 2.0
    small = pooled(matrix, 3)
    assert small.shape == (3, 3)
    assert small[2, 2] == -5.0
    assert small[0, 0] == 2.0
    assert np.abs(small).sum() == 7.0
    np.testing.assert_array_equal(pooled(matrix, 20), matrix)


@given(st.integers(1, 8))
def test_entries_per_row_are_one_for_permutations_and_all_for_the_uniform_coupling(width):
    assert entries_per_row(-np.eye(width)[::-1]) == pytest.approx(1)
    assert entries_per_row(np.full((3, width), 1 / width)) == pytest.approx(width)


@given(st.floats(-1e9, 1e9))
def test_a_short_number_is_near_and_short(value):
    text = short_number(value)
    assert float(text) == pytest.approx(value, rel=0.005, abs=1e-300)
    assert len(text) <= 11
