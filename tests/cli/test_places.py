"""Outputs never go onto inputs, and --force removes nothing but what was written for the same output."""

import json
import os

import pytest
import safetensors.torch
import torch

from command_calls import AB, MODEL, call, mlp, works, written
from transfuse.checkpoints import open_checkpoint

SHARDED = "s.safetensors.index.json"
DATA = ("--data", "in/data.safetensors")


@pytest.fixture
def inputs(here):
    """Copies of the inputs that may be harmed, also as shards with an index, and a configuration."""
    for name in ("a.safetensors", "b.safetensors", "data.safetensors", "nets.py", "layout.yaml"):
        (here / name).write_bytes((here / "in" / name).read_bytes())
    state = mlp(2).state_dict()
    homes = {name: f"s-{number}.safetensors" for number, name in enumerate(state)}
    for name, file in homes.items():
        safetensors.torch.save_file({name: state[name]}, here / file)
    (here / SHARDED).write_text(json.dumps({"weight_map": homes}))
    (here / "merge.yml").write_text("models: [a.safetensors, b.safetensors]\nlayout: layout.yaml\nout_path: merge.yml")
    (here / "example.safetensors").write_bytes(safetensors.torch.save({"inputs": torch.randn(2, 3, 4)}))
    return {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()}


OWN = ("--model", "nets.py:mlp", "--input-shape", "3,4")
ONTO_INPUTS = {
    "a checkpoint": ("fuse", "a.safetensors", "b.safetensors", *OWN, "-o", "a.safetensors"),
    "a shard": ("fuse", "a.safetensors", SHARDED, *OWN, "-o", "s-1.safetensors"),
    "an index": ("fuse", "a.safetensors", SHARDED, *OWN, "-o", SHARDED),
    "the reference": ("align", "a.safetensors", "--to", SHARDED, *OWN, "-o", "s-2.safetensors"),
    "data": ("fuse", *AB, *OWN, "--data", "data.safetensors", "-o", "data.safetensors"),
    "example inputs": ("fuse", *AB, "--model", "nets.py:mlp", "--example-inputs", "example.safetensors",
                       "-o", "example.safetensors"),
    "code by --report": ("fuse", *AB, *OWN, "-o", "ab.pt", "--report", "nets.py"),
    "a layout by --report": ("fuse", *AB, "--layout", "layout.yaml", "-o", "ab.pt", "--report", "layout.yaml"),
    "a checkpoint by report": ("report", "a.safetensors", "b.safetensors", *OWN, *DATA, "-o", "a.safetensors"),
    "code by report": ("report", "a.safetensors", "b.safetensors", *OWN, *DATA, "-o", "nets.py"),
    "code of --evaluate": ("barrier", *AB, *OWN, "--evaluate", "nets.py:share_of_ones", "--cache", "nets.py"),
    "a checkpoint by --cache": ("barrier", "a.safetensors", "b.safetensors", *OWN, *DATA, "--cache", "a.safetensors"),
    "a checkpoint by trace": ("trace", *OWN, "--checkpoint", "a.safetensors", "-o", "a.safetensors"),
    "a layout by trace": ("trace", *OWN, "--layout", "layout.yaml", "-o", "layout.yaml"),
    "a configuration": ("run", "merge.yml"),
}  # fmt: skip


@pytest.mark.parametrize("case", ONTO_INPUTS)
def test_an_input_is_not_written_over_even_with_force(here, inputs, capsys, case):
    force = [] if ONTO_INPUTS[case][-2] == "--cache" else ["--force"]
    code, _, err = call(capsys, *ONTO_INPUTS[case], *force)
    assert code == 2, err
    assert "is one of the inputs" in err or "file of code" in err
    assert {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()} == inputs


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_an_input_by_another_name_is_still_one(here, inputs, capsys, link):
    link("a.safetensors", "alias.safetensors")
    code, _, err = call(capsys, "fuse", "a.safetensors", "b.safetensors", *OWN, "-o", "alias.safetensors", "--force")
    assert (code, "is one of the inputs" in err) == (2, True)


def test_two_outputs_are_two_files(here, capsys):
    code, _, err = call(capsys, "fuse", *AB, *MODEL, "-o", "ab.pt", "--report", "./ab.pt")
    assert (code, "named for two outputs" in err) == (2, True)


def test_a_device_is_no_place_for_a_result(here, capsys):
    os.mkfifo("pipe")
    code, _, err = call(capsys, "trace", *MODEL, "-o", "pipe", "--force")
    assert (code, "device, pipe or socket" in err) == (2, True)


def test_force_over_an_index_removes_no_file_of_others(here, inputs, capsys):
    index = json.loads(inputs[SHARDED])
    index["weight_map"] |= {"x": "a.safetensors", "y": "nets.py", "z": "layout.yaml"}
    (here / "out.safetensors.index.json").write_text(json.dumps(index))
    before = {**inputs}
    works(capsys, "fuse", *AB, *MODEL, "-o", "out.safetensors.index.json", "--force", "--correct", "none")
    assert {name: (here / name).read_bytes() for name in before} == before
    assert len(open_checkpoint("out.safetensors.index.json").tensors) == 4


def test_force_over_an_index_removes_the_shards_that_were_written_for_it(here, capsys):
    how = (*MODEL, "-o", "ab.safetensors.index.json", "--force", "--correct", "none", "--shard-size", "200")
    works(capsys, "fuse", *AB, *how)
    first = set(written(here))
    (here / "ab-00000000-00001-of-00001.safetensors").write_bytes((here / "in/a.safetensors").read_bytes())
    works(capsys, "fuse", *AB, *how, "--weights", "2", "1")
    second = set(written(here))
    assert first & second == {"README.md", "ab.safetensors.index.json"}
    assert "ab-00000000-00001-of-00001.safetensors" in second, "it was not written by transfuse"


def test_a_shard_of_the_output_is_an_input_like_any_other(here, capsys):
    how = (*MODEL, "-o", "ab.safetensors.index.json", "--force", "--correct", "none")
    works(capsys, "fuse", *AB, *how)
    (shard,) = here.glob("ab-*.safetensors")
    code, _, err = call(capsys, "fuse", "in/c.safetensors", shard, *how)
    assert (code, "is one of the inputs" in err) == (2, True)
    assert shard.exists()


def folder(path, state):
    path.mkdir()
    (path / "config.json").write_text("{}")
    safetensors.torch.save_file(state, path / "model.safetensors")


def test_a_folder_of_others_is_not_replaced_and_what_they_add_to_ours_stays(here, capsys):
    for number, name in enumerate("ab"):
        folder(here / name, mlp(number).state_dict())
    folder(here / "mine", mlp(3).state_dict())
    how = ("fuse", "a", "b", "--layout", "in/layout.yaml", "--force", "-o")
    code, _, err = call(capsys, *how, "mine")
    assert (code, "was not written by transfuse" in err) == (2, True)
    code, _, err = call(capsys, *how, ".")
    assert (code, "is one of the inputs" in err) == (2, True)
    works(capsys, *how, "ab")
    (here / "ab" / "notes").mkdir()
    (here / "ab" / "notes" / "mine.txt").write_text("mine")
    works(capsys, *how, "ab", "--shard-size", "200")
    assert (here / "ab" / "notes" / "mine.txt").read_text() == "mine"
    assert not (here / "ab" / "model.safetensors").exists(), "the weights of before"
    assert len(open_checkpoint("ab").tensors) == 4
