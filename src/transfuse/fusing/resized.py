"""A network in the widths of a target, tried before the work.

In: a network, the shapes that its tensors would have, example inputs. Out: nothing, or one error. Not here: which
widths a layout allows (`widths`), and how layers are rebuilt (`modules`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..modules import Arguments, check_runs, first_line, model_state, undisturbed, with_state


def check_rebuilt(model: nn.Module, shapes: Mapping[str, tuple[int, ...]], example: Arguments | None) -> None:
    """Refuse a network that does not run in other widths: some sizes stand in code, or in layers without tensors.

    It is tried with its own weights, repeated, which are as good as any others for that.

    Args:
        model: The network.
        shapes: The shapes that its tensors would have.
        example: Inputs to run it on; none: its layers are rebuilt, and it is not run.

    Raises:
        InputError: layers cannot be rebuilt, or the network does not run.
    """
    state = model_state(model)
    twin = with_state(model, {name: _repeated(tensor.detach(), shapes[name]) for name, tensor in state.items()})
    if example is None:
        return
    try:
        with undisturbed(twin):
            check_runs(twin, model_state(twin), example)
    except InputError as error:
        cause = error if error.__cause__ is None else first_line(error.__cause__)
        raise InputError(
            f"the network cannot be rebuilt with these widths ({cause}): what says a size in its code, as "
            "x.view(-1, 512) does, stays as it is\nPass a module of the wanted widths as target"
        ) from error


def _repeated(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor of another shape, with the numbers of one over and over again along each axis."""
    for axis, length in enumerate(shape):
        places = torch.arange(length, device=tensor.device) % max(tensor.shape[axis], 1)
        tensor = tensor if tensor.shape[axis] == length else tensor.index_select(axis, places)
    return tensor
