"""What a result was made with."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from pathlib import Path

from transfuse.versions import package_versions


@cache
def origin() -> dict[str, str]:
    """Versions of the packages and the kind of machine; the commit, with a + if files were changed since."""
    return {**package_versions(), "commit": _commit(), "machine": platform.machine()}


def _commit() -> str:
    try:
        commit, changes = (
            subprocess.run(["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
            for arguments in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", "..", ":!results"])
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip() + ("+" if changes.stdout.strip() else "")
