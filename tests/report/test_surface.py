"""A plane as a picture: colours, lines, cells and marks where they belong."""

import base64
import struct
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import pytest

from transfuse import Mark, Plane
from transfuse.report import surface
from transfuse.report.placing import name_boxes
from transfuse.report.surface import Ground
from transfuse.report.svg import WIDTH, colour


def read_png(content):
    """Indices and palette of what `palette_png` writes, by the standard's own words."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    parts, at = {}, 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        kind, data = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + data),)
        parts[kind], at = data, at + 12 + length
    width, height, depth, colours, *rest = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert (depth, colours, rest) == (8, 3, [0, 0, 0])
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    palette = ["#" + parts[b"PLTE"][start : start + 3].hex() for start in range(0, len(parts[b"PLTE"]), 3)]
    return rows[:, 1:], palette, parts[b"tRNS"]


def ground_of(plane, metric):
    return Ground(plane, metric, surface.shared_levels([plane], metric))


def image_in(plane, metric):
    root = ET.fromstring(surface.plane_map(ground_of(plane, metric)))
    return read_png(base64.b64decode(root.find("image").get("href").removeprefix("data:image/png;base64,")))


def test_pixels_have_the_colour_of_their_value_and_none_where_there_is_none():
    values = np.arange(12.0).reshape(3, 4)
    values[0, 0] = np.nan
    plane = Plane({"loss": values}, np.arange(4.0), np.arange(3.0), ())
    indices, palette, opaque = image_in(plane, "loss")
    assert indices.shape == (round(surface.PIXELS * 2 / 3), surface.PIXELS)
    assert palette[: surface.COLOURS] == [colour(at / (surface.COLOURS - 1)) for at in range(surface.COLOURS)]
    assert indices[0, -1] > 0.97 * surface.COLOURS, "the highest value stands at the upper right corner"
    assert opaque[indices[-1, 0]] == 0
    assert opaque[indices[-1, -1]] == 255


def test_a_flat_plane_has_one_colour():
    plane = Plane({"loss": np.full((3, 3), 2.0)}, np.arange(3.0), np.arange(3.0), ())
    indices, _, _ = image_in(plane, "loss")
    assert len(np.unique(indices)) == 1


def test_names_of_networks_that_stand_together_do_not_overlap():
    points = [(20.0, 100.0), (24.0, 104.0), (30.0, 98.0), (360.0, 5.0)]
    assert_apart(name_boxes(points, [60.0] * 4, (WIDTH, 200.0)))


def test_names_near_the_border_do_not_overlap_for_the_sake_of_lines():
    """Two networks in a corner, between the ways that begin there: a page had one name upon the other."""
    points = [(59.5, 200.9), (325.7, 200.9), (120.8, 34.8), (180.4, 146.1), (54.3, 208.5)]
    ways = [(points[4], points[1]), (points[0], points[2])]
    assert_apart(name_boxes(points, [48.3, 48.3, 103.5, 179.4, 269.1], (WIDTH, 243.0), ways))


def assert_apart(boxes):
    """Every name is inside the picture, and none covers another."""
    for number, one in enumerate(boxes):
        assert one[0] >= 0
        assert one[2] <= WIDTH
        for other in boxes[:number]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_a_map_has_a_cell_for_each_value_and_its_marks_in_place():
    rows, columns = 3, 4
    values = {"loss <b>": np.arange(12.0).reshape(rows, columns), "error": np.full((rows, columns), np.nan)}
    marks = (Mark("a & b", 0.0, 0.0, 0.0, {}), Mark("c", 3.0, 2.0, 0.0, {"loss <b>": 11.0}))
    plane = Plane(values, np.arange(4.0), np.arange(3.0), marks)
    root = ET.fromstring(surface.plane_map(ground_of(plane, "loss <b>")))
    cells = root.findall("./g[@class='cells']/rect")
    assert len(cells) == 12
    assert cells[0].find("title").text == "loss <b> 0; error nan at (0, 0)"
    width, height = WIDTH, WIDTH * 2 / 3
    area = sum(float(cell.get("width")) * float(cell.get("height")) for cell in cells)
    assert area == pytest.approx(width * height, rel=0.02)
    assert [each.find("title").text for each in root.findall("circle")] == ["a & b", "c: loss <b> 11"]
    low, high = ("#ffffff", colour(1.0))  # the first one has no value
    assert [each.get("fill") for each in root.findall("circle")] == [low, high]
    circles = [(float(each.get("cx")), float(each.get("cy"))) for each in root.findall("circle")]
    assert circles[0] == pytest.approx((0, height), abs=0.1)
    assert circles[1] == pytest.approx((width, 0), abs=0.1)
