"""Bad input: one message that says what to do, and nothing is written."""

import os
import random
import sys

import numpy as np
import pytest
import safetensors.torch
import torch

from command_calls import AB, MODEL, Trap, call, mlp, written

BAD = {
    "missing file": ((*AB[:1], "in/z.safetensors", *MODEL), "in/z.safetensors does not exist"),
    "truncated": ((*AB[:1], "cut.safetensors", *MODEL), "is no whole safetensors file"),
    "corrupt": ((*AB[:1], "noise.safetensors", *MODEL), "is no whole safetensors file"),
    "a pickle with code": ((*AB[:1], "evil.pt", *MODEL), "transfuse never does that"),
    "no such factory": ((*AB, "--model", "in/nets.py:cnn"), "has no cnn; it has mlp"),
    "no such module": ((*AB, "--model", "nothing.here:net"), "cannot be imported (ModuleNotFoundError"),
    "no such file of code": ((*AB, "--model", "none.py:net"), "there is no file none.py"),
    "not a module": ((*AB, "--model", "in/nets.py:not_a_module"), "gives int; expected a class or function"),
    "a built-in name misspelt": ((*AB, "--model", "mplnet"), "did you mean mlpnet?"),
    "arguments that the factory has not": ((*AB, *MODEL, "--model-args", "depth=3"), "unexpected keyword argument"),
    "no architecture": (AB, "pass --model SPEC, or --layout FILE"),
    "no inputs": ((*AB, "--model", "in/nets.py:mlp"), "pass --input-shape"),
    "inputs of another shape": ((*AB, "--model", "in/nets.py:mlp", "--input-shape", "5"), "(2x5 and 12x8)"),
    "tensors of another model": (("in/other.safetensors", "in/b.safetensors", *MODEL), "missing: 3.weight"),
    "numbers that are none": (("nan.safetensors", "in/b.safetensors", *MODEL), "nan.safetensors: 3.bias"),
    "shapes of another model": (("in/a.safetensors", "bad.safetensors", *MODEL), "tensor 1.bias axis 0"),
    "a deeper model": (("in/a.safetensors", "deep.safetensors", *MODEL), "other depths are fused from Python"),
    "the same file twice": (("in/a.safetensors", "twin.safetensors", *MODEL), "are the same file"),
    "one alone": (("in/a.safetensors", *MODEL), "one checkpoint alone"),
    "more weights than models": ((*AB, *MODEL, "--weights", "1", "2", "3"), "3 weights for 2 models"),
    "weights below zero": ((*AB, *MODEL, "--weights", "1", "-2"), "expected non-negative"),
    "negative seed": ((*AB, *MODEL, "--seed", "-1"), "'-1' is no seed; expected a whole number from 0"),
    "unknown method": ((*AB, *MODEL, "--method", "rebasn"), "did you mean rebasin?"),
    "unknown option": ((*AB, *MODEL, "--option", "restart=3"), "no option is called 'restart'"),
    "an option without a value": ((*AB, *MODEL, "--option", "restarts"), "expected KEY=VALUE"),
    "two widths": ((*AB, *MODEL, "--target", "1.out=9", "--width", "1.5"), "pass one of them"),
    "a width and a budget": ((*AB, *MODEL, "--budget", "2x", "--width", "1.5"), "--width and --budget both say"),
    "no budget": ((*AB, *MODEL, "--budget", "much"), "'1.3x'"),
    "too small a budget": ((*AB, *MODEL, "--budget", "0.5x"), "for a narrower one pass"),
    "no factor": ((*AB, *MODEL, "--width", "-1.5"), "no factor of widths"),
    "neither width nor factor": ((*AB, *MODEL, "--target", "1.out=x"), "SPACE=WIDTH"),
    "unknown space": ((*AB, *MODEL, "--target", "2.out=9"), "no space is called '2.out'"),
    "unknown flag": ((*AB, *MODEL, "--fast"), "unrecognized arguments: --fast"),
    "a shape that is none": ((*AB, "--model", "in/nets.py:mlp", "--input-shape", "3,x"), "is no shape"),
    "a layout that is none": ((*AB, "--layout", "in/nets.py"), "layout"),
    "activations without data": ((*AB, *MODEL, "--terms", "both"), "pass inputs for that (--data)"),
    "an unknown correction": ((*AB, *MODEL, "--correct", "repare"), "expected auto, none"),
    "data and little memory": ((*AB, *MODEL, "--data", "in/unlabeled.npz", "--low-memory"), "works on tensors alone"),
    "an unknown ending": ((*AB, *MODEL, "-o", "ab.onnx"), "the ending says the format"),
    "a folder that is not there": ((*AB, *MODEL, "-o", "no/ab.pt"), "the folder no does not exist"),
    "an input as output": ((*AB, *MODEL, "-o", "in/a.safetensors", "--force"), "is one of the inputs"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_one_message_and_nothing_is_written(here, capsys, name):
    content = (here / "in/a.safetensors").read_bytes()
    (here / "cut.safetensors").write_bytes(content[:-9])
    (here / "noise.safetensors").write_bytes(random.Random(0).randbytes(500))
    torch.save({"w": Trap(here / "sprung")}, here / "evil.pt")
    os.link(here / "in/a.safetensors", here / "twin.safetensors")
    state = mlp(0).state_dict()
    safetensors.torch.save_file({**state, "1.weight": torch.ones(9, 12)}, here / "bad.safetensors")
    safetensors.torch.save_file({**state, "3.bias": torch.full((3,), torch.nan)}, here / "nan.safetensors")
    safetensors.torch.save_file({**state, "5.weight": torch.ones(3, 3)}, here / "deep.safetensors")
    before = written(here)
    arguments, message = BAD[name]
    out = () if "-o" in arguments else ("-o", "ab.safetensors")
    code, told, err = call(capsys, "fuse", *arguments, *out)
    assert code == 2
    assert message in err
    assert err.startswith("transfuse: ")
    assert "Traceback" not in err
    assert told == ""
    assert written(here) == before


def test_missing_and_unexpected_tensors_are_in_one_message(here, capsys):
    _, _, err = call(capsys, "fuse", "in/other.safetensors", "in/b.safetensors", "-o", "ab.pt", *MODEL)
    for text in ("missing: 1.bias", "missing: 3.weight", "missing: 3.bias", "unexpected: x"):
        assert text in err


def test_other_verbs_make_no_tracebacks_either(here, capsys):
    (here / "there.json").touch()
    inputs = np.load("in/unlabeled.npz")["inputs"]
    np.savez("short.npz", inputs=inputs, labels=np.zeros(39, int))
    np.savez("high.npz", inputs=inputs, labels=np.arange(40) % 4)
    before = written(here)
    cases = [
        (("barrier", *AB, *MODEL), "pass --data with labels"),
        (("barrier", *AB, *MODEL, "--data", "in/unlabeled.npz"), "has no `labels`"),
        (("barrier", *AB, *MODEL, "--data", "in/none.npz"), "there is no such file"),
        (("barrier", *AB, *MODEL, "--data", "in/a.safetensors"), "expected `inputs`"),
        (("barrier", *AB, *MODEL, "--data", "in/data.safetensors", "-o", "there.json"), "there.json exists"),
        (("barrier", *AB, *MODEL, "--data", "in/data.safetensors", "-o", "x.txt"), "expected .json or .npz"),
        (("barrier", *AB, *MODEL[:2], "--input-shape", "5", "--data", "in/data.safetensors"), "do not fit"),
        (("barrier", *AB, *MODEL, "--data", "in/data.safetensors", "--plot", "x.txt"), "expected .svg, .pdf, .png"),
        (("barrier", *AB, *MODEL[:2], "--data", "digits"), "the model cannot take inputs of shape 1,8,8"),
        (("barrier", *AB, *MODEL, "--data", "short.npz"), "40 inputs and 39 labels"),
        (("plane", *AB, "in/c.safetensors", *MODEL, "--data", "high.npz"), "from 0 to 3 for 3 outputs"),
        (("report", *AB, *MODEL, "--data", "high.npz", "-o", "x.html"), "from 0 to 3 for 3 outputs"),
        (("trace",), "pass --model"),
        (("methods", "none"), "no method is called"),
        (("inspect", "none"), "does not exist"),
        (("inspect", "in"), "holds no weights"),
        (("trace", "--model", "in"), "no config.json"),
        ((), "name a verb"),
    ]  # fmt: skip
    for arguments, message in cases:
        code, _, err = call(capsys, *arguments)
        assert code == 2, err
        assert message in err
    assert written(here) == before


def test_an_error_in_the_users_function_is_told(here, capsys):
    code, _, err = call(capsys, "barrier", *AB, *MODEL, "--evaluate", "in/nets.py:fails")
    assert code in (1, 2)
    assert "no" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("shtab", ("completion", "bash")),
        ("matplotlib", ("barrier", *AB, *MODEL, "--data", "in/data.safetensors", "--points", "3", "--plot", "b.svg")),
        ("transformers", ("trace", "--model", "hf")),
    ],
)
def test_an_absent_package_is_named_with_its_extra(here, capsys, monkeypatch, package, arguments):
    (here / "hf").mkdir()
    (here / "hf" / "config.json").write_text("{}")
    for name in [each for each in sys.modules if each.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = call(capsys, *arguments)
    assert code in (1, 2)
    assert "pip install 'transfuse[" in err
    assert written(here) == ["hf"]


def test_no_space_on_the_disk(here, capsys, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 9})())
    code, _, err = call(capsys, "fuse", *AB, "-o", "ab.pt", *MODEL)
    assert code == 2
    assert "make room" in err
    assert written(here) == []


def test_debug_shows_the_traceback(here, capsys):
    _, _, err = call(capsys, "inspect", "none", "--debug")
    assert "Traceback" in err
