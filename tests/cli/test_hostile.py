"""Hostile or careless files, names and code: one message, standard output for the result alone, nothing that hangs."""

import errno
import json
import os
import re
import zipfile

import pytest
import safetensors.torch
import torch

from command_calls import AB, MODEL, call, mlp, written

LOUD = """
import sys
from command_calls import mlp as network
print("imported")

def loud():
    print("built")
    return network(0)

def quits():
    sys.exit(0)

def quits_when_run():
    model = network(0)
    model.register_forward_pre_hook(lambda *args: sys.exit(0))
    return model

def quits_measuring(model):
    sys.exit("enough")

def no_number(model):
    print("measured")
    return {"a": float("nan"), "b": float("inf")}
"""


def test_prints_of_the_users_code_and_numbers_that_are_none_leave_the_json_valid(here, capsys):
    (here / "loud.py").write_text(LOUD)
    how = ("--model", "loud.py:loud", "--input-shape", "3,4", "--evaluate", "loud.py:no_number", "--points", "3")
    code, out, err = call(capsys, "barrier", *AB, *how, "--json", "-o", "barrier.json")
    assert code == 0, err
    json.loads((here / "barrier.json").read_text(), parse_constant=pytest.fail)
    assert json.loads(out, parse_constant=pytest.fail)["barrier"] == {"a": None, "b": None}
    assert "imported\nbuilt" in err
    assert "measured" in err
    _, out, _ = call(capsys, "trace", *how[:4])
    assert out.startswith("spaces:")


@pytest.mark.parametrize(
    ("model", "evaluate", "message"),
    [("quits", "no_number", "SystemExit: 0, in loud.py, line 11"), ("loud", "quits_measuring", "SystemExit: enough"),
     ("quits_when_run", "no_number", "sys.exit(0)")],
)  # fmt: skip
def test_code_that_ends_the_program_is_an_error(here, capsys, model, evaluate, message):
    (here / "loud.py").write_text(LOUD)
    how = ("--model", f"loud.py:{model}", "--input-shape", "3,4", "--evaluate", f"loud.py:{evaluate}")
    code, _, err = call(capsys, "report", *AB, *how, "-o", "report.html")
    assert code in (1, 2)
    assert message in err
    assert not (here / "report.html").exists()


@pytest.mark.parametrize("ending", ["safetensors", "pt", "safetensors.index.json"])
def test_numbers_that_the_type_cannot_hold_are_refused(here, capsys, ending):
    for number, name in enumerate("ab"):
        state = mlp(number).state_dict()
        safetensors.torch.save_file({**state, "3.bias": torch.full((3,), 7e4)}, here / f"{name}.safetensors")
    how = ("a.safetensors", "b.safetensors", *MODEL, "--correct", "none", "-o", f"ab.{ending}", "--report", "ab.html")
    code, _, err = call(capsys, "fuse", *how, "--dtype", "float16")
    assert code == 2
    assert re.search(r"3\.bias .* 7e\+04, but (torch\.)?float16 ends at 6\.55e\+04", err)
    assert written(here) == ["a.safetensors", "b.safetensors"]
    code, _, err = call(capsys, "fuse", *how[:-2], "--dtype", "bfloat16")
    assert code == 0, err


def test_a_report_that_fails_is_told_as_that(here, capsys, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("transfuse.report.writing.write_whole", full)
    code, _, err = call(capsys, "fuse", *AB, *MODEL, "--correct", "none", "-o", "ab.pt", "--report", "ab.html")
    assert code == 1
    assert "the checkpoint ab.pt is written and whole; the report is not" in err
    assert written(here) == ["README.md", "ab.pt"]


def test_no_name_reaches_the_terminal_as_a_command(here, capsys):
    name = "w\x1b[2J\r\nforged: line"
    safetensors.torch.save_file({name: torch.ones(2)}, "a\x1b[31m.safetensors")
    code, out, _ = call(capsys, "inspect", "a\x1b[31m.safetensors")
    assert code == 0
    assert out.replace("\n", "").isprintable()
    assert "w\\x1b[2J\\r\\nforged: line  [2]" in out
    code, _, err = call(capsys, "fuse", "a\x1b[31m.safetensors", *AB[1:], *MODEL, "-o", "ab.pt")
    assert code == 2
    assert err.replace("\n", "").isprintable()
    assert not any(line.startswith("forged") for line in err.splitlines())


@pytest.mark.parametrize("path", ["/dev/zero", "pipe"])
def test_what_never_ends_is_refused_at_once(here, capsys, path):
    os.mkfifo("pipe")
    for arguments in (
        ("run", path), ("inspect", path), ("fuse", AB[0], path, *MODEL, "-o", "ab.pt"),
        ("fuse", *AB, "--layout", path, "-o", "ab.pt"), ("fuse", *AB, *MODEL, "--data", path, "-o", "ab.pt"),
        ("trace", "--model", "in/nets.py:mlp", "--example-inputs", path), ("trace", "--model", f"{path}.py:net"),
    ):  # fmt: skip
        code, _, err = call(capsys, *arguments)
        assert code == 2
        assert "device, pipe or socket" in err or "there is no file" in err


def test_data_that_unpack_without_end_are_refused(here, capsys):
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, \
            archive.open("inputs.npy", "w", force_zip64=True) as file:  # fmt: skip
        for _ in range(11):
            file.write(bytes(10**8))
    code, _, err = call(capsys, "fuse", *AB, *MODEL, "--data", "bomb.npz", "-o", "ab.pt")
    assert code == 2
    assert "would become 1.10 GB in memory" in err


def test_a_configuration_with_paths_that_are_none_is_refused(here, capsys):
    for text in (
        'models: [a, "b\\0c"]\nmodel: mlpnet\nout_path: c.pt',
        "models: &a [*a]",
        "[" * 3000,
        "models: 2001-99-99",
    ):
        (here / "merge.yml").write_text(text)
        code, _, err = call(capsys, "run", "merge.yml")
        assert code == 2, err
        assert "not foreseen" not in err
