"""The page as a file: its parts in order, what it opens with, downloads, what is bold, what it may load."""

import base64
import csv
import hashlib
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pages import Page, small_report
from transfuse.report import Opening, page
from transfuse.report.citing import citation
from transfuse.report.contents import ResultRow, Results
from transfuse.report.first_lines import opening
from transfuse.report.tables import best_cells, result_table

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "src/transfuse/report/templates"


def read(address):
    """The rows of a table that a link offers."""
    text = base64.b64decode(address.removeprefix("data:text/csv;base64,")).decode()
    return list(csv.DictReader(io.StringIO(text)))


def downloads(report):
    return {
        attributes["download"]: read(attributes["href"])
        for attributes, _ in Page(page(report)).all("a")
        if "download" in attributes
    }


def test_the_picture_is_first_then_the_table():
    text = page(small_report())
    parts = [
        "<h1>",
        'class="sentence"',
        'class="number"',
        "<svg",
        'type="range"',
        "<h2>Results",
        "<table",
        "<h2>How to cite",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert len(Page(text).all("p", class_="number")) == 1


def test_the_first_lines_tell_the_result():
    report = small_report()
    first = opening(report.results, 2)
    error = {row.role: row.values["error"] for row in report.results.rows}
    assert float(first.number.removesuffix("\u00a0%")) == pytest.approx(error["fused"], rel=0.01)
    became, plain = first.sentence.split(". Their ")
    assert became == f"Two networks became one, with an error of {first.number}"
    assert plain == f"plain average has {dict(first.beside)['plain average']}."
    assert list(dict(first.beside)) == ["model 1", "model 2", "plain average", "ensemble"]
    assert opening(Results(), 12) == Opening("12 networks became one.")


def test_a_page_without_measures_opens_with_its_sentence():
    report = small_report()
    found = Page(page(replace(report, results=Results(notes=("Nothing was measured.",)))))
    assert [text for _, text in found.all("p", class_="sentence")] == ["Two networks became one."]
    assert not found.all("p", class_="number")
    assert not found.all("figure", class_="travel")


def test_downloads_hold_the_same_numbers_as_the_records_that_are_saved(tmp_path):
    report = small_report()
    files = downloads(report)
    for name, barrier in report.results.barriers.items():
        saved = json.loads(barrier.save(tmp_path / "barrier.json").read_text())
        rows = [row for row in files["transfuse-way-error.csv"] if row["segment"] == name]
        assert [float(row["position"]) for row in rows] == saved["positions"]
        for metric, values in saved["values"].items():
            assert [float(row[metric]) for row in rows] == values
    saved = json.loads(report.results.plane.save(tmp_path / "plane.json").read_text())
    grid = [row for row in files["transfuse-plane-error.csv"] if not row["mark"]]
    places = [[x, y] for y in saved["y"] for x in saved["x"]]
    assert [[float(row["x"]), float(row["y"])] for row in grid] == places
    for metric, values in saved["values"].items():
        assert [float(row[metric]) for row in grid] == [value for line in values for value in line]
    marks = [row for row in files["transfuse-plane-error.csv"] if row["mark"]]
    assert [row["mark"] for row in marks] == [mark["name"] for mark in saved["marks"]]
    assert [float(row["loss"]) for row in marks] == [mark["values"]["loss"] for mark in saved["marks"]]
    rows = files["transfuse-results.csv"]
    assert [float(row["loss"]) for row in rows] == [row.values["loss"] for row in report.results.rows]


def rows_of(**columns):
    count = len(next(iter(columns.values())))
    return Results(
        tuple(
            ResultRow(f"n{at}", "parent", 7, {name: each[at] for name, each in columns.items()}) for at in range(count)
        )
    )


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("loss", [0.3, 0.2, 0.4], {1}),
        ("error", [2.0, 2.0, 3.0], {0, 1}),
        ("test accuracy", [97.0, 98.0, 98.0], {1, 2}),
        ("top1", [0.5, 0.25, float("nan")], {0}),
        ("loss", [0.20001, 0.2, 0.3], {0, 1}),  # equal as they are shown
        ("loss", [float("inf"), float("nan"), float("inf")], set()),
        ("speed", [1.0, 2.0, 3.0], set()),  # nobody knows whether more is better
        ("accuracy loss", [1.0, 2.0, 3.0], set()),
    ],
)
def test_only_the_best_is_bold(metric, values, best):
    table = result_table(rows_of(**{metric: values}))
    assert table.best == {(row, 1) for row in best}
    assert len({row[-1] for row in table.rows}) == 1, "equal numbers of parameters are nobody's best"


