"""A YAML file in the vocabulary of merging tools, as options of `transfuse fuse`.

    merge_method: auto
    model: mlpnet
    models:
      - model: a.safetensors
        parameters: {weight: 0.6}
      - model: b.safetensors
        parameters: {weight: 0.4}
    parameters: {restarts: 4}
    dtype: float32
    out_path: ab.safetensors

Every option of `fuse` has a key, its name with underscores. Unknown keys are errors.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from ..errors import InputError, listing
from ..renamed import told_renamed
from .parser import build, parse

OTHER_NAMES = {"merge_method": "method", "out_path": "out", "parameters": "option"}


def read(path: str) -> Namespace:
    """The options that a file stands for.

    Raises:
        InputError: it cannot be read, or keys are unknown or missing, all at once.
    """
    try:
        content = yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no YAML ({' '.join(str(error).split())})") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds {type(content).__name__}; expected keys such as merge_method, models, out_path")
    return parse(_arguments(content, path))


def _arguments(content: dict[str, Any], path: str) -> list[str]:
    """The file as what one would type."""
    flags = _flags()
    keys = {OTHER_NAMES.get(key, key): value for key, value in content.items()}
    known = ["models", *flags, *OTHER_NAMES]
    problems = [f"unknown key {key!r}{_suggestion(key, known)}" for key in content if key not in known]
    problems += [f"{key} is missing" for key, name in (("models", "models"), ("out_path", "out")) if name not in keys]
    models, weights, more = _models(keys.get("models", []))
    problems += more
    if weights and "weights" in keys:
        problems.append("weights are given twice: under models and under weights")
    if problems:
        raise InputError(listing(f"{path}:", problems))
    arguments = ["fuse", *models]
    for key, value in keys.items():
        if key != "models":
            arguments += _typed(flags[key], value)
    return [*arguments, "--weights", *map(str, weights)] if weights else arguments


def _flags() -> dict[str, str]:
    """Key -> flag, for every option of `fuse`."""
    verbs = next(action for action in build()._actions if isinstance(action, argparse._SubParsersAction))
    actions = verbs.choices["fuse"]._actions
    return {a.dest: a.option_strings[-1] for a in actions if a.option_strings and a.dest != "help"}


def _models(entries: Any) -> tuple[list[str], list[float], list[str]]:
    """Paths, weights (none, if no model has one) and what is wrong."""
    paths, weights, problems = [], [], []
    if not isinstance(entries, list):
        return [], [], ["models must be a list of {model: PATH, parameters: {weight: W}}"]
    for number, entry in enumerate(entries, start=1):
        entry = {"model": entry} if isinstance(entry, str) else entry
        if not isinstance(entry, dict) or not isinstance(entry.get("model"), str):
            problems.append(f"models, number {number}: expected a path, or {{model: PATH, parameters: {{weight: W}}}}")
            continue
        parameters = entry.get("parameters") or {}
        problems += [
            f"models, number {number}: unknown key {key!r}{_suggestion(key, known)}"
            for found, known in ((entry, ["model", "parameters"]), (parameters, ["weight"]))
            for key in found
            if key not in known
        ]
        paths.append(entry["model"])
        weights += [parameters["weight"]] if "weight" in parameters else []
    if weights and len(weights) != len(paths):
        problems.append(f"{len(weights)} of {len(paths)} models have a weight; give one to each, or to none")
    return paths, weights, problems


def _typed(flag: str, value: Any) -> list[str]:
    """A key and its value as one would type them."""
    if isinstance(value, bool):
        return [flag] if value else []
    if value is None:
        return []
    if isinstance(value, dict):
        return [flag, *(f"{key}={yaml.safe_dump(each, default_flow_style=True).split(chr(10))[0]}"
                        for key, each in value.items())] if value else []  # fmt: skip
    if isinstance(value, list):
        return [flag, ",".join(map(str, value))] if flag == "--input-shape" else [flag, *map(str, value)]
    return [flag, str(value)]


def _suggestion(key: Any, known: list[str]) -> str:
    if renamed := told_renamed(f"{key}:"):
        return f"; {renamed}"
    close = get_close_matches(str(key), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; the keys: {', '.join(sorted(known))}"
