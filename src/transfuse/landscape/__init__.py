"""Loss landscapes: barriers between networks, and planes through three of them.

In: networks of one architecture and width (modules or states), and `evaluate`. Out: records of plain numbers, which
can be saved. Not here: drawing (`plots`, `report`) and how networks are aligned (`fusing`).
"""

from ..workers import Workers, dask_executor
from .combining import Family, ModuleOrState
from .geometry import Frame, cosines
from .measuring import Survey
from .paths import barrier, chain, simplex
from .planes import plane
from .records import Barrier, Mark, Plane, Record, Simplex
from .scoring import Evaluator, classification, evaluator

__all__ = [
    "Barrier",
    "Evaluator",
    "Family",
    "Frame",
    "Mark",
    "ModuleOrState",
    "Plane",
    "Record",
    "Simplex",
    "Survey",
    "Workers",
    "barrier",
    "chain",
    "classification",
    "cosines",
    "dask_executor",
    "evaluator",
    "plane",
    "simplex",
]
