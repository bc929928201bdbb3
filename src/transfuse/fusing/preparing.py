"""States on their way into a fusion and out of it: checks, working types, an order of models, aligned copies.

In: states as the user gave them, couplings. Out: states in which arithmetic is safe, new states in the user's types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

import torch
from torch import Tensor

from ..barycenter import Coupling, Problem, averages
from ..errors import InputError, listing
from ..layout import Layout
from ..modules import place_of
from ..types import State


def check_states(states: Sequence[State], layout: Layout, kind: torch.dtype) -> None:
    """Finite numbers, none too large for the working type, the same constants, shared memory only where allowed.

    Raises:
        InputError: with everything that is wrong.
    """
    problems = []
    largest = torch.finfo(kind).max ** 0.5
    for number, state in enumerate(states, start=1):
        problems += [f"model {number}: {text}" for text in _shared(state, layout)]
        for name, tensor in state.items():
            moves = any(axis.spaces for axis in layout.tensors[name])
            if tensor.is_complex() and moves:
                problems.append(f"model {number}: tensor {name} is complex and has units that move; fix its axes")
            if tensor.is_floating_point() or tensor.is_complex():
                problems += [
                    f"model {number}: tensor {name} {text}" for text in _unsafe(tensor, largest if moves else inf)
                ]
            elif not name.endswith("num_batches_tracked") and not torch.equal(tensor, states[0][name]):
                problems.append(f"model {number}: tensor {name} ({tensor.dtype}) differs from that of model 1")
    if problems:
        raise InputError(listing("these models cannot be fused:", problems))


def _unsafe(tensor: Tensor, largest: float) -> list[str]:
    """What is wrong with the numbers of a tensor. If their norm is small enough, none is, and no sum of products."""
    flat = tensor.detach().reshape(-1)
    if tensor.dtype in (torch.float32, torch.float64):
        small = float(torch.dot(flat, flat)) < largest**2  # half the time of the norm
    else:
        small = float(torch.linalg.vector_norm(flat)) < largest
    if small:
        return []
    if not tensor.isfinite().all():
        return ["holds NaN or infinity"]
    norm = float(torch.linalg.vector_norm(tensor.double())) if largest < inf else 0.0
    return [] if norm < largest else [f"has a norm of {norm:.2g}, too large for sums of products; use float64"]


def _shared(state: State, layout: Layout) -> list[str]:
    """Tensors that share memory and would be carried in different ways: one cannot hold both results."""
    found: dict[int, str] = {}
    problems = []
    for name, tensor in state.items():
        if not tensor.numel():
            continue
        other = found.setdefault(tensor.untyped_storage().data_ptr(), name)
        twin = state[other]
        if other == name or not _overlap(tensor, twin):
            continue
        if place_of(tensor) != place_of(twin):
            problems.append(f"tensor {name} overlaps {other} in memory without being the same; clone one of them")
        elif layout.tensors[name] != layout.tensors[other]:
            problems.append(
                f"tensors {name} and {other} are one in memory, but the layout moves them differently; give both the "
                "same axes, or clone one of them"
            )
    return problems


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Whether the spans of two tensors in one storage meet."""
    spans = []
    for tensor in (one, other):
        steps = (stride * (length - 1) for stride, length in zip(tensor.stride(), tensor.shape, strict=True))
        spans.append((tensor.data_ptr(), tensor.data_ptr() + tensor.element_size() * (1 + sum(steps))))
    return spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1]


def working_states(states: Sequence[State]) -> list[dict[str, Tensor]]:
    """The states with all floating-point tensors in one type in which sums of products are safe.

    Float64 if any is, else float32. What has that type already is not copied.
    """
    kind = working_type(tensor.dtype for state in states for tensor in state.values())
    return [
        {name: tensor.detach().to(kind) if tensor.is_floating_point() else tensor.detach() for name, tensor in each}
        for each in (state.items() for state in states)
    ]


def working_type(kinds: Iterable[torch.dtype]) -> torch.dtype:
    """The type in which sums of products of tensors of these types are safe."""
    return torch.float64 if {torch.float64, torch.complex128} & set(kinds) else torch.float32


def own_order(states: Sequence[State], weights: Sequence[float]) -> list[int]:
    """An order of models that depends on what they hold and not on the order in which they are given."""
    keys = [
        [weights[model]]
        + [float(tensor.sum(dtype=torch.float64)) for tensor in state.values() if tensor.is_floating_point()]
        for model, state in enumerate(states)
    ]
    return sorted(range(len(states)), key=keys.__getitem__)


def as_first_model(couplings: Sequence[Mapping[str, Coupling]]) -> list[dict[str, Coupling]]:
    """The same couplings, the target's units numbered (and signed) as the first model's where that one is permuted."""
    first = couplings[0]
    return [
        {name: coupling.after(first[name]) if first[name].hard else coupling for name, coupling in each.items()}
        for each in couplings
    ]


def as_type(tensor: Tensor, like: Tensor) -> Tensor:
    """A tensor in the type of another, which it shares no memory with."""
    new = tensor.to(like.dtype).contiguous()
    shares = new.untyped_storage().data_ptr() == like.untyped_storage().data_ptr()
    return new.clone(memory_format=torch.contiguous_format) if shares else new


def carried_away(
    problem: Problem,
    own: Sequence[dict[str, Tensor]],
    couplings: Sequence[Mapping[str, Coupling]],
    states: Sequence[State],
    *,
    aligned: bool = True,
) -> tuple[dict[str, Tensor], tuple[dict[str, Tensor], ...], float]:
    """The fused state in the types of the first model, every model in the common order, in its own types, and F.

    The working states are emptied: a tensor is let go as soon as it is carried, which happens once for all of these. At
    no time are there two more copies of all models, nor of one tensor of all of them.
    """
    fused: dict[str, Tensor] = {}
    objective = 0.0
    kept: tuple[dict[str, Tensor], ...] = tuple({} for _ in own if aligned)
    for name in list(own[0]):
        if averages(own[0][name]):
            parts = [_in_place(problem, own[model], name, model, couplings[model]) for model in range(len(kept))]
            mean, term = problem.averaged(name, couplings, parts)
            objective += term
        else:
            parts = [problem.carried(model, name, couplings[model]) for model in range(len(kept))]
            mean = problem.carried(0, name, couplings[0])
        fused[name] = as_type(mean, states[0][name])
        for part, new, given in zip(parts, kept, states, strict=False):
            new[name] = as_type(part, given[name])
        for state in own:
            del state[name]
    return fused, kept, objective


def _in_place(
    problem: Problem, state: dict[str, Tensor], name: str, model: int, couplings: Mapping[str, Coupling]
) -> Tensor:
    """A carried tensor. It takes the place of the model's where units are permuted: that is not needed any more."""
    part = problem.carried(model, name, couplings)
    if all(couplings[pair.target.space].hard for pair in problem.blocks.get(name, ())):
        state[name] = part
    return part
