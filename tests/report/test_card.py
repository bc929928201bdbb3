"""The preview card: its size, that it says what it should, and text that is drawn without fonts."""

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest

from pages import small_report
from transfuse import InputError
from transfuse.report import card_address, card_beside, journeys, write_page
from transfuse.report.canvas import paint_disc, paint_line, paint_text
from transfuse.report.card import SIZE, card_png
from transfuse.report.first_lines import Opening, opening
from transfuse.report.lettering import fitting, text_pixels, text_width, wrapped


def pixels_of(content):
    """The pixels [rows, columns, 3] of a PNG file without filters."""
    width, height, depth, kind = struct.unpack(">IIBB", content[16:26])
    assert (depth, kind) == (8, 2)
    data = b""
    at = 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        if content[at + 4 : at + 8] == b"IDAT":
            data += content[at + 8 : at + 8 + length]
        at += 12 + length
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def test_a_card_has_its_size_and_shows_number_and_map():
    results = small_report().results
    first = opening(results, 2)
    way = journeys({"a": results}, "error")["a"]
    with_map = pixels_of(card_png("title", first, way))
    assert with_map.shape == (SIZE[1], SIZE[0], 3) == (630, 1200, 3)
    orange = (with_map == (184, 75, 0)).all(-1)  # the large number is the only thing on the left in this colour
    assert orange[:, :560].sum() > 2000
    without = pixels_of(card_png("title", first, replace(way, ground=None)))
    assert np.any(with_map[:, 600:] != without[:, 600:])
    np.testing.assert_array_equal(with_map[:, :580], without[:, :580])
    assert (pixels_of(card_png("title", first, None))[:, 600:] == 255).all()


def test_other_numbers_make_other_cards_and_the_same_the_same():
    one, same, other = (card_png("t", Opening("A sentence.", number, "loss"), None) for number in ("1.5", "1.5", "2.5"))
    assert one == same != other


def test_long_texts_stay_in_their_column():
    first = Opening("word " * 80, "1234567890.1234567", "label " * 40)
    shown = pixels_of(card_png("title" * 60, first, None))
    assert (shown[:, 580:] == 255).all()
    assert (shown[:, :560] != 255).any()


@pytest.mark.parametrize("weight", ["normal", "bold"])
def test_letters_cover_what_they_should(weight):
    for size in (12, 40.5):
        bar = text_pixels("|", 4 * size, weight)
        assert bar.max() == 1
        assert bar.min() == 0
        ring = text_pixels("O", 4 * size, weight)
        rows, columns = np.nonzero(ring > 0.5)
        middle = ring[(rows.min() + rows.max()) // 2, (columns.min() + columns.max()) // 2]
        assert middle == 0, "the inside of a ring is empty"
    # Area grows with the square of the size: a letter is the same at any.
    assert text_pixels("R", 160, weight).sum() == pytest.approx(16 * text_pixels("R", 40, weight).sum(), rel=0.02)


def test_widths_add_up_and_unknown_letters_are_told():
    assert text_width("ab", 20) == pytest.approx(text_width("a", 20) + text_width("b", 20))
    np.testing.assert_array_equal(text_pixels("漢", 30), text_pixels("?", 30))
    assert text_pixels("a\u00a0b", 30).shape == text_pixels("a b", 30).shape


def test_lines_are_broken_between_words_and_cut_at_the_end():
    lines = wrapped("one two three four five six seven", 20, 100, most=3)
    assert len(lines) == 3
    assert all(text_width(line, 20) <= 100 for line in lines)
    assert lines[-1].endswith("…")
    assert fitting("short", 20, 1000) == "short"


def test_drawing_stays_inside_of_the_picture():
    pixels = np.full((20, 30, 3), 255.0)
    paint_text(pixels, "mm", (-10, -8), 20, "#000000")
    paint_line(pixels, [(-50.0, 5.0), (90.0, 5.0)], 2, "#ff0000")
    paint_disc(pixels, (29.0, 19.0), 6, "#0000ff")
    assert pixels.min() >= 0
    assert pixels.max() <= 255
    np.testing.assert_allclose(pixels[4, 15], [255, 0, 0])
    np.testing.assert_allclose(pixels[19, 29], [0, 0, 255])


def test_a_card_is_written_beside_its_page_which_names_it(tmp_path):
    path = write_page(tmp_path / "a b.html", small_report(), "https://example.org/x/")
    assert card_beside(path) == tmp_path / "a b.card.png"
    assert pixels_of(card_beside(path).read_bytes()).shape == (630, 1200, 3)
    assert 'content="https://example.org/x/a%20b.card.png"' in path.read_text("utf-8")
    with pytest.raises(InputError, match="expected where the page will be"):
        card_address(path, "example.org")
