"""Words and numbers of the notation: how a text is written in YAML, and how large a number may be.

In: texts. Out: texts that YAML reads back as they are, and whole numbers.
"""

from __future__ import annotations

import re

import yaml

from ..errors import LayoutError

# Slots of one unit on one axis, and units or positions of an axis: more than any network has, and little enough that a
# typing error, or a layout from a stranger, cannot take all the memory.
MOST_SLOTS = 10**6
MOST_UNITS = 10**9


def scalar(text: str) -> str:
    """Text as a YAML scalar: plain where that reads back as the same text, quoted otherwise."""
    plain = re.fullmatch(r"(< )?[\w.*][\w.* +/()-]*", text) and ": " not in text and not text.endswith(" ")
    try:
        if plain and str(yaml.safe_load(f"[{text}]")[0]) == text:
            return text
    except yaml.YAMLError:
        pass
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text) + '"'


def number(text: str, most: int, where: str) -> int:
    """A whole number that is not absurdly large."""
    if len(text) > len(str(most)) or int(text) > most:
        raise LayoutError(f"{where}: {text[:40]} is larger than any network needs; expected at most {most}")
    return int(text)
