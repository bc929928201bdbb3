"""A headless Chromium for tests of pages: the WebDriver protocol over plain HTTP, no package needed."""

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

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


class Window:
    """An open window; `get`, `run` and `picture` do what they say."""

    def __init__(self, address):
        self.address = address

    def call(self, verb, path, **body):
        data = json.dumps(body).encode() if verb == "POST" else None
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=verb)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def get(self, page):
        self.call("POST", "/url", url=Path(page).absolute().as_uri())

    def run(self, script, *args):
        return self.call("POST", "/execute/sync", script=script, args=list(args))

    def errors(self):
        """Messages of the console: errors of scripts, and of what could not be loaded."""
        entries = self.call("POST", "/se/log", type="browser")
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def devtools(self, command, **params):
        return self.call("POST", "/goog/cdp/execute", cmd=command, params=params)

    def picture(self, path):
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def point(self, x, y):
        """Move the pointer there."""
        move = {"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}
        pointer = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [move]}
        self.call("POST", "/actions", actions=[pointer])


@contextlib.contextmanager
def window(width, *, dark=False, script=True):
    """A window of a width, as a telephone or a screen has it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as profile:
        driver = subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            options = {
                "binary": BROWSER,
                "args": [*FLAGS, f"--user-data-dir={profile}/new"],
                "prefs": {} if script else {"profile.managed_default_content_settings.javascript": 2},
            }
            found = _session(Window(f"http://127.0.0.1:{port}"), options)
            found.devtools(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
            )
            theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            found.devtools("Emulation.setEmulatedMedia", features=theme)
            try:
                yield found
            finally:
                found.call("DELETE", "")
        finally:
            driver.terminate()
            driver.wait()


def _session(root, options):
    wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
    for _ in range(100):
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            if root.call("GET", "/status")["ready"]:
                break
        time.sleep(0.1)
    session = root.call("POST", "/session", capabilities={"alwaysMatch": wanted})["sessionId"]
    return Window(f"{root.address}/session/{session}")
