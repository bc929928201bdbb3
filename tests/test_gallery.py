"""The scripts of the gallery hold: each ends in an assertion, is shown on its page, and runs."""

import ast
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("*.py"))
LONG = {"different_classes", "different_seeds"}  # more than half a second of CPU each
PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "script", [pytest.param(each, marks=[pytest.mark.long] * (each.stem in LONG), id=each.stem) for each in SCRIPTS]
)
def test_a_script_of_the_gallery_runs_and_its_assertions_hold(script, capsys):
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out


def test_every_script_ends_in_an_assertion_and_is_on_the_page():
    assert len(SCRIPTS) >= 10
    assert [each.name for each in SCRIPTS if not isinstance(ast.parse(each.read_text()).body[-1], ast.Assert)] == []
    assert [each.name for each in SCRIPTS if f"[`{each.name}`](../examples/gallery/{each.name})" not in PAGE] == []
