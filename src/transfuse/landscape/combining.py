"""Affine combinations of networks: points on segments, planes and simplices between them.

In: modules or states of one architecture and width. Out: the network at given coefficients. Not here: which points,
and what is measured there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from ..errors import InputError, listing
from ..modules import state_of, twin_of
from ..types import State

ModuleOrState = nn.Module | State
Coefficients = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Family:
    """Networks of one architecture and width, of which affine combinations are made.

    Args:
        states: The tensors of the networks, on one device.
        model: A private copy of the first network, into which combinations are written; nothing if they are states.
    """

    states: tuple[dict[str, Tensor], ...]
    model: nn.Module | None

    @staticmethod
    def of(networks: Mapping[str, ModuleOrState]) -> Family:
        """A family of named networks, which are checked to fit each other.

        Raises:
            InputError: they differ in names, shapes or constants of tensors, with every difference; or some are
                modules and some states.
        """
        states = {name: state_of(network) for name, network in networks.items()}
        first = next(iter(networks.values()))
        if len({isinstance(network, nn.Module) for network in networks.values()}) > 1:
            raise InputError("some networks are modules and some are states; give all of them as one kind")
        _check_alike(states)
        devices = {name: tensor.device for name, tensor in states[next(iter(states))].items()}
        moved = [{name: state[name].to(device) for name, device in devices.items()} for state in states.values()]
        return Family(tuple(moved), twin_of(first) if isinstance(first, nn.Module) else None)

    def at(self, coefficients: Coefficients) -> ModuleOrState:
        """The network `sum_i c_i W_i` for coefficients that sum to 1; a module is overwritten by the next call."""
        if self.model is None:
            out = {name: torch.empty_like(tensor) for name, tensor in self.states[0].items()}
        else:
            out = state_of(self.model)
        for name, target in out.items():
            target.copy_(combined([state[name] for state in self.states], coefficients))
            if name.endswith("running_var"):
                target.clamp_(min=0)  # beyond the networks (a coefficient below 0) a variance could become negative
        return out if self.model is None else self.model.eval()

    @cached_property
    def fingerprints(self) -> tuple[str, ...]:
        """A short hash of the content of each network."""
        return tuple(_fingerprint(state) for state in self.states)


def combined(tensors: Sequence[Tensor], coefficients: Coefficients) -> Tensor:
    """`sum_i c_i T_i` for coefficients that sum to 1, written around the tensor with the largest one.

    Written so, it is exact at each of the tensors and where all are equal. Of integers the first tensor is given.

    Example:
        >>> combined([torch.zeros(2), torch.ones(2)], (0.25, 0.75))
        tensor([0.7500, 0.7500])
    """
    if not (tensors[0].is_floating_point() or tensors[0].is_complex()):
        return tensors[0]
    pivot = max(range(len(tensors)), key=lambda number: coefficients[number])
    base = _safe(tensors[pivot])
    total = base
    for number, (coefficient, tensor) in enumerate(zip(coefficients, tensors, strict=True)):
        if number != pivot and coefficient != 0:
            total = torch.add(total, _safe(tensor) - base, alpha=coefficient)
    return total


def _safe(tensor: Tensor) -> Tensor:
    """A tensor in a type in which sums keep their digits."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _check_alike(states: Mapping[str, State]) -> None:
    """Check that all states have the same tensors, of the same shapes, and the same constants."""
    (first, reference), *others = states.items()
    problems = []
    for name, state in others:
        problems += [f"{first} has {key}, which {name} has not" for key in reference if key not in state]
        problems += [f"{name} has {key}, which {first} has not" for key in state if key not in reference]
        for key in [key for key in reference if key in state]:
            one, two = reference[key], state[key]
            if one.shape != two.shape:
                problems.append(f"{key} is {list(one.shape)} in {first} and {list(two.shape)} in {name}")
            elif _is_constant(key, one) and not torch.equal(one, two.to(one.device)):
                problems.append(f"{key} ({one.dtype}) holds other constants in {first} than in {name}")
    if problems:
        raise InputError(
            listing("these networks cannot be combined tensor by tensor, because they differ:", problems)
            + "\nGive networks of one architecture and width"
        )


def _is_constant(name: str, tensor: Tensor) -> bool:
    """Whether a tensor is a constant of the architecture, such as a table of indices, and not a trained number."""
    return not (tensor.is_floating_point() or tensor.is_complex() or name.endswith("num_batches_tracked"))


def _fingerprint(state: State) -> str:
    """A short hash of names, types, shapes and numbers: equal for equal states only."""
    digest = hashlib.sha256()
    for name, tensor in state.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
