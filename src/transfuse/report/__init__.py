"""One page about one fusion: what was fused, what came of it, barriers, the plane, couplings, how to do it again.

In: a fusion and `evaluate`. Out: a single HTML file. `Fusion.report` is the way in.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InputError
from ..files import write_whole
from .contents import Fused, Report, Request
from .gathering import gather
from .page import page

__all__ = ["Report", "Request", "gather", "page", "write_report"]


def write_report(path: str | os.PathLike[str], fusion: Fused, request: Request, title: str | None = None) -> Path:
    """Measure, and write the page, whole or not at all.

    Raises:
        InputError: the folder does not exist, before anything is measured.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; make it, or give another path")
    return write_whole(path, page(gather(fusion, request, title)).encode())
