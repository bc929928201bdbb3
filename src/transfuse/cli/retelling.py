"""What was asked for, as the provenance of a result tells it: chosen options, and a command that does it again."""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path
from typing import Any

from .parser import typed
from .values import pairs
from .verbs import VERBS


def told_options(options: Namespace) -> dict[str, Any]:
    """Options of the method, and what else was chosen beside the method."""
    told = pairs(options.option, "--option")
    for option in VERBS[options.verb].options:
        if option.told and (value := getattr(options, option.name)):
            told[option.name] = " ".join(value) if isinstance(value, list) else value
    return told


def command(options: Namespace, *, folders: bool = False) -> str:
    """A command that does it again; files by their names, wherever they were, unless their folders are wanted."""
    words = ["transfuse", options.verb]
    for option in VERBS[options.verb].options:
        if option.again:
            value = getattr(options, option.name)
            words += typed(option, _without_folders(value) if option.is_path and not folders else value)
    return shlex.join(words)


def _without_folders(value: Any) -> Any:
    """The last part of a path, or of each one in a list; texts that are no path as they are."""
    if value is None:
        return None
    if isinstance(value, list):
        return [_without_folders(each) for each in value]
    place, colon, name = value.rpartition(":")
    if colon and place.endswith(".py"):
        return f"{Path(place).name}:{name}"
    return Path(value).name if "/" in value else value
