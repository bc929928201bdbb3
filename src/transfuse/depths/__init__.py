"""Networks of other depths: layers put beside each other, and layers that are grown or lost."""

from .evening import Change, Depths, brought_to

__all__ = ["Change", "Depths", "brought_to"]
