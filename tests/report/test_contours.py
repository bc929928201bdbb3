"""Surfaces between points: smooth, within what was measured, without staircases; and lines of equal height."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from transfuse.report.contours import polylines, segments, smooth

SIZE, FINE = 19, 8  # lines of a grid, and parts of its cells
LINES = np.array([0.0, 0.5, 0.8, 2.0, 3.0]), np.array([-1.0, 0.0, 0.3, 1.0])


@pytest.mark.long
@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(-2, 2))
def test_a_plane_stays_a_plane_on_even_lines(a, b, c):
    x, y = np.arange(5.0), np.arange(4.0)
    at = np.linspace(0, 4, 9), np.linspace(0, 3, 7)
    found = smooth(a + b * x[None] + c * y[:, None], (x, y), *at)
    np.testing.assert_allclose(found, a + b * at[0][None] + c * at[1][:, None], atol=1e-12)


@given(arrays(float, (4, 5), elements=st.floats(-1, 1)))
def test_inside_it_is_nowhere_beyond_the_values_around(values):
    x, y = np.linspace(0.5, 2.0, 11), np.linspace(0.0, 0.3, 7)  # the cells that are not at the border
    found = smooth(values, LINES, x, y)
    assert values.min() - 1e-12 <= found.min()
    assert found.max() <= values.max() + 1e-12


@given(arrays(float, (4, 5), elements=st.floats(-1, 1)))
def test_it_mirrors_and_transposes_with_the_plane(values):
    x, y = np.linspace(0, 3, 8), np.linspace(-1, 1, 6)
    found = smooth(values, LINES, x, y)
    np.testing.assert_allclose(smooth(values.T, LINES[::-1], y, x), found.T, atol=1e-12)
    mirrored = smooth(values[:, ::-1], (-LINES[0][::-1], LINES[1]), -x[::-1], y)
    np.testing.assert_allclose(mirrored, found[:, ::-1], atol=1e-12)


def turning(surface, level, slope):
    """By how many degrees, at most, a contour turns away from the straight line along which it should run."""
    pieces = np.array(segments(surface, level)) / FINE
    middles, steps = pieces.mean(1), pieces[:, 1] - pieces[:, 0]
    chosen = (middles > 3).all(1) & (middles < SIZE - 4).all(1) & (np.hypot(*steps.T) > 1e-6)  # away from the border
    x, y = steps[chosen].T
    angles = np.degrees(np.arctan2(np.abs(x - slope * y), np.abs(slope * x + y)))
    return angles.max()


@pytest.mark.parametrize("slope", [1.0, 0.5, 0.7, 0.3])
def test_a_cliff_that_runs_aslant_has_no_staircase(slope):
    places, at = np.arange(SIZE * 1.0), np.linspace(0, SIZE - 1, FINE * (SIZE - 1) + 1)
    cliff = (places[None] - slope * places[:, None] > 0).astype(float)
    rows = np.array([np.interp(at, places, row) for row in cliff])
    bilinear = np.array([np.interp(at, places, column) for column in rows.T]).T
    for level in (0.1, 0.5, 0.9):
        found = turning(smooth(cliff, (places, places), at, at), level, slope)
        assert found < 35  # degrees; a staircase turns by 45 and more
        assert found < turning(bilinear, level, slope)


def test_what_is_not_finite_does_not_reach_beyond_its_cells():
    values = np.zeros((4, 5))
    values[1, 2] = np.inf
    found = smooth(values, (np.arange(5.0), np.arange(4.0)), np.array([1.0, 1.5, 2.0, 3.0]), np.array([1.0, 2.5]))
    assert np.isfinite(found).tolist() == [[True, False, False, True], [True] * 4]
    nothing = smooth(np.full((4, 5), np.nan), LINES, np.array([1.0]), np.array([0.5]))
    assert np.isnan(nothing).all()


@given(arrays(float, (4, 5), elements=st.floats(-1, 1)), st.floats(-1, 1))
def test_contours_lie_where_the_bilinear_surface_has_the_level(values, level):
    for segment in segments(values, level):
        for x, y in segment:
            left, lower = min(int(x), 3), min(int(y), 2)
            across, up = x - left, y - lower
            around = values[lower : lower + 2, left : left + 2]
            found = np.array([1 - up, up]) @ around @ np.array([1 - across, across])
            assert found == pytest.approx(level, abs=1e-6)


@pytest.mark.long
@given(arrays(float, (3, 3), elements=st.floats(-1, 1)))
def test_every_edge_that_crosses_the_level_is_met_by_a_contour(values):
    ends = {(round(x, 6), round(y, 6)) for segment in segments(values, 0.25) for x, y in segment}
    for row in range(3):
        for column in range(2):
            if (values[row, column] < 0.25) != (values[row, column + 1] < 0.25):
                assert any(y == row and column <= x <= column + 1 for x, y in ends)


@given(arrays(float, (6, 6), elements=st.floats(-1, 1)))
def test_polylines_use_every_segment_once(values):
    pieces = segments(values, 0.1)
    lines = polylines(pieces)

    def length(one, other):
        return np.hypot(one[0] - other[0], one[1] - other[1])

    assert sum(len(line) - 1 for line in lines) == len(pieces)
    joined = sum(length(a, b) for line in lines for a, b in pairwise(line))
    assert joined == pytest.approx(sum(length(*piece) for piece in pieces), abs=1e-4)


def test_a_ring_is_one_polyline():
    x, y = np.meshgrid(np.linspace(-1, 1, 20), np.linspace(-1, 1, 20))
    (ring,) = polylines(segments(x**2 + y**2, 0.5))
    assert ring[0] == pytest.approx(ring[-1], abs=1e-5)
