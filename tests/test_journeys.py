"""The journeys of new users, walked from end to end: each script ends in what it claims, and tells how long it took.

Notebook, package and federation are journeys, too, with tests of their own; the page of journeys names all seven.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import transfuse

ROOT = Path(__file__).parents[1]
JOURNEYS = sorted((ROOT / "examples" / "journeys").glob("*.py"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(transfuse.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
TIME = 900  # seconds: more than ten times of what one takes on a core of its own


def test_all_seven_journeys_are_on_their_page_with_the_time_that_each_takes():
    page = (ROOT / "docs" / "journeys.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .*?\]\(\.\./(\S+?)\).*\| ([\d.]+) \|$", page, re.MULTILINE)
    told = [path for path, _ in rows]
    assert len(told) == 7
    assert [path for path in told if not (ROOT / path).exists()] == []
    assert {f"examples/journeys/{path.name}" for path in JOURNEYS} <= set(told)
    assert all(0 < float(seconds) < TIME for _, seconds in rows)


@pytest.mark.long
@pytest.mark.parametrize("path", JOURNEYS, ids=lambda path: path.stem)
def test_a_journey_ends_where_it_should_and_tells_its_time(path, tmp_path):
    if path.stem == "hugging_face":
        pytest.importorskip("transformers")
    command = [sys.executable, str(path), str(tmp_path)]
    done = subprocess.run(command, env=ENVIRONMENT, check=True, timeout=TIME, stdout=subprocess.PIPE, text=True)
    seconds = re.findall(r"([\d.]+) s\b", done.stdout.splitlines()[-1])
    assert seconds, f"the last line tells the time: {done.stdout[-500:]}"
    print(f"{path.stem}: {seconds[-1]} s")
