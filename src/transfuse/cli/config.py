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

Every option of `fuse` has a key, its name with underscores. Unknown keys are errors. Files of mergekit are read as far
as they ask for what is done here: `mergekit_files`.
"""

from __future__ import annotations

from argparse import Namespace
from difflib import get_close_matches
from typing import Any

import yaml

from ..errors import InputError, listing
from ..files import read_text
from ..layout import PlainLoader
from ..renamed import told_renamed
from .mergekit_files import in_own_words
from .parser import parse, typed
from .verbs import VERBS

OTHER_NAMES = {"merge_method": "method", "out_path": "out", "parameters": "option"}
NEEDED = {"models": "", "out_path": " (it can be typed as well: `transfuse run FILE OUT`)"}
KEYS = {option.name: option for option in VERBS["fuse"].options}


def read_config(path: str, out: str | None = None) -> Namespace:
    """The options of `fuse` that a file stands for.

    Args:
        path: The file.
        out: Where the result goes, if that was typed; it counts before what the file says.

    Raises:
        InputError: it cannot be read, or keys are unknown or missing, all at once.
    """
    try:
        content, *others = [*yaml.load_all(read_text(path), PlainLoader)] or [None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is no YAML ({' '.join(str(error).split())}); mend it there") from error
    if others:
        raise InputError(
            f"{path} holds {1 + len(others)} files in one, parted by ---, as mergekit-mega has them; run each alone"
        )
    if not isinstance(content, dict):
        raise InputError(f"{path} holds {type(content).__name__}; expected keys such as merge_method, models, out_path")
    if out is not None:
        content = {**{key: value for key, value in content.items() if OTHER_NAMES.get(key, key) != "out"}, "out": out}
    return parse(arguments_in(in_own_words(content, path), path))


def arguments_in(content: dict[str, Any], path: str) -> list[str]:
    """The content of a file as the arguments that one would type.

    Raises:
        InputError: keys are unknown or missing, all at once.
    """
    keys = {OTHER_NAMES.get(key, key): value for key, value in content.items()}
    known = [*KEYS, *OTHER_NAMES]
    problems = [f"unknown key {key!r}{_suggestion(key, known)}" for key in content if key not in known]
    problems += [f"{key} is missing{more}" for key, more in NEEDED.items() if OTHER_NAMES.get(key, key) not in keys]
    models, weights, more = _models(keys.get("models", []))
    problems += more
    if weights and "weights" in keys:
        problems.append("weights are given twice: under models and under weights; leave one of them out")
    if problems:
        raise InputError(listing(f"{path} cannot be used as it is:", problems))
    given = {**keys, "models": models, **({"weights": weights} if weights else {})}
    # the models first: where several texts may follow a flag, nothing could follow them
    return ["fuse", *models, *(word for key, value in given.items() if key != "models"
                               for word in typed(KEYS[key], value))]  # fmt: skip


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
        weight = parameters.get("weight")
        if isinstance(weight, list | dict):
            problems.append(f"models, number {number}: weights of single layers are mergekit's; expected one number")
        weights += [weight] if weight is not None else []
    if weights and len(weights) != len(paths):
        problems.append(f"{len(weights)} of {len(paths)} models have a weight; give one to each, or to none")
    return paths, weights, problems


def _suggestion(key: Any, known: list[str]) -> str:
    if renamed := told_renamed(f"{key}:"):
        return f"; {renamed}"
    close = get_close_matches(str(key), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; the keys: {', '.join(sorted(known))}"
