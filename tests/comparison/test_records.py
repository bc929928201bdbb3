"""A comparison as a reader meets it: tables in several formats, figures, files that are read back."""

import csv
import io
import re
import sys
import types

import numpy as np
import pytest

from transfuse import Barrier, Comparison, InputError
from transfuse.comparison import Line, as_latex
from transfuse.report import Table

POSITIONS = np.array([0.0, 0.5, 1.0])


def barrier(top):
    return Barrier({"loss": np.array([1.0, top, 1.0]), "error": np.array([5.0, 10 * top, 5.0])}, POSITIONS)


def line(group, row, role, loss, top=None):
    values = {"loss": loss, "error": 10 * loss}
    return Line(f"{group}{row}", group, row, role, values, 1000, 1.5, "converged", top and barrier(top))


LINES = (
    line("one", "models as trained (mean)", "control", 1.0, 4.0),
    line("one", "a_b & c", "method", 1.5, 2.0),
    line("one", "auto", "method", 1.25, 1.5),
    line("one", "ensemble", "control", 0.5),
    line("two", "models as trained (mean)", "control", 2.0, 6.0),
    line("two", "a_b & c", "method", 2.5, 3.0),
    line("two", "auto", "method", 1.75, 2.5),
    line("two", "ensemble", "control", 0.75),
)
FOUND = Comparison(LINES, {"seed": 0}, ("A note.",))


def test_means_spreads_and_the_best_methods_but_no_control():
    table = FOUND.table()
    assert table.head == ["", "loss", "error, %", "barrier (loss)", "parameters", "seconds"]
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["auto"][0] == "1.5 ± 0.35"
    assert rows["models as trained (mean)"][2] == "4 ± 1.4"
    assert rows["ensemble"][2] == "-"
    best = {(table.rows[row][0], table.head[column]) for row, column in table.best}
    assert best == {("auto", "loss"), ("auto", "error, %"), ("auto", "barrier (loss)")}


@pytest.mark.long
def test_the_text_is_short_and_a_notebook_shows_a_table_and_a_picture():
    text = repr(FOUND)
    assert len(text) < 1000
    assert "1.5 ± 0.35*" in text
    assert "A note." in text
    html = FOUND._repr_html_()
    assert "<table>" in html
    assert "<b>1.5 ± 0.35</b>" in html
    assert "a_b &amp; c" in html
    assert "data:image/svg+xml;base64," in html


def test_curves_are_means_over_groups():
    pytest.importorskip("matplotlib")
    axes = FOUND.plot(metric="error").axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [5.0, 50.0, 5.0])
    assert [line.get_label().split(" (")[0] for line in axes.lines] == ["as trained", "a_b & c", "auto"]
    assert "from 10 to 20" in axes.lines[2].get_label()
    with pytest.raises(InputError, match="no plane was measured"):
        FOUND.plot_planes()


@pytest.mark.long
def test_what_is_saved_is_read_back(tmp_path):
    folder = FOUND.save(tmp_path / "deep" / "out")
    again = Comparison.load(folder)
    assert again.table() == FOUND.table()
    assert again.making == FOUND.making
    assert again.notes == FOUND.notes
    np.testing.assert_array_equal(again.barriers["auto"][1].of("error"), LINES[6].barrier.of("error"))
    rows = list(csv.DictReader(io.StringIO((folder / "lines.csv").read_text())))
    assert len(rows) == len(LINES)
    assert rows[6]["group"] == "two"
    assert float(rows[6]["barrier (loss)"]) == 1.5
    assert rows[3]["barrier (loss)"] == ""
    names = {each.name for each in folder.iterdir()}
    assert names >= {"table.md", "table.tex", "table.csv", "comparison.json", "barriers-loss.svg", "barriers-error.pdf"}
    with pytest.raises(InputError, match="cannot be read"):
        Comparison.load(tmp_path)
    (folder / "comparison.json").write_text('{"transfuse": "plane"}')
    with pytest.raises(InputError, match="does not hold a whole comparison"):
        Comparison.load(folder)


def test_numbers_that_json_lacks_come_back():
    odd = Line("k", "one", "auto", "method", {"loss": float("inf")}, 1, 0.0)
    assert Line.restored(odd.plain()).values == {"loss": float("inf")}
    Comparison((odd, odd)).table()


def latex_words(text):
    """The words of a LaTeX text: commands, escaped signs, braces, and runs of anything else."""
    return re.findall(r"\\[a-zA-Z]+|\\.|[{}&$%#_^~]|[^\\{}&$%#_^~]+", text, re.DOTALL)


@pytest.mark.parametrize("name", ["a_b & c", "50% {of} $x$ #1 ~ ^ \\ < > |", "1.5 × wide…"])
def test_latex_is_well_formed_whatever_names_hold(name):
    table = Table(["", "error, %"], [[name, "1 ± 2"], ["other", "3"]], best={(0, 1)})
    text = as_latex(table, caption=name)
    depth, environments, maths = 0, [], 0
    words = latex_words(text.split("\n", 1)[1])  # the first line is a comment
    assert "".join(words) == text.split("\n", 1)[1]
    for place, word in enumerate(words):
        depth += (word == "{") - (word == "}")
        assert depth >= 0
        maths += word == "$"
        assert word not in ("%", "#", "_", "^", "~"), text
        if word == "\\begin":
            environments.append(words[place + 2])
        elif word == "\\end":
            assert environments.pop() == words[place + 2]
    assert depth == 0
    assert environments == []
    assert maths % 2 == 0
    body = [row for row in text.splitlines() if row.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in body] == [1, 1, 1]
    assert text.isascii()
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert text.count(rule) == 1


def test_pandas_gets_a_row_for_each_line_or_is_told_to_be_missing(monkeypatch):
    given = {}
    fake = types.SimpleNamespace(DataFrame=lambda rows, columns: given.update(rows=rows, columns=columns))
    monkeypatch.setitem(sys.modules, "pandas", fake)
    FOUND.to_pandas()
    assert len(given["rows"]) == len(LINES)
    assert len(given["columns"]) == len(given["rows"][0])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        FOUND.to_pandas()
