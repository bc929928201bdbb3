"""The package: public names come when asked for, and torch with them, not before."""

import subprocess
import sys
from pathlib import Path

import pytest

import transfuse

SCRIPTS = {
    "importing alone does not import torch": "import sys, transfuse; assert 'torch' not in sys.modules",
    "a public name is found": "import transfuse; assert transfuse.fuse is transfuse.fuse; transfuse.layout.Layout",
    "nothing heavy is imported before it is used": "import torch, sys; before = set(sys.modules); import transfuse; "
    "transfuse.fuse; new = {name.split('.')[0] for name in set(sys.modules) - before}; "
    "assert not new & {'matplotlib', 'transformers', 'ot', 'scipy', 'pandas', 'PIL', 'sympy', 'selenium'}, new; "
    "assert 'torch._dynamo' not in sys.modules",
    "rooms are found": "from transfuse import layout, tracing\nimport transfuse.fusing\nassert transfuse.fusing.fuse",
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
