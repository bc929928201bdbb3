"""The journeys of new users, walked from end to end: each script ends in what it claims."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import transfuse

JOURNEYS = sorted((Path(__file__).parents[1] / "examples" / "journeys").glob("*.py"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(transfuse.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
TIME = 900  # seconds: more than ten times of what one takes on a core of its own


def test_there_are_journeys():
    assert {path.stem for path in JOURNEYS} >= {"researcher", "hugging_face", "shrink_and_grow"}


@pytest.mark.long
@pytest.mark.parametrize("path", JOURNEYS, ids=lambda path: path.stem)
def test_a_journey_ends_where_it_should(path, tmp_path):
    if path.stem == "hugging_face":
        pytest.importorskip("transformers")
    subprocess.run([sys.executable, str(path), str(tmp_path)], env=ENVIRONMENT, check=True, timeout=TIME)
