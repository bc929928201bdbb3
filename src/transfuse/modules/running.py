"""Running modules: example inputs as arguments, a run with another state, the numbers in an output.

In: a module, its state, arguments. Out: output tensors. Not here: what keeps a module and random states as they were
(`guards`), what is refused (`checks`), and where tensors are in an output (`outputs`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..errors import InputError
from ..types import State
from .guards import seed_random_states
from .outputs import tensors_in


@dataclass(frozen=True)
class Arguments:
    """Example inputs as positional and keyword arguments."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @staticmethod
    def of(example_inputs: Any) -> Arguments:
        """The arguments in a tensor, a tuple (or list) of positional arguments, or a dict of keyword arguments.

        A named tuple, such as a packed sequence, is one argument.

        Raises:
            InputError: it is something else.
        """
        if isinstance(example_inputs, Tensor) or hasattr(example_inputs, "_fields"):
            return Arguments((example_inputs,))
        if isinstance(example_inputs, Mapping):
            return Arguments((), dict(example_inputs))
        if isinstance(example_inputs, tuple | list):
            return Arguments(tuple(example_inputs))
        raise InputError(
            f"example_inputs is {type(example_inputs).__name__}; expected a tensor, a tuple of positional arguments, "
            "or a dict of keyword arguments: of a loader of (inputs, labels), next(iter(loader))[0]"
        )

    def map(self, function: Callable[[Tensor], Tensor]) -> Arguments:
        """These arguments with a function applied to every tensor in them."""
        args, kwargs = pytree.tree_map_only(Tensor, function, (self.args, dict(self.kwargs)))
        return Arguments(args, kwargs)


def run(model: nn.Module, state: State, inputs: Arguments) -> list[Tensor]:
    """The tensors in the output of a model that runs with another state; neither is changed by it.

    Random numbers that it draws are the same in every run.
    """
    seed_random_states(0)
    return tensors_in(called(model, state, inputs))


def called(model: nn.Module, state: State, inputs: Arguments) -> Any:
    """The output of a model that runs with another state, on copies of inputs and buffers: it may write to them.

    Of tied tensors the first counts.
    """
    chosen = {name: state[name] for name, _ in model.named_parameters() if name in state}
    chosen |= {name: state[name].clone() for name, _ in model.named_buffers() if name in state}
    fresh = inputs.map(torch.clone)
    return torch.func.functional_call(model, chosen, fresh.args, dict(fresh.kwargs))


def numbers_in(outputs: Any) -> Tensor:
    """All floating-point numbers in an output, in float64, one after another.

    Raises:
        InputError: there are none, or some are NaN or infinite.

    Example:
        >>> numbers_in({"scores": torch.ones(1, 2), "count": 3})
        tensor([1., 1.], dtype=torch.float64)
    """
    found = [tensor for tensor in tensors_in(outputs) if tensor.is_floating_point()]
    if not found:
        raise InputError(
            f"the network gives no tensor of floats but {type(outputs).__name__}; pass forward= to get one"
        )
    numbers = torch.cat([tensor.flatten().double() for tensor in found])
    if not bool(numbers.isfinite().all()):
        raise InputError("the network gives NaN or infinity on the data; check the inputs and the weights")
    return numbers
