"""The demo: data, networks, and a run on untrained ones (training takes longer than a test may)."""

import json
import re

import pytest
import torch

import transfuse
from transfuse.cli import main
from transfuse.demo import digits, running, training
from transfuse.demo.networks import NETWORKS


def test_the_digits_are_all_there():
    parts = {part: digits(part) for part in ("train", "test")}
    assert sum(len(labels) for _, labels in parts.values()) == 1797
    assert all(labels.unique().tolist() == list(range(10)) for _, labels in parts.values())
    assert abs(float(parts["train"][0].mean())) < 0.01


@pytest.mark.parametrize("kind", NETWORKS)
def test_every_hidden_unit_can_move(kind):
    model = NETWORKS[kind]()
    layout = transfuse.trace(model, digits("test")[0][:2])
    assert layout.movable(model.state_dict()) > 0.99


@pytest.mark.long
def test_a_run_writes_a_table_and_pages_and_the_next_one_remembers(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "EPOCHS", {"mlp": 2})
    for name in ("NETWORKS", "TITLES"):
        monkeypatch.setattr(running, name, {"mlp": getattr(running, name)["mlp"]})
    monkeypatch.setattr("transfuse.demo.pages.GRID", 3)
    monkeypatch.setattr("transfuse.demo.pages.POINTS", 3)
    before = torch.random.get_rng_state()
    assert main(["demo", "--folder", str(tmp_path / "out"), "--json"]) == 0
    assert torch.equal(torch.random.get_rng_state(), before)
    first = json.loads(capsys.readouterr().out)
    assert set(first["accuracy"]["mlp"]) == set(running.ROWS)
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()
    # The same row has the same number on each page: here an accuracy, there an error.
    page = (tmp_path / "out" / "mlp.html").read_text()
    row = next(line for line in page.splitlines() if f">{running.ROWS['ensemble']}<" in line)
    shown = [float(cell) for cell in re.findall(r">([\d.]+)<", row)]
    assert 100 - first["accuracy"]["mlp"]["ensemble"] == pytest.approx(shown[1], abs=0.06)  # three digits are shown
    assert sorted(path.name for path in (tmp_path / "out").glob("*.card.png")) == ["mlp.card.png", "report.card.png"]
    pages = {path: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    monkeypatch.setattr(running, "compare", None)  # would fail if it were called
    assert main(["demo", "--folder", str(tmp_path / "out"), "-q"]) == 0
    assert "auto, without any data" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in pages} == pages
