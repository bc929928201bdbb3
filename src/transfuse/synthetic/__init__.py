"""Synthetic inputs, in place of data or beside it: images drawn like an example, or noise that is inverted."""

from .budget import Budget
from .inversion import INVERSION_STEPS, Inverted, inverted_inputs
from .making import WITHOUT, SyntheticInputs, plain_inputs, synthetic_inputs
from .noise import drawn_inputs

__all__ = [
    "INVERSION_STEPS",
    "WITHOUT",
    "Budget",
    "Inverted",
    "SyntheticInputs",
    "drawn_inputs",
    "inverted_inputs",
    "plain_inputs",
    "synthetic_inputs",
]
