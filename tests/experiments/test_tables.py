"""Pages and figures are made of lines alone."""

import json
import re

import pytest
from experiments.figures import draw
from experiments.tables import all_lines, gain, page

ABOUT = {"family": "", "place": None, "base": [{"seed": 0, "trained": "x"}], "deviations": [], "notes": []}


def line(cell, row, group, value, **more):
    return {
        "profile": "cpu", "experiment": "table1", "cell": cell, "row": row, "group": group,
        "metrics": {"accuracy": value}, **ABOUT, **more,
    }  # fmt: skip


LINES = [
    line("MNIST MLPNet", "base", 0, 98.0, deviations=["training.epochs 10 instead of 20"]),
    line("MNIST MLPNet", "base", 1, 98.4),
    line("MNIST MLPNet", "wb", 0, 97.0, chosen={"epsilon": 0.01}),
    line("MNIST MLPNet", "wb", 1, 97.5, chosen={"epsilon": 0.01}),
    line("MNIST MLPNet", "auto", 0, 98.1),
    line("CIFAR-10 VGG11", "base", 0, 90.0, notes=["6 of 10 examples"]),
    line("CIFAR-10 VGG11", "wb", 0, 80.0) | {"error": "no way"},
]


def test_entries_have_mean_deviation_number_and_the_papers():
    text = page(LINES)
    assert "98.20 ± 0.28 (2)<br>paper 98.31 ± 0.02" in text
    assert "97.25 ± 0.35 (2)<br>paper 97.92 ± 0.12" in text
    assert "90.00 (1)<br>paper 90.14 ± 0.19" in text


def test_deviations_notes_choices_and_failures_are_told():
    text = page(LINES)
    assert "- **MNIST MLPNet**: training.epochs 10 instead of 20" in text
    assert "- **CIFAR-10 VGG11**: 6 of 10 examples" in text
    assert "- chosen for WB, MNIST MLPNet: epsilon 0.01 (2 x)" in text
    assert "- failed: CIFAR-10 VGG11, WB, group 0: no way" in text


def test_the_share_of_the_gap():
    numbers = {"base": (90.0, 0.0), "wb": (80.0, 0.0), "ot": (70.0, 0.0)}
    own = [line("x", "base", 0, 95.0), line("x", "auto", 0, 93.0)]
    assert gain(own, "x", "auto", numbers) == "80 %"
    assert gain(own[:1], "x", "auto", numbers) == ""


def test_without_lines_it_says_so(tmp_path):
    assert "There are no results yet" in page(all_lines(tmp_path))
    assert draw([], tmp_path) == []


def test_lines_of_no_experiment_are_counted():
    assert "1 lines belong to no experiment" in page([*LINES, line("nowhere", "base", 0, 1.0)])


def test_the_last_line_of_a_place_counts_and_a_failure_replaces_nothing(tmp_path):
    rows = [LINES[0], LINES[0] | {"metrics": {"accuracy": 50.0}}, LINES[0] | {"error": "no"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    assert [each["metrics"]["accuracy"] for each in all_lines(tmp_path)] == [50.0]


def test_tables_are_even():
    for row in re.findall(r"\n((?:\|.*\|\n)+)", page(LINES)):
        assert len({each.count(" | ") for each in row.strip().splitlines()}) == 1


def test_curves_are_drawn_the_same_every_time(tmp_path):
    pytest.importorskip("matplotlib")
    found = [
        line("2 MLPNet", row, group, 90.0 + group, place=place, family="MLPNet") | {"experiment": "many"}
        for row in ("base", "auto")
        for group in (0, 1)
        for place in (2, 4)
    ]
    (path,) = draw(found, tmp_path / "a")
    (again,) = draw(found, tmp_path / "b")
    assert path.name == "many-mlpnet-cpu.svg"
    assert path.read_bytes() == again.read_bytes()


def test_likeness_has_a_table_of_its_own():
    like = {"outputs": 0.25, "distance": 3.0, "ensemble": 97.0, "parents": [90.0, 80.0]}
    text = page([*LINES, line("MNIST MLPNet", "control", 0, 98.0, likeness=like)])
    assert "How like the parents' the answers are" in text
    assert "| one parent, last layer refitted, synthetic inputs | 0.25; 3.0; 97.0; 90.0, 80.0 |" in text
    assert "How like" not in page(LINES)


def test_families_that_stand_apart_have_tables_of_their_own():
    cells = ("MNIST MLPNet, halves", "MNIST MLPNet, one", "MNIST CNN, one")
    text = page([line(cell, "better", 0, 90.0, experiment="different") for cell in cells])
    assert text.index("### Disjoint halves of the classes") < text.index(
        "### One class is known to the first parent only"
    )
    assert "|  | MNIST MLPNet, one | MNIST CNN, one |" in text
