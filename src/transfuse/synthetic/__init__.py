"""Synthetic inputs, in place of data or beside it: drawn like an example, then inverted until networks see classes."""

from .budget import WITHOUT, Budget, SyntheticInputs, synthetic_inputs
from .inversion import INVERSION_STEPS, Inverted, inverted_inputs
from .noise import drawn_inputs

__all__ = [
    "INVERSION_STEPS",
    "WITHOUT",
    "Budget",
    "Inverted",
    "SyntheticInputs",
    "drawn_inputs",
    "inverted_inputs",
    "synthetic_inputs",
]
