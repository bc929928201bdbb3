"""The package: public names come when asked for, and torch with them, not before."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import transfuse

SCRIPTS = {
    "importing alone does not import torch": "import sys, transfuse; assert 'torch' not in sys.modules",
    "nothing heavy is imported before it is used": "import torch, sys; before = set(sys.modules); import transfuse; "
    "transfuse.fuse; new = {name.split('.')[0] for name in set(sys.modules) - before}; "
    "assert not new & {'matplotlib', 'transformers', 'ot', 'scipy', 'pandas', 'PIL', 'sympy', 'selenium'}, new; "
    "assert 'torch._dynamo' not in sys.modules",
    "rooms and public names are found": "from transfuse import layout, tracing\nimport transfuse.fusing\n"
    "assert transfuse.fusing.fuse is transfuse.fuse; transfuse.layout.Layout",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_fresh_interpreter(script: str):
    subprocess.run([sys.executable, "-c", script], check=True)


def test_all_public_names_are_there():
    assert set(transfuse.__all__) <= set(dir(transfuse))
    assert all(getattr(transfuse, name) is not None for name in transfuse.__all__)


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="no attribute 'fusee'"):
        _ = transfuse.fusee


def test_no_room_hides_a_public_name():
    rooms = {path.stem for path in Path(transfuse.__file__).parent.iterdir()}
    hidden = {name for name in transfuse.__all__ if name in rooms and name != "plots"}  # that one is the room itself
    assert not hidden


SCREEN = 1500  # characters: what fits on one


def public_objects():
    """One of each kind that a user of a notebook gets to see, of a network with 13,000 parameters."""
    a, b, c = (nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 64)) for _ in range(3))
    x, layout = torch.randn(4, 64), transfuse.trace(a, torch.randn(2, 64), proof=False)
    fusion = transfuse.fuse([a, b], x, layout=layout, method="ot", synthetic=False, check=False)
    evaluate = transfuse.evaluator([(x, torch.arange(4))] * 50)
    federation = transfuse.Federation.of(a, x[:1])
    reply = transfuse.Reply("a", a.state_dict())
    joined, told = federation.joined([reply, transfuse.Reply("b", b.state_dict())])
    return [
        fusion, fusion.states, fusion.couplings, fusion.correction, fusion.check, layout, evaluate, federation, joined,
        reply, told, transfuse.barrier(a, b, evaluate, points=3), transfuse.simplex([a, b, c], evaluate),
        transfuse.plane(a, b, c, evaluate, grid=3), transfuse.synthetic_inputs([a], x, samples=20),
    ]  # fmt: skip


def test_every_object_is_shown_on_one_screen():
    long = {type(each).__name__: len(repr(each)) for each in public_objects() if len(repr(each)) > SCREEN}
    assert not long


TYPED = """
import torch, transfuse
from torch import nn

class Mine(nn.Module):
    width: int = 3

models = [Mine(), Mine()]
fusion = transfuse.public.fuse(models, torch.zeros(1))
reveal_type(fusion.model)
reveal_type(fusion.aligned)
reveal_type(transfuse.public.align(models[0], to=models[1]))
def told(any_fusion: transfuse.public.Fusion) -> None: ...
told(fusion)
"""


@pytest.mark.long
def test_results_have_the_class_of_the_models(tmp_path):
    (tmp_path / "mine.py").write_text(TYPED.replace("import torch, transfuse", "import torch, transfuse.public"))
    environment = {**os.environ, "MYPYPATH": str(Path(transfuse.__file__).parents[1])}
    command = [sys.executable, "-m", "mypy", "--strict", "mine.py"]
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stdout
    assert re.findall(r'Revealed type is "(.*)"', found) == ["mine.Mine", "tuple[mine.Mine, ...]", "mine.Mine"], found
    assert not re.findall(r"^mine\.py.*error.*$", found, re.MULTILINE), found
