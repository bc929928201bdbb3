"""Calls of the command in this process, and what they are given: a small network, its checkpoints, a folder."""

import json
import os
from pathlib import Path

import torch
from torch import nn

import transfuse
from transfuse.cli import main

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(transfuse.__file__).parents[1])}


NETS = """
import torch
from torch import nn

def mlp(width=8, bias=True):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width, bias=bias), nn.Tanh(), nn.Linear(width, 3))

def normed():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

def not_a_module():
    return 3

def share_of_ones(model):
    with torch.no_grad():
        return float((model(torch.linspace(-1, 1, 60).view(5, 3, 4)).argmax(1) == 1).float().mean())

def fails(model):
    raise RuntimeError("no")
"""


def mlp(seed, width=8):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.Tanh(), nn.Linear(width, 3))


EXAMPLE = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))


MODEL = ("--model", "in/nets.py:mlp", "--input-shape", "3,4")


AB = ("in/a.safetensors", "in/b.safetensors")


def call(capsys, *arguments):
    """Exit code, stdout, stderr."""
    code = main([str(each) for each in arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def works(capsys, *arguments):
    code, out, err = call(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def written(folder):
    return sorted(each.name for each in folder.iterdir() if each.name != "in")


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)
