"""The verbs that measure: `barrier`, `plane`, `report`."""

import sys

import pytest
import torch
from torch import nn

import transfuse
from command_calls import AB, MODEL, call, works


def test_report(here, capsys):
    asked = ("report", *AB, "-o", "page.html", *MODEL, "--data", "in/data.safetensors")
    code, _, err = call(capsys, *asked, "--url", "example.org")
    assert (code, "expected where the page will be" in err) == (2, True)
    told = works(capsys, *asked, "--url", "https://example.org/here/page.html")
    assert told["files"] == ["page.html", "page.card.png"]
    assert 'content="https://example.org/here/page.card.png"' in (here / "page.html").read_text()
    (here / "page.html").unlink()
    code, _, err = call(capsys, *asked)
    assert code == 2
    assert "page.card.png" in err, "a card is not written over either"


def test_barrier_with_a_check(here, capsys):
    data = (*AB, *MODEL, "--data", "in/data.safetensors", "--points", 5)
    told = works(capsys, "barrier", *data, "-o", "barrier.json")
    assert told["barrier"]["error"] >= 0
    assert len(told["positions"]) == 5
    assert transfuse.Barrier.load("barrier.json").height("loss") == pytest.approx(told["barrier"]["loss"])
    aligned = works(capsys, "barrier", *data, "--align")
    assert aligned["values"]["loss"][-1] == pytest.approx(told["values"]["loss"][-1], rel=1e-4)
    assert aligned["values"]["loss"][0] == pytest.approx(told["values"]["loss"][0], rel=1e-4)
    assert call(capsys, "barrier", *data, "--at-most", -1)[0] == 1


def test_plane_with_a_function_and_a_picture(here, capsys):
    told = works(capsys, "plane", *AB, "in/c.safetensors", *MODEL, "--evaluate", "in/nets.py:share_of_ones",
                 "--grid", 3, "--plot", "plane.svg", "-o", "plane.npz")  # fmt: skip
    assert set(told["marks"]) >= {"a", "b", "c"}
    assert (here / "plane.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("verb", ["barrier", "plane"])
def test_statistics_of_batch_norm_are_computed_anew_if_wanted(here, capsys, verb):
    paths = [f"{name}.pt" for name in "abc"[: 2 if verb == "barrier" else 3]]
    for seed, path in enumerate(paths):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        torch.save(net.state_dict(), path)
    how = (*paths, "--model", "in/nets.py:normed", *(("--points", 3) if verb == "barrier" else ("--grid", 2)))
    data = ("--data", "in/data.safetensors", "--batch-size", 20)
    plain, reset = works(capsys, verb, *how, *data), works(capsys, verb, *how, *data, "--reset-batchnorm")
    assert plain["values"] != reset["values"]
    code, _, err = call(capsys, verb, *how, "--evaluate", "in/nets.py:share_of_ones", "--reset-batchnorm")
    assert code == 2
    assert "pass --data" in err


def test_workers_and_a_scheduler_are_one_or_the_other(here, capsys):
    how = (*AB, *MODEL, "--data", "in/data.safetensors", "--points", 3)
    code, _, err = call(capsys, "barrier", *how, "--workers", 2, "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2
    assert "give one of them" in err


def test_a_scheduler_without_dask_is_told_with_the_remedy(here, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    how = (*AB, *MODEL, "--data", "in/data.safetensors", "--points", 3)
    code, _, err = call(capsys, "barrier", *how, "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2
    assert "pip install 'transfuse[distributed]'" in err
