"""What arguments of public functions may be: checked where a user's call comes in, refused by name.

In: arguments and their kinds. Out: nothing, or one error with every argument that is wrong. A kind is a test and what
was expected, in words. Not here: what needs more than a look, such as whether models fit a layout.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .errors import InputError, listing

LONGEST = 60  # characters of a value in a message


@dataclass(frozen=True)
class Kind:
    """What an argument may be: a test of a value, and the same in words."""

    holds: Callable[[Any], bool]
    expected: str


def check_arguments(**given: tuple[Any, Kind]) -> None:
    """Refuse arguments that are of another kind: `check_arguments(seed=(seed, SEED))`.

    Raises:
        InputError: naming every argument that is wrong, what it is, and what was expected.

    Example:
        >>> check_arguments(seed=(-1, SEED))
        Traceback (most recent call last):
        transfuse.errors.InputError: seed is -1; expected a whole number, not negative
    """
    wrong = [
        f"{name} is {told(value)}; expected {kind.expected}"
        for name, (value, kind) in given.items()
        if not kind.holds(value)
    ]
    if wrong:
        raise InputError(wrong[0] if len(wrong) == 1 else listing("these arguments are wrong:", wrong))


def told(value: Any) -> str:
    """A value as a message shows it: itself if it is short, else its type."""
    plain = value is None or isinstance(value, str | bytes | Real | list | tuple | dict | set)
    text = repr(value) if plain else ""
    return text if text and len(text) <= LONGEST else f"a {type(value).__name__}"


def optional(kind: Kind) -> Kind:
    """The same kind, or None."""
    return Kind(lambda value: value is None or kind.holds(value), f"{kind.expected}, or None")


def either(one: Kind, other: Kind) -> Kind:
    """One kind or another."""
    return Kind(lambda value: one.holds(value) or other.holds(value), f"{one.expected}, or {other.expected}")


def many(kind: Kind, expected: str) -> Kind:
    """A list, tuple or other iterable of values of a kind; a text, a mapping or a module is none."""
    return Kind(lambda value: _is_series(value) and all(kind.holds(each) for each in value), expected)


def instance(of: type | tuple[type, ...], expected: str) -> Kind:
    """An object of a class, or of one of several."""
    return Kind(lambda value: isinstance(value, of), expected)


def count(least: int) -> Kind:
    """A whole number from some number on."""
    words = "a whole number, not negative" if least == 0 else f"a whole number from {least}"
    return Kind(lambda value: _is_whole(value) and value >= least, words)


def mapping(kind: Kind, expected: str) -> Kind:
    """A mapping of names to values of a kind."""
    return Kind(
        lambda value: (
            isinstance(value, Mapping)
            and all(isinstance(name, str) for name in value)
            and all(kind.holds(value[name]) for name in value)
        ),
        expected,
    )


def _is_series(value: Any) -> bool:
    others = (str, bytes, Mapping, nn.Module, set)
    return isinstance(value, list | tuple) or (
        isinstance(value, Iterable) and hasattr(value, "__len__") and not isinstance(value, others)
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) or (isinstance(value, Tensor) and value.dim() == 0)


def _is_device(value: Any) -> bool:
    if isinstance(value, torch.device):
        return True
    try:
        return isinstance(value, str) and bool(str(torch.device(value)))
    except RuntimeError:
        return False


def _is_matrix(value: Any) -> bool:
    try:
        return np.asarray(value, float).ndim == 2
    except (TypeError, ValueError):
        return False


NETWORK = instance(nn.Module, "a torch.nn.Module")
STATE = Kind(lambda value: isinstance(value, Mapping) and _names_tensors(value), "a state: a dict of tensors by name")
NETWORK_OR_STATE = either(NETWORK, STATE)
NETWORKS = many(NETWORK, "a list of torch.nn.Module: [a, b]")
NETWORKS_OR_STATES = many(NETWORK_OR_STATE, "a list of torch.nn.Module, or of states")
MATRIX = Kind(_is_matrix, "a matrix of numbers")
SEED = count(0)
NUMBER = Kind(lambda value: _is_number(value) and isfinite(value) and value >= 0, "a number, not negative")
SWITCH = Kind(lambda value: isinstance(value, bool), "True or False")
TEXT = instance(str, "a text")
FUNCTION = Kind(lambda value: callable(value) and not isinstance(value, type), "a function")
ITERABLE = Kind(
    lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes | nn.Module),
    "batches: a DataLoader, a list, any iterable",
)
PATH = Kind(lambda value: isinstance(value, str | os.PathLike), "a path")
WEIGHTS = many(Kind(_is_number, ""), "a list of numbers, one for each model")
PROGRESS = Kind(
    lambda value: isinstance(value, bool) or value == "always" or callable(value),
    'True, False, "always" or a function watch(stage, done, total)',
)
DEVICE = Kind(_is_device, "a device: 'cpu', 'cuda:0' or a torch.device")


def _names_tensors(value: Mapping[Any, Any]) -> bool:
    """Whether the keys are names; tensors of a state that is read from files are not read for it."""
    plain = isinstance(value, dict)
    return all(isinstance(name, str) for name in value) and (
        not plain or all(hasattr(each, "shape") for each in value.values())
    )
