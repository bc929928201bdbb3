"""The verb `compare`: checkpoints in, a folder of tables, figures and numbers out."""

import hashlib
import json
import shlex

import pytest
import torch

import transfuse
from command_calls import AB, EXAMPLE, MODEL, call, mlp, works
from transfuse.comparison import keeping

DATA = ("--data", "in/data.safetensors")
HOW = (*AB, "in/c.safetensors", "in/a.ckpt", "-o", "out", *MODEL, *DATA, "--points", 3)


@pytest.fixture
def no_figures(monkeypatch):
    monkeypatch.setattr(keeping, "find_spec", lambda name: None)  # they take most of the time


@pytest.mark.long
def test_groups_of_checkpoints_are_compared_and_told(here, capsys):
    told = works(
        capsys, "compare", *HOW, "--methods", "vanilla", "ot", "--unlabeled", "in/unlabeled.npz", "--planes", 2
    )
    assert [row[0] for row in told["rows"]] == [
        "models as trained (mean)", "better model", "vanilla", "ot", "one model, last layer refitted", "ensemble"
    ]  # fmt: skip
    assert {line["group"] for line in told["lines"]} == {
        "in/a.safetensors + in/b.safetensors",
        "in/c.safetensors + in/a.ckpt",
    }
    names = {each.name for each in (here / "out").iterdir()}
    assert names >= {"table.tex", "table.md", "table.csv", "barriers-loss.svg", "planes-loss.svg", "lines.jsonl"}
    found = json.loads((here / "out/comparison.json").read_text())
    digest = hashlib.sha256((here / "in/a.safetensors").read_bytes()).hexdigest()
    assert found["files"]["in/a.safetensors + in/b.safetensors"][0] == {"in/a.safetensors": digest}
    assert set(found["data_files"]) == {"in/data.safetensors", "in/unlabeled.npz"}


@pytest.mark.long
def test_the_command_in_the_folder_makes_it_again(here, capsys, no_figures):
    first = works(capsys, "compare", *HOW, "--methods", "vanilla", "ot:epsilon=0.5")
    said = json.loads((here / "out/comparison.json").read_text())["command"]
    (here / "out").rename(here / "before")
    again = works(capsys, *shlex.split(said)[1:])
    assert again["lines"] == first["lines"]
    assert again["rows"][3][0] == "ot:epsilon=0.5"


@pytest.mark.long
def test_values_are_those_of_the_library(here, capsys, no_figures):
    told = works(
        capsys, "compare", *AB, "-o", "out", *MODEL, *DATA, "--points", 3, "--methods", "ot", "--metric", "accuracy"
    )
    (line,) = [line for line in told["lines"] if line["row"] == "ot"]
    assert line["group"] == "a + b"
    assert next(iter(line["values"])) == "accuracy"
    data = transfuse.checkpoints.open_checkpoint("in/data.safetensors").tensors
    fused = transfuse.fuse([mlp(0), mlp(1)], EXAMPLE, method="ot").model
    with torch.no_grad():
        right = fused(data["inputs"]).argmax(1) == data["labels"]
    assert line["values"]["accuracy"] == pytest.approx(100 * float(right.float().mean()))


WRONG = {
    "odd": ((*AB, "in/c.safetensors"), "3 checkpoints make no groups of 2"),
    "one": ((*AB, "--group-size", 1), "no groups of 1"),
    "twice": ((*AB, *AB), "two groups hold the same checkpoints"),
    "method": ((*AB, "--methods", "otf"), "no method is called 'otf'"),
    "pairs": ((*AB, "--methods", "ot:epsilon"), "expected KEY=VALUE"),
    "metric": ((*AB, "--metric", "f1"), "--metric f1: expected one of loss, error, accuracy"),
}


@pytest.mark.parametrize(("given", "text"), WRONG.values(), ids=WRONG)
def test_mistakes_are_refused_and_nothing_is_written(here, capsys, given, text):
    code, _, err = call(capsys, "compare", *given, "-o", "out", *MODEL, *DATA)
    assert code == 2
    assert text in err
    assert not (here / "out").exists()


def test_a_folder_of_others_is_left_alone(here, capsys):
    (here / "out").mkdir()
    (here / "out/thesis.tex").write_text("mine")
    code, _, err = call(capsys, "compare", *HOW, "--methods", "vanilla")
    assert code == 2
    assert "is a folder of others" in err
