"""Charts as text: well-formed, in place, and with the values in them."""

import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from transfuse import Mark, Plane
from transfuse.report import svg

numbers = st.floats(-1e6, 1e6)


@given(numbers, numbers)
def test_ticks_are_few_round_and_enclose_the_range(one, other):
    low, high = sorted((one, other))
    ticks = svg.nice_ticks(low, high)
    slack = 1e-6 * (ticks[1] - ticks[0])
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert 2 <= len(ticks) <= 8


@given(arrays(float, (4, 5), elements=st.floats(-1, 1)), st.floats(-1, 1))
def test_contours_lie_where_the_bilinear_surface_has_the_level(values, level):
    for segment in svg.segments(values, level):
        for x, y in segment:
            left, lower = min(int(x), 3), min(int(y), 2)
            across, up = x - left, y - lower
            around = values[lower : lower + 2, left : left + 2]
            found = np.array([1 - up, up]) @ around @ np.array([1 - across, across])
            assert found == pytest.approx(level, abs=1e-6)


@given(arrays(float, (3, 3), elements=st.floats(-1, 1)))
def test_every_edge_that_crosses_the_level_is_met_by_a_contour(values):
    ends = {(round(x, 6), round(y, 6)) for segment in svg.segments(values, 0.25) for x, y in segment}
    for row in range(3):
        for column in range(2):
            if (values[row, column] < 0.25) != (values[row, column + 1] < 0.25):
                assert any(y == row and column <= x <= column + 1 for x, y in ends)


def test_a_map_has_a_cell_for_each_value_and_its_marks_in_place():
    rows, columns = 3, 4
    values = {"loss <b>": np.arange(12.0).reshape(rows, columns), "error": np.full((rows, columns), np.nan)}
    marks = (Mark("a & b", 0.0, 0.0, 0.0, {}), Mark("c", 3.0, 2.0, 0.0, {}))
    plane = Plane(values, np.arange(4.0), np.arange(3.0), marks)
    root = ET.fromstring(svg.plane_map(plane, "loss <b>"))
    cells = root.findall("./g[@class='cells']/rect")
    assert len(cells) == 12
    assert cells[0].find("title").text == "loss <b> 0; error nan at (0, 0)"
    assert cells[-1].get("fill") == "#fde725"
    width, height = svg.WIDTH, svg.WIDTH * 2 / 3
    area = sum(float(cell.get("width")) * float(cell.get("height")) for cell in cells)
    assert area == pytest.approx(width * height, rel=0.02)
    circles = [(float(each.get("cx")), float(each.get("cy"))) for each in root.findall("circle")]
    assert circles[0] == pytest.approx((0, height), abs=0.1)
    assert circles[1] == pytest.approx((width, 0), abs=0.1)


def test_curves_leave_out_what_is_not_finite_and_escape_names():
    text = svg.curves({"<one>": ([0, 0.5, 1], [1.0, math.nan, 2.0])}, ticks={0.0: "a", 1.0: "b"}, label="loss")
    root = ET.fromstring(text)
    dots = root.findall("./g/circle/title")
    assert [dot.text for dot in dots] == ["<one>: loss 1 at 0", "<one>: loss 2 at 1"]
    assert "nan" not in text


def test_a_coupling_shows_each_entry_and_its_sign():
    root = ET.fromstring(svg.coupling(np.array([[0.0, 1.0, 0.0], [-0.5, 0.0, 0.0]])))
    assert root.get("viewBox") == "0 0 3 2"
    found = [(path.get("class"), path.get("d"), path.get("opacity")) for path in root]
    assert found == [("positive", "M1 0h1v1h-1z", "1.00"), ("negative", "M0 1h1v1h-1z", "0.50")]


@given(st.floats(0, 1))
def test_colours_are_colours(share):
    text = svg.colour(share)
    assert len(text) == 7
    assert 0 <= int(text[1:], 16) <= 0xFFFFFF
