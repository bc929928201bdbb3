"""Curves: cells stand where their amount or their training says, fusions get that amount, figures are drawn of them."""

import json

import pytest
from experiments.__main__ import main
from experiments.catalogue import EXPERIMENTS
from experiments.figures import AXES
from experiments.jobs import configuration
from experiments.profiles import PROFILES
from experiments.wide import CURVES, TRAINED


@pytest.mark.parametrize("experiment", CURVES)
def test_cells_stand_where_their_amount_says(experiment):
    for cell in EXPERIMENTS[experiment].cells:
        amounts = [each for each in vars(cell.amount).values() if each is not None]
        assert amounts == [cell.place]
        assert f"{cell.place:g} " in cell.title
    assert experiment in AXES


def test_networks_are_trained_as_long_as_their_place_says():
    trained = [PROFILES["cpu"].settings[cell.settings[0]].training.epochs for cell in TRAINED]
    assert trained == [cell.place for cell in TRAINED]
    assert "epochs" in AXES


def test_the_amount_is_part_of_the_configuration():
    one, other = CURVES["widths"][0], CURVES["widths"][2]
    configurations = [configuration(cell, "auto", "cpu", 0) for cell in (one, other)]
    assert [each["amount"]["width"] for each in configurations] == [1.0, 1.25]
    assert "amount" not in configuration(EXPERIMENTS["table1"].cells[0], "auto", "cpu", 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("experiment", "cells"),
    [("widths", ("CNN, 1 ", "CNN, 2 ")), ("images", ("CNN, 10 ", "CNN, 30 ")), ("synthetic", ("CNN, 100 ",))],
)
def test_a_curve_is_run_and_drawn(tmp_path, experiment, cells):
    places = ["--results", str(tmp_path / "results")]
    more = ["--seeds", "0", "--cache", str(tmp_path / "cache"), "--cells", *cells, "--rows", "base", "auto", "ensemble"]
    assert main(["run", experiment, *more, *places]) == 0
    path = tmp_path / "results" / f"{experiment}.smoke.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    assert not any("error" in line for line in lines)
    assert main(["figures", "--out", str(tmp_path / "figures"), *places]) == 0
    assert [each.name for each in (tmp_path / "figures").iterdir()] == [f"{experiment}-cifar-10-cnn-smoke.svg"]
    if experiment == "widths":  # as wide as both parents, the result is their mean
        likeness = {(line["place"], line["row"]): line["likeness"] for line in lines if line["row"] != "base"}
        assert likeness[2.0, "auto"]["outputs"] < 1e-6


def test_barriers_are_run_and_drawn_by_the_length_of_training(tmp_path):
    places = ["--results", str(tmp_path / "results")]
    more = ["--seeds", "0", "--cache", str(tmp_path / "cache"), "--cells", "CNN, 1 ", "CNN, 2 "]
    assert main(["run", "epochs", *more, *places]) == 0
    lines = [json.loads(text) for text in (tmp_path / "results" / "epochs.smoke.jsonl").read_text().splitlines()]
    between = [line for line in lines if "landscape" in line]
    assert {(line["place"], line["row"]) for line in between} == {
        (place, row) for place in (1, 2) for row in ("plane-rebasin", "plane-auto")
    }
    assert not any("plane" in line["landscape"] for line in between)
    assert main(["figures", "--out", str(tmp_path / "figures"), *places]) == 0
    (figure,) = (tmp_path / "figures").iterdir()
    drawn = figure.read_text()
    assert figure.name == "epochs-cifar-10-cnn-smoke.svg"
    assert all(text in drawn for text in ("as trained", "aligned by re-basin", "aligned by auto", "barrier, %"))
