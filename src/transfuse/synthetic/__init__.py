"""Synthetic inputs, in place of data or beside it: drawn like an example, then inverted until networks see classes."""

from .budget import Amount, StandIn, evaluated, is_half, synthetic_inputs
from .inversion import STEPS as INVERSION_STEPS
from .inversion import dreamt
from .noise import synthetic

__all__ = [
    "INVERSION_STEPS",
    "Amount",
    "StandIn",
    "dreamt",
    "evaluated",
    "is_half",
    "synthetic",
    "synthetic_inputs",
]
