"""Checkpoints that the command is tried on, and an empty folder to write to."""

import numpy as np
import pytest
import safetensors.torch
import torch

import transfuse
from command_calls import NETS, mlp


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Checkpoints of one architecture in several formats, code that builds it, data, a layout."""
    folder = tmp_path_factory.mktemp("files")
    for number, name in enumerate("abc"):
        safetensors.torch.save_file(mlp(number).state_dict(), folder / f"{name}.safetensors")
        torch.save({"state_dict": {f"module.{k}": v for k, v in mlp(number).state_dict().items()}, "epoch": 3},
                   folder / f"{name}.ckpt")  # fmt: skip
    safetensors.torch.save_file(mlp(0, 6).state_dict(), folder / "narrow.safetensors")
    safetensors.torch.save_file({"1.weight": torch.ones(8, 12), "x": torch.ones(1)}, folder / "other.safetensors")
    (folder / "nets.py").write_text(NETS)
    (folder / "layout.yaml").write_text(str(transfuse.trace(mlp(0), torch.randn(2, 3, 4))))
    torch.manual_seed(0)
    inputs = torch.randn(40, 3, 4)
    safetensors.torch.save_file({"inputs": inputs, "labels": mlp(0)(inputs).argmax(1)}, folder / "data.safetensors")
    np.savez(folder / "unlabeled.npz", inputs=inputs.numpy())
    return folder


@pytest.fixture
def here(files, tmp_path, monkeypatch):
    """An empty folder to write to, as the current one; `files` is beside it."""
    (tmp_path / "in").symlink_to(files)
    monkeypatch.chdir(tmp_path)
    return tmp_path
