"""Formats of several files: shards, folders, archives; and one that is added to the table."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from checkpoint_states import MADE, plain, same, write
from transfuse import InputError
from transfuse.checkpoints import (
    FORMATS,
    Checkpoint,
    Format,
    Output,
    open_checkpoint,
    write_checkpoint,
)


def test_shards_come_through_and_old_ones_go(tmp_path):
    tensors = {f"t{i}": torch.full((10,), float(i)) for i in range(7)}
    out = tmp_path / "m.safetensors.index.json"
    write(out, tensors, shard_bytes=100)
    checkpoint = open_checkpoint(out)
    assert checkpoint.kind == "sharded"
    assert len(checkpoint.files) == 4
    same(checkpoint.tensors, tensors)
    write_checkpoint(out, Output(tensors, checkpoint, replace(MADE, seed=1), shard_bytes=200))
    same(open_checkpoint(out).tensors, tensors)
    assert len(list(tmp_path.glob("m-*.safetensors"))) == 2


SHARDS = {f"t{i}": torch.full((10,), float(i)) for i in range(4)}


def interrupted_at(monkeypatch, number, error):
    """Have the move of the temporary file with this number raise; that of the index is the last one."""
    true, moves = Path.replace, []

    def replace_(self, target):
        moves.append(target)
        if len(moves) == number:
            raise error
        return true(self, target)

    monkeypatch.setattr(Path, "replace", replace_)


@pytest.mark.parametrize("number", range(1, 6))
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "ctrl-c"])
@pytest.mark.parametrize("before", [False, True])
def test_no_shard_stays_behind_when_writing_is_interrupted(tmp_path, monkeypatch, number, error, before):
    out = tmp_path / "m.safetensors.index.json"
    if before:
        write(out, {name: tensor + 1 for name, tensor in SHARDS.items()}, shard_bytes=40)
    like, old = plain(tmp_path, SHARDS), {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    old |= {"plain.safetensors": like.path.read_bytes()}
    interrupted_at(monkeypatch, number, error)
    with pytest.raises(type(error)):
        write_checkpoint(out, Output(SHARDS, like, MADE, shard_bytes=40))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == old


def test_an_interruption_after_the_last_step_keeps_what_is_whole(tmp_path, monkeypatch):
    out, true = tmp_path / "m.safetensors.index.json", Path.replace

    def replace_(self, target):
        true(self, target)
        if target == out:
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", replace_)
    with pytest.raises(KeyboardInterrupt):
        write(out, SHARDS, shard_bytes=40)
    same(open_checkpoint(out).tensors, SHARDS)


def test_shards_that_a_killed_run_left_are_removed_by_the_next(tmp_path, monkeypatch):
    out, dead = tmp_path / "m.safetensors.index.json", 2**22 + 1  # above the largest process id of Linux
    write(out, {name: tensor + 1 for name, tensor in SHARDS.items()}, shard_bytes=40)
    out.unlink()  # it was killed before it wrote the index
    (tmp_path / f".{out.name}.{dead}.00.part").write_bytes(b"left")
    write(out, SHARDS, shard_bytes=200)
    assert len(list(tmp_path.glob("m-*"))) == 1
    assert not list(tmp_path.glob(".*"))
    same(open_checkpoint(out).tensors, SHARDS)


def test_a_shard_that_is_not_there_is_named(tmp_path):
    out = tmp_path / "m.safetensors.index.json"
    write(out, {"x": torch.ones(9), "y": torch.ones(9)}, shard_bytes=40)
    next(tmp_path.glob("m-*-00002-*")).unlink()
    with pytest.raises(InputError, match=r"files that are not there:\n  - m-.*00002"):
        open_checkpoint(out)


@pytest.mark.parametrize("shard_bytes", [10**9, 300])
def test_a_hugging_face_folder_comes_through(tmp_path, shard_bytes):
    source = tmp_path / "a"
    source.mkdir()
    (source / "config.json").write_text('{"model_type": "none"}')
    safetensors.torch.save_file({"x": torch.ones(50), "y": torch.ones(50)}, source / "model.safetensors")
    checkpoint = open_checkpoint(source)
    for _ in range(2):  # into an empty place, then over the old folder
        write_checkpoint(tmp_path / "b", Output(dict(checkpoint.tensors), checkpoint, MADE, shard_bytes=shard_bytes))
    twin = open_checkpoint(tmp_path / "b")
    assert twin.kind == "huggingface"
    same(twin.tensors, checkpoint.tensors)
    assert json.loads((tmp_path / "b" / "config.json").read_text()) == {"model_type": "none", "dtype": "float32"}
    assert "auto" in (tmp_path / "b" / "README.md").read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b"]


def test_an_export_archive_comes_through_and_still_runs(tmp_path):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval(), torch.randn(2, 3)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "a.pt2")
    checkpoint = open_checkpoint(tmp_path / "a.pt2")
    same(checkpoint.tensors, model.state_dict())
    doubled = {name: tensor * 2 for name, tensor in checkpoint.tensors.items()}
    write_checkpoint(tmp_path / "b.pt2", Output(doubled, checkpoint, MADE))
    model.load_state_dict(doubled)
    extra = {"transfuse.json": ""}
    torch.testing.assert_close(torch.export.load(tmp_path / "b.pt2", extra_files=extra).module()(x), model(x))
    assert json.loads(extra["transfuse.json"])["method"] == "auto"
    with pytest.raises(InputError, match=r"made for 0\.weight of shape"):
        write_checkpoint(tmp_path / "c.pt2", Output({**doubled, "0.weight": torch.ones(5, 3)}, checkpoint, MADE))
    assert not (tmp_path / "c.pt2").exists()


NUMPY = Format(
    "numpy", "a NumPy archive", (".npz",), lambda path: path.suffix == ".npz",
    lambda path, opener: Checkpoint(
        path, "numpy", {name: torch.from_numpy(array) for name, array in np.load(path).items()}, (path,)
    ),
    lambda out, output: [np.savez(out, **{name: each.numpy() for name, each in output.tensors.items()}) or out],
)  # fmt: skip


def test_a_format_that_is_added_to_the_table_is_read_and_written(tmp_path):
    formats = (NUMPY, *FORMATS)
    tensors = {"x": torch.ones(3), "y": torch.arange(4)}
    like = plain(tmp_path, tensors)
    with pytest.raises(InputError, match="the ending says the format"):
        write_checkpoint(tmp_path / "a.npz", Output(tensors, like, MADE))
    written = write_checkpoint(tmp_path / "a.npz", Output(tensors, like, MADE), formats=formats)
    assert [path.name for path in written] == ["a.npz", "README.md"]
    checkpoint = open_checkpoint(tmp_path / "a.npz", formats=formats)
    assert checkpoint.kind == "numpy"
    same(checkpoint.tensors, tensors)
    with pytest.raises(InputError, match=r"in that folder: a\.npz"):
        open_checkpoint(tmp_path / "b.npz", formats=formats)


def test_every_ending_is_written_by_one_format():
    endings = [ending for row in FORMATS for ending in row.endings]
    assert len(set(endings)) == len(endings)
    assert len({row.name for row in FORMATS}) == len(FORMATS)
