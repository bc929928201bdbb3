"""Files of `torch.save`: wrappers, prefixes, and no code is ever run."""

import pickle
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from torch import nn

from checkpoint_states import MADE, TENSORS, same
from transfuse import InputError
from transfuse.checkpoints import (
    Output,
    open_checkpoint,
    write_checkpoint,
)


@pytest.mark.parametrize("key", [None, "state_dict", "model_state_dict", "net"])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.module."])
@pytest.mark.parametrize("old", [False, True])
def test_wrapped_states_are_found_and_written_alike(tmp_path, key, prefix, old):
    inner = OrderedDict((prefix + name, tensor) for name, tensor in TENSORS.items())
    content = {key: inner, "epoch": 3, "lr": [0.1], "optimizer": {"state": {0: torch.ones(2)}}} if key else inner
    torch.save(content, tmp_path / "a.ckpt", _use_new_zipfile_serialization=not old)
    checkpoint = open_checkpoint(tmp_path / "a.ckpt")
    same(checkpoint.tensors, TENSORS)
    write_checkpoint(tmp_path / "b.ckpt", Output(dict(checkpoint.tensors), checkpoint, MADE))
    written = torch.load(tmp_path / "b.ckpt", weights_only=True)
    same(written[key] if key else written, inner)
    if key:
        assert set(written) == {key, "epoch", "lr", "transfuse"}
        assert written["transfuse"]["method"] == "auto"
    else:
        assert written._metadata["transfuse"]["method"] == "auto"


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"net": TENSORS, "acc": torch.tensor(93.0), "epoch": 3}, "net"),
        ({"model": TENSORS, "optimizer": {"momentum": torch.ones(2)}}, "model"),
        ({"my_network": TENSORS, "epoch": torch.tensor(3)}, "my_network"),
        ({"ema_state_dict": {"x": torch.ones(1)}, "state_dict": TENSORS, "lr_schedulers": []}, "state_dict"),
    ],
)
def test_the_state_is_found_among_other_tensors_and_told(tmp_path, content, key):
    torch.save(content, tmp_path / "a.pt")
    checkpoint = open_checkpoint(tmp_path / "a.pt")
    same(checkpoint.tensors, TENSORS)
    assert checkpoint.told_wrapping == f"under {key!r}"


def test_a_state_two_keys_deep_is_found_and_written_alike(tmp_path):
    torch.save({"checkpoint": {"model": TENSORS, "optimizer": {"m": torch.ones(2)}}, "epoch": 3}, tmp_path / "a.pt")
    checkpoint = open_checkpoint(tmp_path / "a.pt")
    same(checkpoint.tensors, TENSORS)
    assert checkpoint.told_wrapping == "under 'checkpoint', 'model'"
    write_checkpoint(tmp_path / "b.pt", Output(dict(checkpoint.tensors), checkpoint, MADE))
    written = torch.load(tmp_path / "b.pt", weights_only=True)
    same(written["checkpoint"]["model"], TENSORS)
    assert written["epoch"] == 3


def test_what_wrappers_and_modules_save_beside_tensors_is_no_part_of_the_state(tmp_path):
    averaged = torch.optim.swa_utils.AveragedModel(nn.Linear(2, 3))
    torch.save({"model": averaged.state_dict(), "epoch": 1}, tmp_path / "a.pt")
    checkpoint = open_checkpoint(tmp_path / "a.pt")
    same(checkpoint.tensors, averaged.module.state_dict())
    assert checkpoint.told_wrapping == "under 'model', its names without 'module.', beside n_averaged, left out"
    torch.save({"net": {**TENSORS, "norm._extra_state": {"step": 3}}}, tmp_path / "b.pt")
    same(open_checkpoint(tmp_path / "b.pt").tensors, TENSORS)


def test_two_states_are_not_guessed_between(tmp_path):
    torch.save({"generator": TENSORS, "critic": TENSORS}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"holds no state dict \(found: 'generator', 'critic'\)"):
        open_checkpoint(tmp_path / "a.pt")


def test_a_result_loads_where_the_input_did(tmp_path):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    torch.save(model.state_dict(), tmp_path / "a.pth")
    checkpoint = open_checkpoint(tmp_path / "a.pth")
    write_checkpoint(tmp_path / "b.pth", Output(dict(checkpoint.tensors), checkpoint, MADE))
    state = torch.load(tmp_path / "b.pth", weights_only=True)
    assert state._metadata["1"]["version"] == 2
    model.load_state_dict(state)


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("suffix", [".pt", ".bin", ".safetensors", ".pt2"])
@pytest.mark.parametrize("saved", ["torch", "old", "pickle", "wrapped"])
def test_a_pickle_with_code_does_nothing(tmp_path, suffix, saved):
    path, trap = tmp_path / f"evil{suffix}", Trap(tmp_path / "sprung")
    content = {"state_dict": {"w": torch.ones(2)}, "x": trap} if saved == "wrapped" else {"w": trap}
    if saved == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=saved != "old")
    with pytest.raises(InputError, match=r"never does that|no whole|damaged"):
        open_checkpoint(path)
    assert not trap.path.exists()


@pytest.mark.parametrize("content", [b"", b"x", b"hello world" * 9, b"PK\3\4" + b"\0" * 90])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.pt is no whole PyTorch file|holds"):
        open_checkpoint(tmp_path / "a.pt")


@pytest.mark.parametrize("content", [{"a": 1}, [torch.ones(2)], {"optimizer": {"x": torch.ones(1)}}])
def test_a_file_without_a_state_says_what_it_has(tmp_path, content):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(InputError, match="holds no state dict"):
        open_checkpoint(tmp_path / "a.pt")
