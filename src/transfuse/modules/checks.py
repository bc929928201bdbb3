"""Modules that cannot be traced or run as they are, refused with every problem at once and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ..errors import FusionError, InputError, listing
from ..types import State
from .guards import alone
from .running import Arguments, run

LABELS = ". If this is a batch (inputs, labels) of a loader, pass the inputs alone: example_inputs[0]"


@alone()  # another thread may be recording this model, which puts tensors without values into it
def check_model(model: nn.Module, called: str = "this model") -> None:
    """Refuse a module that cannot be traced, with every problem at once.

    Raises:
        InputError: naming each tensor that is lazy, quantised, sparse or without data, and what to do.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"model is {type(model).__name__}; expected a torch.nn.Module")
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError("model is TorchScript, whose operations cannot be recorded; pass the original module")
    problems = []
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if nn.parameter.is_lazy(tensor):
            problems.append(f"{name} is not initialised: run the model once on real inputs (lazy modules need it)")
        elif tensor.is_quantized:
            problems.append(f"{name} is quantised: dequantise the model first")
        elif tensor.layout is not torch.strided:
            problems.append(f"{name} is sparse ({tensor.layout}): make it dense with .to_dense() first")
        elif tensor.is_meta:
            problems.append(f"{name} is on the meta device and has no values: load the weights first")
    for name, module in model.named_modules():
        if "quantized" in type(module).__module__:
            problems.append(f"module {name} ({type(module).__name__}) is quantised: trace the float model instead")
    if problems:
        raise InputError(listing(f"{called} cannot be traced as it is:", problems))


def check_runs(model: nn.Module, state: State, inputs: Arguments) -> list[Tensor]:
    """The output tensors of a model on the example inputs, on which it is run twice, with the same random numbers.

    Raises:
        InputError: if it raises, returns no tensor, returns something else the second time, or drops units at random.
    """
    tensors = [leaf for leaf in pytree.tree_leaves((inputs.args, dict(inputs.kwargs))) if isinstance(leaf, Tensor)]
    if any(tensor.is_meta or not _has_numbers(tensor) for tensor in tensors):
        raise InputError(
            f"{type(model).__name__}.forward cannot run on an example input that has no finite number (or is on the "
            "meta device); pass example inputs with values: a tensor, a tuple, or a dict of keyword arguments"
        )
    try:
        with _Dropping() as dropping:
            first = run(model, _copied(state), inputs)
        second = run(model, _copied(state), inputs)
    except FusionError:
        raise
    except Exception as error:
        shapes = [list(tensor.shape) for tensor in tensors]
        raise InputError(
            f"{type(model).__name__}.forward raised {type(error).__name__} on the example inputs (tensors of shapes "
            f"{shapes}): {first_line(error)}. Pass example inputs that the model accepts: a tensor, a tuple of "
            f"positional arguments, or a dict of keyword arguments{LABELS if len(inputs.args) > 1 else ''}"
        ) from error
    name = type(model).__name__
    if not first:
        raise InputError(f"{name}.forward returned no tensor; return tensors, or containers of them")
    if not any(bool(tensor.isfinite().any()) for tensor in first):
        raise InputError(
            f"{name}.forward returned no finite number on the example inputs, which proves nothing; check the "
            "weights and the inputs for NaN and infinity, and that the batch is not empty"
        )
    if len(first) != len(second) or any(
        a.shape != b.shape or not torch.equal(a.nan_to_num(), b.nan_to_num())
        for a, b in zip(first, second, strict=False)
    ):
        raise InputError(
            f"{name}.forward gives different results when it is run twice in evaluation mode, with the same random "
            "numbers; what it remembers from call to call, or draws from generators of its own, must not show"
        )
    if dropping.found:
        raise InputError(
            f"{name}.forward drops units at random in evaluation mode too ({dropping.found}), so that units cannot be "
            "told from each other; write F.dropout(x, p, training=self.training), or use nn.Dropout"
        )
    return first


class _Dropping(TorchFunctionMode):
    """Notices dropout that ignores evaluation mode."""

    found = ""  # the name of the function

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        trains = "dropout" in name and bool(kwargs.get("training", kwargs.get("train", any(a is True for a in args))))
        if trains or (name == "scaled_dot_product_attention" and kwargs.get("dropout_p", 0.0) > 0):
            self.found = self.found or name
        return func(*args, **kwargs)


def _has_numbers(tensor: Tensor) -> bool:
    """Whether an input has a finite number, or nothing in it at all; sparse ones are taken at what is stored."""
    stored = tensor.coalesce().values() if tensor.layout is torch.sparse_coo else tensor
    if tensor.layout not in (torch.strided, torch.sparse_coo):
        stored = tensor.values()
    return not stored.numel() or bool(stored.isfinite().any())


def _copied(state: State) -> dict[str, Tensor]:
    """A state that a forward pass may write to."""
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def acts_otherwise_in_training(model: nn.Module) -> bool:
    """Whether a network has layers that compute something else in training mode: dropout, batch norm."""
    kinds = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)
    return any(isinstance(layer, kinds) for layer in model.modules())


def can_be_corrected(model: nn.Module) -> bool:
    """Whether a network has parameters of real numbers, none of them too coarse for sums of products."""
    kinds = {tensor.dtype for tensor in model.parameters()}
    return bool(kinds & {torch.float32, torch.float64}) and not kinds & {torch.float16, torch.bfloat16}


def cause_of(error: Exception) -> str:
    """What an error says to a user: the text of one that is raised on purpose, type and first line of any other."""
    return str(error) if isinstance(error, FusionError) else first_line(error)


def first_line(error: BaseException) -> str:
    """The type of an error and the first line of its text."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0].strip()}" if text else type(error).__name__
