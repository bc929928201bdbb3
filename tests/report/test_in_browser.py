"""The page in a real browser: on a telephone and on a screen, light, dark and in print, with script and without."""

import re
import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from browser import MISSING, console_errors, open_page, point_at, requests_of, window
from pages import small_report
from transfuse.report import write_page
from transfuse.report.travel import journeys, step_names, step_values

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
SLIDER = "document.querySelector('.slider input')"
TOLD = "document.querySelector('.told').innerText.replace(/\\s+/g, ' ').trim()"


@pytest.fixture
def path(tmp_path):
    return write_page(tmp_path / "report.html", small_report())


def colour_of(opened, name):
    text = opened.execute_script(f"return getComputedStyle(document.body).{name}")
    return np.mean([int(part) for part in re.findall(r"\d+", text)[:3]])


@pytest.mark.parametrize(("width", "dark"), [(390, False), pytest.param(1280, True, marks=pytest.mark.long)])
def test_it_is_shown_without_errors_and_without_scrolling_sideways(path, width, dark):
    with window(width, dark=dark) as opened:
        open_page(opened, path)
        assert opened.execute_script("return innerWidth") == width
        assert opened.execute_script("return document.documentElement.scrollWidth") <= width
        assert (colour_of(opened, "backgroundColor") < colour_of(opened, "color")) == dark
        script = (
            "const map = document.querySelector('svg.plane'); map.scrollIntoView();"
            "const box = map.querySelectorAll('.cells rect')[7].getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]"
        )
        point_at(opened, *opened.execute_script(script))
        told = opened.execute_script("return document.querySelector('.pointed').textContent")
        assert told.startswith("loss ")
        assert told == opened.execute_script(
            "return document.querySelectorAll('.cells rect')[7].querySelector('title').textContent"
        )
        letters = opened.execute_script(
            "return Math.min(...[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height))"
        )
        assert letters >= 10  # pixels: readable on a telephone
        assert console_errors(opened) == []
        assert requests_of(opened) == [path.as_uri()]


@pytest.mark.long  # starts a browser
def test_the_slider_follows_the_keyboard_and_tells_what_was_measured(path):
    way = journeys({"a": small_report().results}, "error")["a"]
    texts = list(step_values(way, "\u00a0%").values())
    with window(1280) as opened:
        open_page(opened, path)
        slider = opened.find_element("css selector", ".slider input")
        slider.send_keys("\ue011")  # Home
        for step, name in enumerate(step_names(way)):
            told = opened.execute_script(f"return {TOLD}").replace("\u00a0", " ")
            assert told.startswith(name)
            assert [text[step].replace("\u00a0", " ") in told for text in texts] == [True, True]
            assert opened.execute_script(f"return {SLIDER}.getAttribute('aria-valuetext')") == opened.execute_script(
                f"return {TOLD}"
            )
            place = opened.execute_script(
                "return document.querySelector('.chart .traveller').getAttribute('transform')"
            )
            steps = opened.execute_script("return document.querySelector('.chart .traveller').dataset.steps").split()
            assert place == f"translate({' '.join(f'{float(part):g}' for part in steps[step].split(','))})"
            slider.send_keys("\ue014")  # arrow right
        assert not opened.execute_script("return document.querySelector('.loop input').checked"), (
            "a touch stops the loop"
        )


@pytest.mark.long  # starts a browser
def test_pictures_are_saved_whole_from_a_file_without_a_network(path, tmp_path):
    with window(1280, dark=True) as opened:
        opened.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
        open_page(opened, path)
        for button in opened.find_elements("css selector", ".travel:first-of-type .tools > *"):
            button.click()
        names = [f"transfuse-{part}-error.{kind}" for part in ("plane", "way") for kind in ("csv", "svg", "png")]
        deadline = time.monotonic() + 20  # seconds: a loaded machine is slow to save
        while time.monotonic() < deadline and not all((tmp_path / name).exists() for name in names):
            time.sleep(0.1)
        assert console_errors(opened) == []
        assert requests_of(opened) == [path.as_uri()]
    drawing = ET.parse(tmp_path / "transfuse-plane-error.svg").getroot()
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert "#0072b2" in drawing.find("{http://www.w3.org/2000/svg}style").text, (
        "in light colours, though the page is dark"
    )
    image = (tmp_path / "transfuse-way-error.png").read_bytes()
    assert int.from_bytes(image[16:20], "big") == 4 * (380 + 24)
    assert len(image) > 10_000, "curves are on it"
    assert len((tmp_path / "transfuse-way-error.csv").read_text().splitlines()) == 1 + 2 * 5


@pytest.mark.long  # starts a browser
def test_without_script_everything_is_there_and_moves(path):
    with window(390, script=False) as opened:
        open_page(opened, path)
        text = opened.find_element("css selector", "body").text
        for part in ("became one", "Results", "Barriers", "fused", "ensemble", "half-way", "How to cite"):
            assert part in text
        point = opened.find_element("css selector", ".chart .traveller")
        seen = {point.rect["x"] for _ in range(5) if not time.sleep(0.3)}
        assert len(seen) > 1, "the style sheet moves it"
        assert not opened.find_element("css selector", ".slider").is_displayed()
        assert not opened.find_element("css selector", "button[data-save]").is_displayed()
        opened.find_element("css selector", ".loop input").click()
        time.sleep(0.2)
        assert len({point.rect["x"] for _ in range(3) if not time.sleep(0.3)}) == 1, "and stops when it is told so"
        assert len(opened.print_page()) > 1000
        assert console_errors(opened) == []


@pytest.mark.long  # starts a browser
def test_who_wants_less_motion_gets_none_and_print_shows_the_middle(path):
    with window(1280, still=True) as opened:
        open_page(opened, path)
        assert not opened.execute_script("return document.querySelector('.loop input').checked")
        places = {opened.execute_script(f"return {SLIDER}.value") for _ in range(3) if not time.sleep(0.4)}
        assert places == {"2"}
        opened.execute_script("dispatchEvent(new Event('beforeprint'))")
        assert opened.execute_script(f"return {TOLD}").startswith("half-way")
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert not opened.find_element("css selector", ".controls").is_displayed()
        assert not opened.find_element("css selector", ".tools").is_displayed()
