"""Lines of a grid: all of them, in order, through the places, and closer near them."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from transfuse.landscape.gridding import lines_near


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=6), st.integers(2, 40))
def test_there_are_as_many_lines_as_asked_for_from_end_to_end(places, count):
    lines = lines_near(places, -1.5, 1.5, count)
    assert len(lines) == count
    assert (lines[0], lines[-1]) == (-1.5, 1.5)
    assert (np.diff(lines) > 0).all()


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=3), st.integers(5, 40))
def test_a_line_goes_through_every_place(places, count):
    ordered = np.sort(places)
    assume((np.diff(ordered) > 3 / (2 * count)).all())
    lines = lines_near(places, -1.5, 1.5, count)
    assert all(np.abs(lines - place).min() == 0 for place in places)


def test_lines_are_closer_near_places_and_mirrored_with_them():
    lines = lines_near([0.0, 2.0], -1.0, 4.0, 31)
    gaps = np.diff(lines)
    middles = (lines[1:] + lines[:-1]) / 2
    near = gaps[np.abs(middles) < 0.2].mean()
    far = gaps[np.abs(middles - 1.0) < 0.2].mean()
    assert near < 0.75 * far
    np.testing.assert_allclose(lines_near([0.0, -2.0], -4.0, 1.0, 31), -lines[::-1], atol=0.02)
