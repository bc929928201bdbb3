"""The arrows between the rooms of the house point down.

A room is a module or folder directly below `src/transfuse`. It may import itself and rooms on lower floors; the few
doors upwards are listed, each with its reason.
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
    ("errors", "names", "renamed", "transport", "types", "versions"),
    ("arguments", "files", "lazy", "progress"),
    ("layout", "networks", "workers"),
    ("barycenter", "modules"),
    ("tracing", "methods"),
    ("activations",),
    ("corrections", "synthetic"),
    ("landscape", "depths"),
    ("plots",),
    ("fusing",),
    ("checkpoints", "report", "federated"),
    ("comparison", "flower"),
    ("demo",),
    ("cli",),
    ("__main__", "public"),
    (TOP,),  # the package's own __init__ may import all
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# Arrows upwards, from a room to another. A door is opened when it is used: only inside the body of a function.
DOORS = {
    ("fusing", "report"): "`Fusion.report` writes the page about the fusion, so that users find it on what they have",
    ("fusing", "checkpoints"): "`Fusion.save` writes the fused network, for the same reason",
    ("landscape", "plots"): "`Barrier.plot` and `Plane.plot` draw what was measured, for the same reason",
}


def imported(source: str, package: str) -> Iterator[tuple[str, bool]]:
    """Dotted names that a module of `package` imports, relative ones made absolute, and whether inside a function."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    late = {id(node) for function in functions for line in function.body for node in ast.walk(line)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package)
            yield from ((f"{origin}.{alias.name}", id(node) in late) for alias in node.names)


def room_of(name: str) -> str:
    """`transfuse.tracing.proof` -> `tracing`."""
    return name.split(".")[1] if "." in name else TOP


def complaints(path: Path, source: str) -> list[str]:
    """What is wrong with the imports of the module at `path`, which is relative to `SOURCE`."""
    room = room_of(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    if room not in FLOOR_OF:
        return [f"{path}: the room {room!r} is on no floor; give it a place in FLOORS of {__file__}"]
    found = []
    for name, late in imported(source, ".".join(path.parent.parts)):
        target = room_of(name)
        if name.split(".")[0] != TOP or (late and (room, target) in DOORS):
            continue
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


LATE = "def write():\n    from ..{room} import name"


def test_a_door_is_open_inside_a_function_only():
    assert complaints(Path(TOP, "fusing", "networks.py"), LATE.format(room="report")) == []
    (message,) = complaints(Path(TOP, "fusing", "networks.py"), "from ..report import write_report")
    assert "fusing imports transfuse.report.write_report, which is not on a lower floor" in message
    assert complaints(Path(TOP, "fusing", "networks.py"), "class Fusion:\n    from ..report import write_report")


@pytest.mark.parametrize(("room", "other"), [("fusing", "cli"), ("fusing", "demo"), ("landscape", "report")])
def test_there_is_no_other_door(room: str, other: str):
    assert complaints(Path(TOP, room, "module.py"), LATE.format(room=other))


def test_every_door_is_in_use_and_leads_up():
    for room, other in DOORS:
        sources = [file.read_text("utf-8") for file in (SOURCE / TOP / room).rglob("*.py")]
        package = f"{TOP}.{room}"
        assert FLOOR_OF[room] < FLOOR_OF[other]
        assert any(room_of(name) == other for source in sources for name, late in imported(source, package) if late)


def test_a_room_without_a_floor_is_told_what_to_do():
    (message,) = complaints(Path(TOP, "helpers", "__init__.py"), "")
    assert "'helpers' is on no floor; give it a place in FLOORS" in message


def test_the_package_itself_sees_every_room():
    source = "\n".join(f"from .{room} import name" for floor in FLOORS[:-1] for room in floor)
    assert complaints(Path(TOP, "__init__.py"), source) == []


def test_no_function_or_class_has_the_name_of_a_file_beside_it():
    """`from .room import name` would give one or the other, depending on what was imported before."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        beside = {other.stem for other in file.parent.iterdir() if other.suffix in ("", ".py")} | {file.parent.name}
        body = ast.parse(file.read_text("utf-8")).body
        defined = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        found += [f"{file.relative_to(SOURCE)}: {name}" for name in defined if name in beside]
    assert not found, "\n".join(found)
