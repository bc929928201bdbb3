"""Loss landscapes: barriers between networks, and planes through three of them.

In: networks of one architecture and width (modules or states), and `evaluate`. Out: records of plain numbers, which
can be saved. Not here: pictures (`plots`) and how networks are aligned (`api`).
"""

from .combining import Family, Network
from .evaluator import Evaluator, classification, evaluator
from .geometry import Axes, similarity
from .measuring import Survey
from .paths import barrier, chain, simplex
from .planes import plane
from .records import Barrier, Mark, Plane, Record, Simplex

__all__ = [
    "Axes",
    "Barrier",
    "Evaluator",
    "Family",
    "Mark",
    "Network",
    "Plane",
    "Record",
    "Simplex",
    "Survey",
    "barrier",
    "chain",
    "classification",
    "evaluator",
    "plane",
    "similarity",
    "simplex",
]
