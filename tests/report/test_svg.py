"""Charts as text: well-formed, in place, and with the values in them."""

import math
import xml.etree.ElementTree as ET

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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
    texts = svg.tick_texts(ticks)
    assert len(set(texts)) == len(texts)
    for tick, text in zip(ticks, texts, strict=True):
        assert abs(float(text) - tick) <= max(0.51 * (ticks[1] - ticks[0]), 0.005 * abs(tick))


def test_curves_leave_out_what_is_not_finite_and_escape_names():
    series = {"<one>": ([0, 0.5, 1], [1.0, math.nan, 2.0])}
    text = svg.curves(series, svg.Chart.around(series.values()), ticks={0.0: "a", 1.0: "b"}, label="loss")
    root = ET.fromstring(text)
    dots = root.findall("./g/circle/title")
    assert [dot.text for dot in dots] == ["<one>: loss 1 at 0", "<one>: loss 2 at 1"]
    assert "nan" not in text


def test_a_coupling_shows_each_entry_and_its_sign():
    root = ET.fromstring(svg.coupling_squares(np.array([[0.0, 1.0, 0.0], [-0.5, 0.0, 0.0]])))
    assert root.get("viewBox") == "0 0 3 2"
    found = [(path.get("class"), path.get("d"), path.get("opacity")) for path in root]
    assert found == [("positive", "M1 0h1v1h-1z", "1.00"), ("negative", "M0 1h1v1h-1z", "0.50")]


@given(st.floats(0, 1))
def test_colours_are_colours(share):
    text = svg.colour(share)
    assert len(text) == 7
    assert 0 <= int(text[1:], 16) <= 0xFFFFFF
