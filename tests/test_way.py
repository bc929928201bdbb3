"""The way through the house, walked: each stage is entered once, by the function that docs/design.md names."""

import re
import sys
from pathlib import Path
from types import FrameType

import torch
from torch import nn

import transfuse
from test_rooms import FLOOR_OF, room_of

ROOT = Path(__file__).parents[1]
HOUSE = Path(transfuse.__file__).parent
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")


def place_of(frame: FrameType) -> tuple[str, str] | None:
    """The room and the function of a frame; nothing outside of the house."""
    file = Path(frame.f_code.co_filename)
    if not file.is_relative_to(HOUSE):
        return None
    return room_of(f"transfuse.{file.relative_to(HOUSE).parts[0].removesuffix('.py')}"), frame.f_code.co_qualname
