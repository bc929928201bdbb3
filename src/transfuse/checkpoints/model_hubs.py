"""What the model card of an input says to machines, and what the input is called on a model hub.

In: the path of a checkpoint. Out: plain texts; nothing where there is no card, or none that can be read: a card of
somebody else's is never a reason to stop.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from ..errors import InputError
from ..files import read_text
from ..layout import PlainLoader

CARD = "README.md"
MOST = 10**6  # bytes of a card that are read; the longest on model hubs have a tenth of it


def front_matter(folder: Path) -> dict[str, str]:
    """The texts by key at the head of the card in a folder, between two lines of dashes; lists are left out."""
    if not (folder.is_dir() and (folder / CARD).is_file()):
        return {}
    try:
        head = read_text(folder / CARD, most=MOST).split("---\n", maxsplit=2)
        found = yaml.load(head[1], PlainLoader) if len(head) == 3 and not head[0].strip() else {}
    except (InputError, yaml.YAMLError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(key): value for key, value in found.items() if isinstance(value, str)}


def hub_name(path: Path) -> str:
    """The name of a file or folder; of a folder in the cache of a model hub, the name that it has there.

    Example:
        >>> hub_name(Path("bert-a")), hub_name(Path("hub/models--google--vit/snapshots/3f49"))
        ('bert-a', 'google/vit')
    """
    cached = [part for part in path.absolute().parts if part.startswith("models--")]
    return "/".join(cached[-1].split("--")[1:]) if cached else path.absolute().name
