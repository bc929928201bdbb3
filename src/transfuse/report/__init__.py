"""One page about one fusion: what was fused, what came of it, barriers, the plane, couplings, how to do it again.

In: a fusion and `evaluate`. Out: a single HTML file. `Fusion.report` is the way in.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InputError
from ..files import write_whole
from ..fusing import Fusion
from .contents import Report, Request
from .gathering import gather
from .rendering import page, render
from .tables import Table

__all__ = ["Report", "Request", "Table", "gather", "page", "render", "write_report"]


def write_report(path: str | os.PathLike[str], fusion: Fusion, request: Request, title: str | None = None) -> Path:
    """Measure a fusion and write the page about it, whole or not at all.

    Raises:
        InputError: the folder does not exist, before anything is measured.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; make it, or give another path")
    return write_whole(path, page(gather(fusion, request, title)).encode())
