"""The verbs that measure: `barrier`, `plane`, `report`."""

import sys

import pytest
import torch
from torch import nn

import transfuse
from command_calls import AB, MODEL, call, works
from transfuse.cli import measuring


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


def test_the_curves_before_and_after_alignment_are_drawn_over_each_other_with_the_names_of_the_files(here, capsys):
    pytest.importorskip("matplotlib")
    data = (*AB, *MODEL, "--data", "in/data.safetensors", "--points", 3)
    told = works(capsys, "barrier", *data, "--align", "--plot", "both.svg")
    plain = works(capsys, "barrier", *data)
    assert told["as_trained"]["values"] == plain["values"]
    text = (here / "both.svg").read_text()
    for shown in ("as trained (barrier", "aligned (barrier", "<!-- a -->", "<!-- b -->"):
        assert shown in text


def test_a_metric_counts(here, capsys):
    data = (*AB, *MODEL, "--data", "in/data.safetensors", "--points", 3)
    told = works(capsys, "barrier", *data, "--metric", "accuracy")
    assert list(told["values"]) == ["accuracy", "loss", "error"]
    assert told["barrier"]["accuracy"] == pytest.approx(told["barrier"]["error"])  # how far it falls below the ends
    code, out, _ = call(capsys, "barrier", *data, "--metric", "error", "--at-most", -1)
    assert code == 1
    assert "error: the barrier is" in out
    code, _, err = call(capsys, "barrier", *data, "--metric", "f1")
    assert (code, "expected one of loss, error, accuracy" in err) == (2, True)
    code, _, err = call(capsys, "barrier", *AB, *MODEL, "--evaluate", "in/nets.py:share_of_ones", "--metric", "f1")
    assert (code, "--evaluate gives value; name one of them" in err) == (2, True)


@pytest.mark.parametrize("more", [(), ("--unlabeled", "in/unlabeled.npz")])
def test_units_are_matched_by_activations_of_the_data(here, capsys, more, monkeypatch):
    seen = []
    true_fuse = measuring.fuse
    monkeypatch.setattr(measuring, "fuse", lambda *a, **k: seen.append(k["data"]) or true_fuse(*a, **k))
    data = (*AB, *MODEL, "--data", "in/data.safetensors", "--points", 3, "--align", "--quiet", *more)
    works(capsys, "barrier", *data, "--method", "activation")
    works(capsys, "barrier", *data, "--terms", "both")
    inputs = transfuse.checkpoints.open_checkpoint("in/data.safetensors").tensors["inputs"]
    assert all(torch.equal(each, inputs) for each in seen)
    works(capsys, "barrier", *data[: -len(more) or None])  # by weights alone, unless other inputs are given
    assert seen[-1] is None


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
    assert "whose values then move a little" in plain["notes"][0]
    assert reset["notes"] == []
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
