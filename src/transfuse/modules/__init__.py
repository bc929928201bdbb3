"""Modules as they are given: running them undisturbed, their states, other states put into them, several as one."""

from .checks import acts_otherwise_in_training, can_be_corrected, cause_of, check_model, check_runs, first_line
from .copying import check_copies, twin_of
from .depth import depth_of, differ_in_depth
from .ensemble import Ensemble, are_class_scores
from .guards import alone, evaluating, private_randomness, random_states_kept, seed_random_states, undisturbed
from .linear_layers import transposed_weights, with_linear_layers, with_transposed
from .outputs import tensors_in, without_caches
from .proportions import shares_of
from .rebuilding import with_state
from .running import Arguments, numbers_in, run
from .states import EXTRA_STATE, canonical_names, is_mask, live_tensors, model_state, place_of, state_of, ties_of
from .untying import untied
from .wrappers import told_unwrapped, unwrapped

__all__ = [
    "EXTRA_STATE",
    "Arguments",
    "Ensemble",
    "acts_otherwise_in_training",
    "alone",
    "are_class_scores",
    "can_be_corrected",
    "canonical_names",
    "cause_of",
    "check_copies",
    "check_model",
    "check_runs",
    "depth_of",
    "differ_in_depth",
    "evaluating",
    "first_line",
    "is_mask",
    "live_tensors",
    "model_state",
    "numbers_in",
    "place_of",
    "private_randomness",
    "random_states_kept",
    "run",
    "seed_random_states",
    "shares_of",
    "state_of",
    "tensors_in",
    "ties_of",
    "told_unwrapped",
    "transposed_weights",
    "twin_of",
    "undisturbed",
    "untied",
    "unwrapped",
    "with_linear_layers",
    "with_state",
    "with_transposed",
    "without_caches",
]
