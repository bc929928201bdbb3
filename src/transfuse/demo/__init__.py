"""The demo: real data that ships with the package, three kinds of networks, each pair fused and compared.

In: a folder. Out: trained networks there, a table, a page with pictures. Trained networks are kept, so that a second
run is fast. It uses the package as a user would.
"""

from .data import digits
from .running import run

__all__ = ["digits", "run"]
