"""Couplings that are known before anything is matched: from an earlier fusion, or from how a state was made.

In: matrices by space, for some of the states. Out: couplings of the working type, or one error with all that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from ..barycenter import Coupling, CouplingMatrices, Couplings, coupling_of
from ..errors import InputError, listing
from ..layout import Framed, Layout, Permutation, Rotation
from ..lazy import working_type
from ..types import State


def known_couplings(
    given: Sequence[State | None] | None, states: Sequence[State], layout: Layout, widths: Mapping[str, int]
) -> list[Couplings | None]:
    """Couplings from matrices [target units, model units] by space, one mapping (or None) for each state.

    Raises:
        InputError: there are other numbers of them, or matrices do not fit; all of them are named.
    """
    if given is None:
        return []
    if len(given) != len(states):
        raise InputError(f"{len(given)} couplings for {len(states)} states; give one for each, or None for some")
    problems = []
    for number, (own, state) in enumerate(zip(given, states, strict=True), start=1):
        if own is not None:
            problems += [f"model {number}: {text}" for text in _misfits(own, layout, layout.widths(state), widths)]
    if problems:
        raise InputError(listing("couplings that cannot be started from:", problems))
    kind = working_type(states)
    return [None if own is None else {name: _coupling(own, name, kind) for name in widths} for own in given]


def _found(given: State, name: str) -> Coupling | None:
    """The coupling of a space as an earlier fusion found it; none where a matrix was given."""
    return given.couplings[name] if isinstance(given, CouplingMatrices) else None


def _coupling(given: State, name: str, kind: torch.dtype) -> Coupling:
    """The coupling of a space; a permutation that is kept as an index is not written out as a matrix."""
    found = _found(given, name)
    if isinstance(found, Permutation):
        return Permutation(found.order, found.factor.to(kind))
    return coupling_of(given[name].to(kind))


def turns(given: State) -> bool:
    """Whether an earlier fusion rotated a space, or mixed what is inside of units: that is always searched for anew."""
    return any(isinstance(_found(given, name), Rotation | Framed) for name in given)


def _misfits(given: State, layout: Layout, own: Mapping[str, int], wanted: Mapping[str, int]) -> Iterator[str]:
    """What is wrong with couplings of a model."""
    for space in layout.spaces:
        name, shape = space.name, [wanted[space.name], own[space.name]]
        if name not in given:
            yield f"space {name} has no coupling; give its matrix [target units, model units]"
            continue
        found = _found(given, name)
        if isinstance(found, Rotation | Framed):
            yield f"space {name} was rotated, or mixed inside of its units; give None for this model"
            continue
        if isinstance(found, Permutation):
            got, sums, least = [found.width] * 2, found.factor.abs(), found.factor.min()
        else:
            matrix = given[name]
            got, sums, least = list(matrix.shape), matrix.abs().sum(-1), matrix.min()
        if got != shape:
            yield f"space {name} has a matrix of shape {got}; expected {shape}"
        elif not bool(torch.isclose(sums, sums.new_ones(()), atol=1e-4).all()):
            yield f"space {name} has rows that do not sum to 1 (signs left out)"
        elif least < 0 and not space.signs:
            yield f"space {name} has negative entries, but its units may not be negated"
