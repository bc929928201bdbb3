"""The site: every public name is on the page of names, and the built pages load nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import transfuse

ROOT = Path(__file__).parent.parent
LOADS = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\bsrc=\"?https?://|<link[^>]*stylesheet[^>]*https?://|<link[^>]*preconnect"
)


def test_every_public_name_is_on_the_page_of_names():
    shown = re.findall(r"^::: transfuse\.(\w+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(shown) == sorted(transfuse.__all__)


def test_every_page_has_its_place_in_the_site():
    listed = set(
        re.findall(r"[\w/-]+\.md\b", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:\n  -")[2])
    )
    own = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert listed == own | {"index.md"} | {path.name for path in ROOT.glob("*.md") if path.name != "README.md"}


@pytest.mark.long
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocstrings", reason="the site needs the extra docs")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", tmp_path], cwd=ROOT, check=True
    )
    pages = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert len(pages) > 30
    assert [path.name for path, text in pages.items() if LOADS.search(text) or "api.github.com" in text] == []
    assert [path.name for path in tmp_path.rglob("*.css") if re.search(r"url\(['\"]?https?:", path.read_text())] == []
    names = (tmp_path / "api.html").read_text(encoding="utf-8")
    assert [name for name in transfuse.__all__ if f'id="transfuse.{name}"' not in names] == []
    assert "assert torch.allclose(fused(x), net(x), atol=1e-5)" in re.sub(
        r"<.*?>", "", pages[tmp_path / "gallery.html"]
    )
