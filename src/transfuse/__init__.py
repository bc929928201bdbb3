"""transfuse: several neural networks, trained independently, become one.

Every fusion starts from a layout: which axes of which tensors of a network move together. `trace` finds it for any
PyTorch module and proves it; `parse` reads one written by hand. The public names are listed in `transfuse.public`; they
are imported when the first one is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .renamed import refuse_name

if TYPE_CHECKING:
    from .public import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """A public name, or the list of them; an old name gives an error that tells the new one."""
    public = import_module(".public", __name__)
    if name != "__all__" and name not in public.__all__:
        refuse_name(__name__, name)
    return getattr(public, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module(".public", __name__).__all__})
