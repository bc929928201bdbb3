"""Records as plain values: as JSON has them, their fingerprints, and where one is not as another.

In: records. Out: dictionaries, short names, sentences. Nothing here knows what a record is about.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

DEFAULT = "the default"


def as_plain(record: Any) -> Any:
    """A record, as JSON has it: dictionaries, lists, numbers, texts."""
    values = asdict(record) if hasattr(record, "__dataclass_fields__") else record
    if isinstance(values, Mapping):
        return {str(name): as_plain(value) for name, value in values.items()}
    return [as_plain(value) for value in values] if isinstance(values, tuple | list) else values


def fingerprint(configuration: Any) -> str:
    """A short name for a configuration: the same for the same values in any order.

    Example:
        >>> fingerprint({"a": 1, "b": (2, 3)}) == fingerprint({"b": [2, 3], "a": 1})
        True
    """
    text = json.dumps(as_plain(configuration), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(own: Any, reference: Any, name: str = "") -> list[str]:
    """Where one configuration is not another: `training.epochs 10 instead of 20`.

    Example:
        >>> differences({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}})
        ['b.c 2 instead of 3']
    """
    if isinstance(own, Mapping) and isinstance(reference, Mapping):
        names = list(dict.fromkeys([*reference, *own]))
        inner = [(key, own.get(key, DEFAULT), reference.get(key, DEFAULT)) for key in names]
        return [text for key, a, b in inner for text in differences(a, b, f"{name}.{key}" if name else key)]
    return [] if own == reference else [f"{name} {_told(own)} instead of {_told(reference)}"]


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_told(each)}" for name, each in value.items()) or DEFAULT
    if isinstance(value, list):
        return "(" + ", ".join(_told(each) for each in value) + ")"
    return "none" if value is None else str(value)
