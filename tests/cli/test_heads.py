"""Joined heads by the command: the same as the library gives, in files that a network of all outputs loads."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import transfuse
from command_calls import EXAMPLE, MODEL, call, works
from transfuse.checkpoints import open_checkpoint


def net(outputs, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, outputs))


@pytest.fixture
def pair(here):
    """Checkpoints of three and of two classes; the network that is named has three."""
    models = [net(3, 1), net(2, 2)]
    for name, model in zip("cd", models, strict=True):
        save_file(model.state_dict(), f"{name}.safetensors")
    return models


CD = ("c.safetensors", "d.safetensors")


@pytest.mark.parametrize("alone", [False, True])
def test_heads_are_joined_as_by_the_library(pair, capsys, alone):
    told = works(capsys, "fuse", *CD, "-o", "cd.safetensors", *MODEL, "--heads", "join", *["--low-memory"] * alone)
    expected = transfuse.fuse(pair, EXAMPLE, heads="join", correct="none" if alone else None)
    assert told["heads"]["places"] == [[0, 1, 2], [3, 4]]
    result = open_checkpoint("cd.safetensors").tensors
    for name, tensor in expected.model.state_dict().items():
        torch.testing.assert_close(result[name], tensor)
    wide = net(5)
    wide.load_state_dict(dict(result))
    torch.testing.assert_close(wide(EXAMPLE), expected.model(EXAMPLE))


def test_classes_are_typed_or_stand_in_files_and_the_provenance_has_them(here, pair, capsys):
    (here / "d.txt").write_text("cat\nape\n")
    told = works(capsys, "fuse", *CD, "-o", "cd.safetensors", *MODEL, "--heads", "join", "--classes", "ape,bee,cat",
                 "d.txt", "--correct", "none")  # fmt: skip
    assert told["heads"]["classes"] == ["ape", "bee", "cat"]
    assert told["heads"]["places"] == [[0, 1, 2], [2, 0]]
    shown = works(capsys, "inspect", "cd.safetensors")["provenance"]
    assert shown["options"]["heads"] == "join"
    assert "--classes ape,bee,cat d.txt" in shown["command"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Pass heads='join'"),
        (("--classes", "a,b,c", "d,e"), "pass --heads join as well"),
        (("--heads", "join", "--classes", "0,1", "2,3"), "model 1 has 3 outputs and 2 classes"),
        (("--heads", "join", "--classes", "a,,c", "d,e"), "a class has no name"),
        (("--heads", "sum"), "invalid choice"),
    ],
)
def test_what_does_not_add_up_is_refused(here, pair, capsys, arguments, told):
    code, _, err = call(capsys, "fuse", *CD, "-o", "cd.safetensors", *MODEL, *arguments)
    assert code == 2
    assert told in err
    assert not (here / "cd.safetensors").exists()