def test_what_is_bold_on_the_page_is_what_is_best():
    report = small_report()
    table = result_table(report.results)
    text = page(report)
    lines = text[text.index("<h2>Results") : text.index("<h2>Barriers")].splitlines()
    cells = [re.findall(r'<td class="n">(.*?)</td>', line) for line in lines if '<th scope="row">' in line]
    bold = {
        (row, column + 1)
        for row, line in enumerate(cells)
        for column, cell in enumerate(line)
        if cell.startswith("<strong>")
    }
    assert bold == table.best
    assert 2 <= len(bold) < len(cells)
    css = (TEMPLATES / "page.css").read_text()
    assert re.search(r"th, td \{[^}]*font-weight: 400", css), "names of rows and columns are not bold"


def test_best_cells_follow_columns():
    assert best_cells([], []) == frozenset()
    assert best_cells(["acc", "ppl"], [["1.0", "2.0"], ["5", "5"]]) == {(1, 1), (0, 2), (1, 2)}


def test_the_page_loads_nothing_and_may_run_only_its_own_script():
    text = page(small_report())
    found = Page(text)
    for tag in ("link", "img", "iframe", "object", "form", "base"):
        assert not found.all(tag)
    addresses = [attributes["href"] for tag, attributes, _ in found.elements if "href" in attributes and tag != "a"]
    assert addresses
    assert all(each.startswith("data:image/png;base64,") for each in addresses)
    assert not [
        name
        for _, attributes, _ in found.elements
        for name in attributes
        if name in ("src", "style") or name.startswith("on")
    ]
    ((attributes, _),) = found.all("meta", http_equiv="Content-Security-Policy")
    rules = dict(rule.split(" ", 1) for rule in attributes["content"].split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in attributes["content"]
    for kind in ("style", "script"):
        contents = [inside for _, inside in found.all(kind)]
        hashes = [
            f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'" for inside in contents
        ]
        assert rules[f"{kind}-src"].split() == hashes
        assert not any(word in inside for inside in contents for word in ("@import", "url(", "eval(", "fetch("))
    assert "A &lt;small&gt; one &amp; only" in text
    for part in ("0.out", "is returned by the model", "seed=0", "torch 2", "converged", "midpoint", "model 2 aligned"):
        assert part in text


def test_previews_of_links_find_their_card():
    found = Page(page(small_report(), "https://example.org/report.card.png"))
    tags = {
        attributes.get("property") or attributes.get("name"): attributes.get("content")
        for attributes, _ in found.all("meta")
    }
    assert tags["og:image"] == tags["twitter:image"] == "https://example.org/report.card.png"
    assert tags["twitter:card"] == "summary_large_image"
    assert (tags["og:image:width"], tags["og:image:height"]) == ("1200", "630")
    assert tags["og:title"] == "A <small> one & only"
    assert tags["og:description"] == tags["description"] == opening(small_report().results, 2).sentence
    assert "og:image" not in page(small_report())


def test_how_to_cite_comes_from_the_file_that_others_read():
    source = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    paper = source["references"][0]
    cited = citation()
    assert source["title"] in cited.works[0][0]
    assert paper["title"] in cited.works[1][0]
    assert cited.works[1][1] == f"https://doi.org/{paper['doi']}"
    for author in paper["authors"]:
        assert author["family-names"] in cited.works[1][0]
        assert author["family-names"] in cited.bibtex
    found = Page(page(small_report()))
    assert cited.link == source["repository-code"]
    assert "transfuse" in [text for _, text in found.all("a", href=cited.link)], "a link to the project"
    assert [text for _, text in found.all("li")][-len(cited.works) :] == [
        f"{work} {link}".strip() for work, link in cited.works
    ]


def variables(text):
    return dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", text))


def luminance(colour):
    """Relative luminance as WCAG 2.2 defines it."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_every_text_has_the_contrast_of_wcag_aa(theme):
    charts, sheet = ((TEMPLATES / name).read_text() for name in ("charts.css", "page.css"))
    light = variables(charts) | variables(sheet[: sheet.index("@media")])
    dark = variables(sheet[sheet.index("prefers-color-scheme: dark") : sheet.index("* {")])
    printed = variables(sheet[sheet.index("@media print") :])
    colours = {"light": light, "dark": light | dark, "print": light | printed}[theme]
    for ground in ("paper", "panel"):
        for ink in ("ink", "soft", "accent", *(f"s{number}" for number in range(6))):
            bright, dim = sorted((luminance(colours[ink]), luminance(colours[ground])), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (theme, ink, ground)
