"""Modules as they are given: running them undisturbed, rebuilding them with another state, several as one."""

from .ensemble import Ensemble
from .rebuilding import with_state
from .running import (
    Arguments,
    canonical_names,
    check_model,
    check_runs,
    first_line,
    model_state,
    run,
    tensors_in,
    undisturbed,
)

__all__ = [
    "Arguments",
    "Ensemble",
    "canonical_names",
    "check_model",
    "check_runs",
    "first_line",
    "model_state",
    "run",
    "tensors_in",
    "undisturbed",
    "with_state",
]
