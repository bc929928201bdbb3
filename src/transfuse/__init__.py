"""transfuse: several neural networks, trained independently, become one.

Every fusion starts from a layout: which axes of which tensors of a network move together. `trace` finds it for any
PyTorch module and proves it; `parse` reads one written by hand. The public names are listed in `transfuse.public`; they
are imported when the first one is used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .public import *  # noqa: F403

__version__ = "0.1.0"


class _Package(ModuleType):
    """A package whose public names are found when asked for, and win over rooms of the same name."""

    def __getattr__(self, name: str) -> object:
        if not name.startswith("__") or name == "__all__":
            public = import_module(f"{__name__}.public")
            vars(self).update({each: getattr(public, each) for each in public.__all__}, __all__=public.__all__)
            if name in vars(self):
                return vars(self)[name]
            if room := sys.modules.get(f"{__name__}.{name}"):
                return room
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        """Importing a room makes it an attribute of its package: not here, or it would hide the name it defines."""
        if not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *import_module(f"{__name__}.public").__all__})


sys.modules[__name__].__class__ = _Package
