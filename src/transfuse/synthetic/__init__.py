"""Synthetic inputs, in place of data or beside it: drawn like an example, then inverted until networks see classes."""

from .budget import Budget, SyntheticInputs, evaluated, is_half, synthetic_inputs
from .inversion import STEPS as INVERSION_STEPS
from .inversion import inverted_inputs
from .noise import drawn_inputs

__all__ = [
    "INVERSION_STEPS",
    "Budget",
    "SyntheticInputs",
    "drawn_inputs",
    "evaluated",
    "inverted_inputs",
    "is_half",
    "synthetic_inputs",
]
