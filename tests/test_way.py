"""The way through the house, walked: each stage is entered once, downwards, in the order that docs/design.md tells."""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from types import FrameType

import pytest
import torch

import transfuse
from test_rooms import FLOOR_OF
from transfuse.cli import main

HOUSE = Path(transfuse.__file__).parent
DESIGN = (Path(__file__).parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
LANGUAGE = set(re.findall(r"`(\w+)`", re.search(r"Some rooms are a language.*?They are used", DESIGN, re.S)[0]))
PLACES = "_check_apart"  # every verb asks which files stand behind a path: a question of names, before the way begins

Entry = tuple[str, str, str]  # the room that calls, the room that is called, its function


@cache
def room_of_file(name: str) -> str | None:
    """The room in which a file stands; nothing, if it is not in the house."""
    file = Path(name)
    return file.relative_to(HOUSE).parts[0].removesuffix(".py") if file.is_relative_to(HOUSE) else None


def room_of(frame: FrameType) -> str | None:
    """The room in which the code of a frame stands; nothing, if it is not in the house."""
    return room_of_file(frame.f_code.co_filename)


def callers(frame: FrameType) -> Iterator[FrameType]:
    """The frames in the house that led to a frame, the nearest first."""
    while frame := frame.f_back:
        if room_of(frame):
            yield frame


@cache
def is_entrance(name: str) -> bool:
    """Whether a function is called to enter a room, and not on a value that the room has given out before."""
    return re.fullmatch(r"[a-z]\w*|[A-Z]\w*\.of", name) is not None


def walked(work: Callable[[], object]) -> list[Entry]:
    """Every entrance of a stage from another room, in the order of the calls."""
    found = []

    def look(frame: FrameType, event: str, _: object) -> None:
        room, name = room_of(frame), frame.f_code.co_qualname
        if event != "call" or room is None or room in LANGUAGE or not is_entrance(name):
            return
        by = next(callers(frame), None)
        if by and room_of(by) != room and by.f_code.co_name not in (PLACES, "<module>"):
            found.append((room_of(by), room, name))

    before = sys.gettrace()
    sys.settrace(look)  # it gives no function that would be told of lines: only calls are looked at
    try:
        work()
    finally:
        sys.settrace(before)
    return found


def told(heading: str, *, but: str) -> list[tuple[str, str]]:
    """The rooms and functions that the table below a heading names, but those of a room and of the language."""
    table = DESIGN.split(f"### `{heading}")[1].split("\n\n")[1]
    cells = re.findall(r"(?m)^\|\s*\d*\s*\| (.*?) \|", table)
    always = [cell for cell in cells if "only where" not in cell]
    named = [re.match(r"`(\w+)(?:/\w+)?\.([\w.]+)`", cell) for cell in always]
    return [each.groups() for each in named if each and each[1] not in {but, *LANGUAGE}]


NETWORK = "torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))"


def network(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return eval(NETWORK)


def test_fuse_enters_each_stage_once_downwards_in_the_order_of_the_page():
    models, inputs = [network(0), network(1)], torch.randn(5, 4)
    found = walked(lambda: transfuse.fuse(models, inputs))
    assert [entry for entry in found if FLOOR_OF[entry[0]] <= FLOOR_OF[entry[1]]] == []
    assert [(room, name) for by, room, name in found if by == "fusing"] == told("fuse(models, x)", but="fusing")


@pytest.mark.parametrize("further", [(), ("--low-memory",)], ids=["as modules", "as states"])
def test_the_command_enters_each_stage_once_in_the_order_of_the_page(tmp_path, further):
    paths = [str(tmp_path / name) for name in ("a.pt", "b.pt", "c.pt", "nets.py:network")]
    (tmp_path / "nets.py").write_text(f"import torch\n\ndef network():\n    return {NETWORK}\n")
    for seed, path in enumerate(paths[:2]):
        torch.save(network(seed).state_dict(), path)
    a, b, c, model = paths
    command = ["fuse", a, b, "-o", c, "--model", model, "--input-shape", "4", "--quiet", *further]
    found = walked(lambda: main(command))
    assert Path(c).exists()
    rooms = [room for room, _ in groupby(room for by, room, _ in found if by == "cli")]
    assert rooms == [room for room, _ in groupby(room for room, _ in told("transfuse fuse", but="cli"))]
    once = ["synthetic", "barycenter"] if not further else ["barycenter"]
    assert [room for by, room, _ in found if by == "fusing"] == once
