"""Running modules without leaving a trace on them: example inputs, evaluation mode, random states, outputs.

In: a module, its state, arguments. Out: output tensors, or an error that says why it does not run. Modules, buffers and
random states are put back as they were.
"""

from __future__ import annotations

import copy
import dataclasses
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..errors import InputError, listing


@dataclass(frozen=True)
class Arguments:
    """Example inputs as positional and keyword arguments."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @staticmethod
    def of(example_inputs: Any) -> Arguments:
        """From a tensor, a tuple (or list) of positional arguments, or a dict of keyword arguments."""
        if isinstance(example_inputs, Tensor):
            return Arguments((example_inputs,))
        if isinstance(example_inputs, Mapping):
            return Arguments((), dict(example_inputs))
        if isinstance(example_inputs, tuple | list):
            return Arguments(tuple(example_inputs))
        raise InputError(
            f"example_inputs is {type(example_inputs).__name__}; expected a tensor, a tuple of positional arguments, "
            "or a dict of keyword arguments"
        )

    def map(self, function: Callable[[Tensor], Tensor]) -> Arguments:
        """The same arguments with a function applied to every tensor."""
        args, kwargs = pytree.tree_map_only(Tensor, function, (self.args, dict(self.kwargs)))
        return Arguments(args, kwargs)


def model_state(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name, in the order of `state_dict`, tied ones under each name."""
    named = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    saved = model.state_dict()
    return {name: named[name] for name in saved if name in named}


def canonical_names(state: Mapping[str, Tensor]) -> dict[str, str]:
    """For each tensor the first name under which it stands: tied tensors have one."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(tensor), name) for name, tensor in state.items()}


def check_model(model: nn.Module) -> None:
    """Refuse what cannot be traced, with every problem at once.

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
        raise InputError(listing("this model cannot be traced as it is:", problems))


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and a private random state; modules, buffers and random states are put back afterwards."""
    modules = [_ModuleBefore.of(module) for module in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    python_random, numpy_random = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.backends.mha.set_fastpath_enabled(False)
            model.eval()
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        random.setstate(python_random)
        np.random.set_state(numpy_random)
        for before in modules:
            before.put_back()
        for buffer, value in buffers:
            if not torch.equal(buffer.detach(), value):
                buffer.data.copy_(value)


@dataclass(frozen=True, eq=False)
class _ModuleBefore:
    """The attributes of a module, and the contents of those that are containers, as they were."""

    module: nn.Module
    attributes: dict[str, Any]
    contents: dict[str, Any]

    @staticmethod
    def of(module: nn.Module) -> _ModuleBefore:
        attributes = dict(vars(module))
        contents = {
            name: copy.copy(value) for name, value in attributes.items() if isinstance(value, dict | list | set)
        }
        return _ModuleBefore(module, attributes, contents)

    def put_back(self) -> None:
        vars(self.module).clear()
        vars(self.module).update(self.attributes)
        for name, content in self.contents.items():
            container = self.attributes[name]
            container.clear()
            container.extend(content) if isinstance(container, list) else container.update(content)


def run(model: nn.Module, state: Mapping[str, Tensor], inputs: Arguments) -> list[Tensor]:
    """The tensors in the output of a model that runs with another state; neither is changed by it."""
    torch.manual_seed(0)
    return tensors_in(_call(model, state, inputs))


def _call(model: nn.Module, state: Mapping[str, Tensor], inputs: Arguments) -> Any:
    """Run a model on copies of the inputs and buffers, since it may write to them; of tied tensors the first counts."""
    chosen = {name: state[name] for name, _ in model.named_parameters() if name in state}
    chosen |= {name: state[name].clone() for name, _ in model.named_buffers() if name in state}
    fresh = inputs.map(torch.clone)
    return torch.func.functional_call(model, chosen, fresh.args, dict(fresh.kwargs))


def tensors_in(output: Any) -> list[Tensor]:
    """All tensors in an output: nested tuples, lists, dicts, dataclasses."""
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, Mapping):
        parts: Sequence[Any] = list(output.values())
    elif isinstance(output, list | tuple):
        parts = output
    elif dataclasses.is_dataclass(output) and not isinstance(output, type):
        parts = [getattr(output, field.name) for field in dataclasses.fields(output)]
    else:
        parts = []
    return [tensor for part in parts for tensor in tensors_in(part)]


def check_runs(model: nn.Module, state: Mapping[str, Tensor], inputs: Arguments) -> list[Tensor]:
    """Run the model on the example inputs, twice; its output tensors.

    Raises:
        InputError: if it raises, returns no tensor, or returns something else the second time.
    """
    tensors = [leaf for leaf in pytree.tree_leaves((inputs.args, dict(inputs.kwargs))) if isinstance(leaf, Tensor)]
    if any(tensor.is_meta or (tensor.numel() and not bool(tensor.isfinite().any())) for tensor in tensors):
        raise InputError(
            f"{type(model).__name__}.forward cannot run on an example input that has no finite number (or is on the "
            "meta device); pass example inputs with values: a tensor, a tuple, or a dict of keyword arguments"
        )
    try:
        first = run(model, state, inputs)
        torch.rand(7)  # the second run starts from another random state
        second = tensors_in(_call(model, state, inputs))
    except Exception as error:
        shapes = [list(tensor.shape) for tensor in tensors]
        raise InputError(
            f"{type(model).__name__}.forward raised {type(error).__name__} on the example inputs (tensors of shapes "
            f"{shapes}): {first_line(error)}. Pass example inputs that the model accepts: a tensor, a tuple of "
            "positional arguments, or a dict of keyword arguments"
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
            f"{name}.forward gives different results when it is run twice in evaluation mode; "
            "remove the randomness (dropout that ignores eval mode, sampling, added noise) before tracing"
        )
    return first


def first_line(error: BaseException) -> str:
    """The type of an error and the first line of its text."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0].strip()}" if text else type(error).__name__
