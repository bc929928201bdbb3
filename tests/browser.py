"""A headless Chromium for tests of pages, driven by selenium through the chromedriver that is installed here.

Nothing is downloaded: selenium's manager of drivers is not asked, since browser and driver are given by their paths.
"""

import contextlib
import json
import shutil
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.actions.action_builder import ActionBuilder

DRIVER = shutil.which("chromedriver")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
MISSING = (
    None
    if DRIVER and BROWSER
    else "no Chromium with chromedriver here (Debian: apt-get install chromium chromium-driver)"
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
).split()


@contextlib.contextmanager
def window(width, *, dark=False, script=True, still=False):
    """A selenium driver of a window as wide as a telephone's (below 500 pixels) or a screen's, light or dark.

    With `still` its user wants less motion.
    """
    with tempfile.TemporaryDirectory() as profile:
        driver = webdriver.Chrome(_options(f"{profile}/new", script=script), Service(DRIVER))
        try:
            driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
            )
            wishes = {
                "prefers-color-scheme": "dark" if dark else "light",
                "prefers-reduced-motion": "reduce" if still else "no-preference",
            }
            features = [{"name": name, "value": value} for name, value in wishes.items()]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            yield driver
        finally:
            driver.quit()


def _options(profile, *, script):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    if not script:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    return options


def open_page(driver, page):
    """Open a file in the window."""
    driver.get(Path(page).absolute().as_uri())


def console_errors(driver):
    """Messages of the console: errors of scripts, and of what could not be loaded."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def requests_of(driver):
    """The addresses that pages asked for since the window was opened, but for what is inside of them."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    own = ("data:", "blob:", "chrome:", "chrome-untrusted:")  # the last two: a new window's own page
    return [each for each in asked if not each.startswith(own)]


def point_at(driver, x, y):
    """Move the pointer to a place of the window, in pixels."""
    actions = ActionBuilder(driver)
    actions.pointer_action.move_to_location(round(x), round(y))
    actions.perform()
