"""What a result was made with."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import torch

import transfuse


@cache
def versions() -> dict[str, str]:
    """Versions of what counts; the commit, with a + if files were changed since."""
    return {
        "transfuse": transfuse.__version__,
        "commit": _commit(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def _commit() -> str:
    try:
        commit, changes = (
            subprocess.run(["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
            for arguments in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", "..", ":!results"])
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip() + ("+" if changes.stdout.strip() else "")
