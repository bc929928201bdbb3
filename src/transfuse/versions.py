"""Versions of what a result depends on, for reports, model cards and records of experiments."""

from __future__ import annotations

import platform
from importlib import import_module
from importlib.metadata import version

# With another version of one of these, the same call may give another result.
PACKAGES = ("torch", "numpy", "scipy", "lapx", "POT")


def package_versions() -> dict[str, str]:
    """The version of this package, of Python, and of the packages that a result depends on.

    Example:
        >>> list(package_versions())
        ['transfuse', 'python', 'torch', 'numpy', 'scipy', 'lapx', 'POT']
    """
    own = {"transfuse": import_module(__package__ or "").__version__, "python": platform.python_version()}
    return own | {name: version(name) for name in PACKAGES}
