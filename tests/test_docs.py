"""The README and the docs hold: Python blocks run and print what they say, links lead to files, rooms are the rooms."""

import ast
import io
import re
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch

from test_rooms import FLOORS, SOURCE, TOP

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n+```text\n(?P<printed>.*?)```)?", re.DOTALL)
TUTORIAL = ROOT / "docs" / "tutorial.md"  # its blocks are one program
BLOCKS = [
    pytest.param(match["code"], match["printed"], id=f"{path.relative_to(ROOT)}-{number}")
    for path in PAGES
    if path != TUTORIAL
    for number, match in enumerate(BLOCK.finditer(path.read_text(encoding="utf-8")))
]
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\((?P<path>[^)#\s]*)(?:#(?P<heading>[^)\s]*))?\)")


@pytest.mark.parametrize(("code", "printed"), BLOCKS)
def test_a_block_of_the_documentation_runs_and_prints_what_it_says(code, printed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    torch.manual_seed(0)
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(code, "block", "exec"), {"__name__": "__main__"})
    assert printed is None or out.getvalue().strip() == printed.strip()


@pytest.mark.long
def test_the_blocks_of_the_tutorial_are_one_program(tmp_path, monkeypatch):
    blocks = list(BLOCK.finditer(TUTORIAL.read_text(encoding="utf-8")))
    code, printed = ("".join(each[part] or "" for each in blocks) for part in ("code", "printed"))
    test_a_block_of_the_documentation_runs_and_prints_what_it_says(code, printed, tmp_path, monkeypatch)


def headings(path):
    """The headings of a page as links name them: lower case, dashes for blanks, no other signs."""
    found = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page):
    links = [link for link in LINK.finditer(page.read_text(encoding="utf-8")) if ":" not in link["path"]]
    places = [(link[0], page.parent / link["path"] if link["path"] else page, link["heading"]) for link in links]
    assert [told for told, path, _ in places if not path.exists()] == []
    assert [told for told, path, heading in places if heading and heading not in headings(path)] == []


def test_every_page_is_linked_from_another():
    linked = {
        (page.parent / link["path"]).resolve()
        for page in PAGES
        for link in LINK.finditer(page.read_text(encoding="utf-8"))
        if link["path"] and ":" not in link["path"]
    }
    assert [page.name for page in PAGES if page.name != "README.md" and page.resolve() not in linked] == []


def test_design_lists_the_rooms_floor_by_floor():
    table = re.findall(r"^\| (\d*) ?\| (`.*?`) \|", DESIGN.partition("## The way through")[0], re.MULTILINE)
    floors: list[set[str]] = []
    for floor, rooms in table:
        if floor:
            assert int(floor) == len(floors)
            floors.append(set())
        floors[-1] |= {room.removesuffix("/").removesuffix(".py") for room in re.findall(r"`(.*?)`", rooms)}
    assert floors == [set(rooms) for rooms in FLOORS if rooms != (TOP,)]


PLACES = re.findall(r"`((?:\w+/)+\w*(?:\.\w+)?|\w+\.py)`", (ROOT / "docs" / "changing.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("place", sorted(set(PLACES)))
def test_files_to_change_exist(place):
    assert any((folder / place).exists() for folder in (ROOT, ROOT / "src" / "transfuse", ROOT / "tests" / "cli",
                                                        ROOT / "tests" / "corrections"))  # fmt: skip


FUNCTIONS = re.findall(r"`((?:\w+/)+\w+)\.([A-Za-z_]+)", DESIGN.partition("## The way through")[2])


@pytest.mark.parametrize(("file", "name"), sorted(set(FUNCTIONS)))
def test_functions_on_the_way_through_the_house_exist(file, name):
    source = (ROOT / "src" / "transfuse" / f"{file}.py").read_text(encoding="utf-8")
    assert re.search(rf"^(def|class) {name}\b|^{name}\b.* = ", source, re.MULTILINE)


def name_of(node):
    """The last name of what is called or decorates: `dataclass` of `dataclass(frozen=True)`, `of` of `Family.of`."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def built_once(sources):
    """The dataclasses in some sources, by file, that exactly one call builds, in any of them: `{(file, name)}`."""
    nodes = [(file, node) for file, source in sources.items() for node in ast.walk(ast.parse(source))]
    calls = Counter(name_of(node) for _, node in nodes if isinstance(node, ast.Call))
    records = [(file, node) for file, node in nodes if isinstance(node, ast.ClassDef)
               and "dataclass" in map(name_of, node.decorator_list)]  # fmt: skip
    return {(file, node.name) for file, node in records if calls[node.name] == 1}


def test_only_dataclasses_that_one_call_builds_are_built_once():
    records = "@dataclass(frozen=True)\nclass Once: ...\n@dataclass\nclass Twice: ...\n@dataclass\nclass Never: ..."
    calls = "class Other: ...\nfound = [Once(), Twice(), records.Twice(), Other()]"
    assert built_once({"a.py": records, "b.py": calls}) == {("a.py", "Once")}


def test_notes_say_why_each_record_that_is_built_in_one_place_stays():
    package = SOURCE / TOP
    found = built_once({str(file.relative_to(package)): file.read_text("utf-8") for file in package.rglob("*.py")})
    page = (ROOT / "docs" / "notes" / "house.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([\w/]+\.py)` \| `(\w+)` \| \S", page, re.MULTILINE))
    assert sorted(found - listed) == [], "pass the values instead, or say in docs/notes/house.md why the record stays"
    assert sorted(listed - found) == [], (
        "take these rows out of docs/notes/house.md: the records are gone, or built in several places"
    )


REFERENCE = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]  # notes tell of earlier versions
RESULTS = (ROOT / "RESULTS.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.name)
def test_figures_with_a_deviation_are_those_of_the_results(page):
    """A figure with fewer digits must be what a figure of the results is rounded to, half a digit more or less."""
    known = [tuple(map(float, each)) for each in re.findall(r"([\d.]+) ± ([\d.]+)", RESULTS)]
    told = re.findall(r"([\d.]+\d) ± ([\d.]*\d)", page.read_text(encoding="utf-8"))
    strange = []
    for mean, spread in told:
        close = 0.5001 * 10.0 ** -len(mean.partition(".")[2]) + 0.005
        if not any(abs(float(mean) - a) <= close and abs(float(spread) - b) <= close for a, b in known):
            strange.append(f"{mean} ± {spread}")
    assert strange == []
