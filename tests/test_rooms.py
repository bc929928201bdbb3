"""The arrows between the rooms of the house point down.

A room is a module or folder directly below `src/transfuse`. It may import itself and rooms on lower floors.
"""

import ast
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
TOP = "transfuse"

# From the ground up. Rooms on one floor do not see each other.
FLOORS = (
    ("errors", "files", "names", "renamed", "transport", "types", "versions"),
    ("lazy", "progress"),
    ("layout", "networks"),
    ("barycenter", "modules"),
    ("tracing", "methods"),
    ("activations",),
    ("corrections", "synthetic"),
    ("landscape",),
    ("plots",),
    ("report",),  # of plain records; a fusion writes its own report, hence below fusing
    ("fusing", "checkpoints"),
    ("demo",),
    ("cli",),
    ("__main__", "public"),
    (TOP,),  # the package's own __init__ may import all
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def imported(source: str, package: str) -> Iterator[str]:
    """Dotted names that a module of `package` imports, relative ones made absolute."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def room_of(name: str) -> str:
    """`transfuse.tracing.proof` -> `tracing`."""
    return name.split(".")[1] if "." in name else TOP


def complaints(path: Path, source: str) -> list[str]:
    """What is wrong with the imports of the module at `path`, which is relative to `SOURCE`."""
    room = room_of(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    if room not in FLOOR_OF:
        return [f"{path}: the room {room!r} is on no floor; give it a place in FLOORS of {__file__}"]
    found = []
    for name in imported(source, ".".join(path.parent.parts)):
        if name.split(".")[0] != TOP:
            continue
        target = room_of(name)
        if target not in FLOOR_OF:
            found.append(f"{path}: {name} is in no room of FLOORS; import it from the module that defines it")
        elif target != room and FLOOR_OF[target] >= FLOOR_OF[room]:
            found.append(f"{path}: {room} imports {name}, which is not on a lower floor")
    return found


def test_arrows_point_down():
    files = sorted(SOURCE.rglob("*.py"))
    assert files
    found = [line for file in files for line in complaints(file.relative_to(SOURCE), file.read_text("utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "from transfuse.tracing.proof import prove",
        "from .tracing import proof",
        "from . import cli",
        "import transfuse.fusing",
        "import transfuse",
        "def late():\n    from transfuse import fuse",
        "from transfuse.synthetic import noise",
    ],
)
def test_other_arrows_are_caught(source: str):
    assert len(complaints(Path(TOP, "methods.py"), source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from transfuse.errors import FusionError",
        "from ..layout.records import Layout",
        "from .. import layout",
        "from . import proof",
        "import torch, numpy.linalg",
    ],
)
def test_arrows_down_are_free(source: str):
    assert complaints(Path(TOP, "tracing", "export.py"), source) == []


def test_a_room_without_a_floor_is_told_what_to_do():
    (message,) = complaints(Path(TOP, "helpers", "__init__.py"), "")
    assert "'helpers' is on no floor; give it a place in FLOORS" in message


def test_the_package_itself_sees_every_room():
    source = "\n".join(f"from .{room} import name" for floor in FLOORS[:-1] for room in floor)
    assert complaints(Path(TOP, "__init__.py"), source) == []
