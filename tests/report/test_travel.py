"""The way between models: steps agree with what was measured, and pages show all planes in one scale."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from pages import Page, small_report
from transfuse import Barrier, Plane
from transfuse.report import journeys, motion, page
from transfuse.report.contents import Results
from transfuse.report.surface import shared_levels
from transfuse.report.svg import BOTTOM, LEFT, RIGHT, TOP
from transfuse.report.travel import picture_routes, step_names, step_values, travel_chart, travel_map


def journey():
    return journeys({"a": small_report().results}, "error")["a"]


def steps(markup, kind):
    """The steps of the travellers in a picture, by class."""
    circles = [each for each in ET.fromstring(markup).iter("circle") if "traveller" in each.get("class", "")]
    return {
        next(name for name in each.get("class").split() if name.startswith(f"a-{kind}")): np.array(
            [[float(part) for part in step.split(",")] for step in each.get("data-steps").split()]
        )
        for each in circles
    }


def test_travellers_stand_where_the_curves_do():
    way = journey()
    found = steps(travel_chart(way), "c")
    top = way.chart.marks[-1]
    for index, barrier in enumerate(way.barriers.values()):
        x, y = found[f"a-c{index}"].T
        np.testing.assert_allclose((x - LEFT) / (RIGHT - LEFT), barrier.positions, atol=1e-3)
        np.testing.assert_allclose((BOTTOM - y) / (BOTTOM - TOP) * top, barrier.of("error"), atol=top * 1e-3)


def test_on_the_map_they_go_from_mark_to_mark():
    way, plane = journey(), small_report().results.plane
    found = steps(travel_map(way), "m")
    start, straight, aligned = (
        way.ground.place(plane[name].x, plane[name].y) for name in ("model 1", "model 2", "model 2 aligned")
    )
    for name, end in (("a-m0", straight), ("a-m1", aligned)):
        np.testing.assert_allclose(found[name][[0, -1]], [start, end], atol=0.06)
        np.testing.assert_allclose(found[name][2], np.mean([start, end], 0), atol=0.06)


def test_the_slider_tells_the_values_that_were_measured():
    report = small_report()
    found = Page(page(report))
    sliders = found.all("input", type="range")
    metrics = ["error", "loss"]  # what a page opens with, then the others
    assert len(sliders) == len(metrics)
    for (slider, _), metric in zip(sliders, metrics, strict=True):
        for name, barrier in report.results.barriers.items():
            told = [each["data-texts"].split("|") for each, _ in found.all("b", data_segment=name)][
                metrics.index(metric)
            ]
            assert len(told) == int(slider["max"]) + 1 == len(barrier.positions)
            values = [float(text.removesuffix("\u00a0%")) for text in told]
            np.testing.assert_allclose(values, barrier.of(metric), rtol=0.01)
            assert all(text.endswith("%") for text in told) == (metric == "error")
    assert (
        found.all("span", class_="where")[0][0]["data-texts"]
        == "model 1|25 % of the way|half-way|75 % of the way|model 2"
    )


def test_without_script_the_middle_is_told_and_the_style_moves_the_points():
    report = small_report()
    found = Page(page(report))
    texts = step_values(journey(), "\u00a0%")
    for name, all_texts in texts.items():
        assert found.all("b", data_segment=name)[0][1] == all_texts[2]
    assert "hidden" in found.all("label", class_="slider")[0][0], "the script shows it"
    assert "checked" in found.all("input", type="checkbox")[0][0]
    rules = motion([journey()])
    assert re.findall(r"@keyframes ([\w-]+)", rules) == ["a-c0", "a-c1", "a-m0", "a-m1"]
    last = picture_routes(journey(), "c")[1][-1]
    assert f"100%{{transform:translate({last[0]:.1f}px,{last[1]:.1f}px)}}" in rules


def test_names_of_steps():
    assert step_names(journey()) == ["model 1", "25 % of the way", "half-way", "75 % of the way", "model 2"]


def results_with(scale):
    """Results with a plane and a barrier whose values grow with a scale."""
    values = {"error": scale * np.arange(12.0).reshape(3, 4)}
    line = Barrier({"error": scale * np.array([1.0, 2.0, 1.0])}, np.array([0.0, 0.5, 1.0]))
    return Results(barriers={"as trained": line}, plane=Plane(values, np.arange(4.0), np.arange(3.0), ()))


def test_all_planes_and_curves_of_a_page_have_one_scale():
    found = journeys({"low": results_with(1.0), "high": results_with(5.0)}, "error")
    assert (
        found["low"].ground.levels
        == found["high"].ground.levels
        == shared_levels([found[key].ground.plane for key in found], "error")
    )
    assert found["low"].ground.levels[-1] == pytest.approx(55)
    assert found["low"].chart == found["high"].chart
    texts = [re.findall(r"<text[^>]*>([^<]*)</text>", travel_map(each)) for each in found.values()]
    assert texts[0] == texts[1], "the bars of colours say the same"
    one, other = (each.ground.shares(40, inside=True) for each in found.values())
    assert one.max() < other.max() == pytest.approx(1, abs=0.02)


def test_a_value_that_is_not_finite_stands_at_the_top():
    line = Barrier({"error": np.array([1.0, np.inf, np.nan, 2.0, 1.0])}, np.linspace(0, 1, 5))
    way = journeys({"a": Results(barriers={"as trained": line})}, "error")["a"]
    assert [y for _, y in picture_routes(way, "c")[0]][1:3] == [TOP, TOP]
    text = travel_chart(way).replace("(barrier nan)", "")  # the height that its legend tells
    assert not re.search(r"nan|inf", text)


def test_no_barriers_no_journey():
    assert journeys({"a": Results()}, "error") == {}
    report = small_report()
    assert 'type="range"' not in page(replace(report, results=replace(report.results, barriers={}, plane=None)))
