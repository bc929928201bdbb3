"""From a module and example inputs to a graph of `aten` operations.

Two recorders speak the same language: `torch.export` (non-strict), and, where it refuses (packed sequences, branches
and shapes that depend on data), an eager recording by `make_fx` of what really ran on the example inputs. Both keep
LSTM, GRU and attention whole. What leaves for Python there is recorded too (`leaving`).

In: a module. Out: a `Recording`. Not here: what the operations mean (`rules`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from ..errors import TraceError
from ..modules import Arguments, canonical_names, first_line, tensors_in
from .branches import AS_IS, Question, Questions, Way
from .leaving import Leaving

Recorder = Literal["export", "eager"]
# Lines of the user's code, for reasons; PyTorch 2.8 has no such option: reasons of eager recordings name none there.
LINES = {"record_stack_traces": True} if "record_stack_traces" in signature(make_fx).parameters else {}


@dataclass(frozen=True, eq=False)
class Recording:
    """A graph of operations, and what its placeholders stand for.

    Args:
        graph: The operations.
        attributes: Constant tensors that the graph reads by name.
        state: Placeholder name -> name of the tensor in the state.
        constants: Placeholder name -> constant value.
        asked: How often values were asked for their truth, by place in the code; export refuses where they are.
    """

    graph: fx.Graph
    attributes: Mapping[str, Tensor]
    state: Mapping[str, str]
    constants: Mapping[str, Any]
    asked: Mapping[Question, int] = field(default_factory=dict)


def record(
    model: nn.Module, state: Mapping[str, Tensor], inputs: Arguments, recorder: Recorder | None = None
) -> Recording:
    """Record a model that runs; by export, or by eager recording where export refuses."""
    refusal = ""
    inputs = inputs.map(torch.clone)
    if recorder != "eager":
        try:
            with _silence():
                return _exported(model, state, inputs)
        except Exception as error:  # export refuses in many ways, all of them its own
            if recorder == "export":
                raise TraceError(f"torch.export refuses this model: {first_line(error)}") from error
            refusal = first_line(error)
    try:
        return recorded(model, state, inputs)
    except Exception as error:
        raise TraceError(
            f"{type(model).__name__} can neither be exported ({refusal or 'not tried'}) nor recorded eagerly "
            f"({first_line(error)}); write its layout by hand, starting from `print(layout)` of a similar network"
        ) from error


@contextmanager
def _silence() -> Iterator[None]:
    """No log lines of torch and no dumps of graphs: where export refuses, another recorder takes over.

    Other threads go on logging and printing; only the dumps that export itself makes of what it refuses are off.
    """
    mine = threading.get_ident()
    loggers = [each for name, each in [*logging.root.manager.loggerDict.items()]
               if name.startswith("torch") and isinstance(each, logging.Logger)]  # fmt: skip

    def others(record: logging.LogRecord) -> bool:
        return record.thread != mine

    from torch.export import _trace as export_trace  # late: it brings torch._dynamo and sympy, seconds of imports

    for logger in loggers:
        logger.addFilter(others)
    vars(export_trace)["print"] = lambda *args, **kwargs: None  # in place of the builtin, in that one module
    try:
        yield
    finally:
        vars(export_trace).pop("print", None)
        for logger in loggers:
            logger.removeFilter(others)


def _exported(model: nn.Module, state: Mapping[str, Tensor], inputs: Arguments) -> Recording:
    program = torch.export.export(model, inputs.args, dict(inputs.kwargs), strict=False)
    graph = program.graph_module.graph
    if any(isinstance(node.target, torch._ops.HigherOrderOperator) for node in graph.nodes):
        raise TraceError("the exported graph has nested graphs")
    if any(_depends_on_data(node) for node in graph.nodes):
        raise TraceError("the exported graph has numbers or shapes that depend on data")
    canonical = canonical_names(state)
    names, constants = {}, {}
    for spec in program.graph_signature.input_specs:
        if isinstance(spec.arg, ConstantArgument):
            constants[spec.arg.name] = spec.arg.value
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and spec.target in canonical:
            names[spec.arg.name] = canonical[spec.target]
        elif spec.kind is not InputKind.USER_INPUT:
            constants[spec.arg.name] = program.constants[spec.target]
    return Recording(graph, _attributes(program.graph_module), names, constants)


def _depends_on_data(node: fx.Node) -> bool:
    """Whether a node gives a number, or a tensor of a shape, that is known at run time only."""
    values = pytree.tree_leaves(node.meta.get("val"))
    numbers = [size for value in values if isinstance(value, Tensor) for size in value.shape]
    return any(isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) for number in [*values, *numbers])


def recorded(model: nn.Module, state: Mapping[str, Tensor], inputs: Arguments, turned: Way = AS_IS) -> Recording:
    """Record what really runs on the inputs, with some answers to questions of the forward pass turned."""
    questions = Questions(turned)
    leaves, spec = pytree.tree_flatten((inputs.args, dict(inputs.kwargs)))
    where = [index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    canonical = canonical_names(state)
    buffers = dict(model.named_buffers())
    own = {
        name: tensor.detach().clone() if name in buffers else tensor.detach()
        for name, tensor in state.items()
        if canonical[name] == name
    }

    def forward(own: dict[str, Tensor], tensors: list[Tensor]) -> list[Tensor]:
        filled = list(leaves)
        for index, tensor in zip(where, tensors, strict=True):
            filled[index] = tensor
        args, kwargs = pytree.tree_unflatten(filled, spec)
        with Leaving(), questions:
            return tensors_in(torch.func.functional_call(model, own, args, kwargs))

    traced = make_fx(
        forward,
        tracing_mode="real",
        pre_dispatch=True,
        _error_on_data_dependent_ops=False,
        **LINES,  # type: ignore[arg-type]  # mypy cannot see which option it is
    )(own, [leaves[index] for index in where])
    placeholders = [node.name for node in traced.graph.nodes if node.op == "placeholder"]
    names = dict(zip(placeholders, own, strict=False))
    return Recording(traced.graph, _attributes(traced), names, {}, questions.asked)


def _attributes(module: fx.GraphModule) -> dict[str, Tensor]:
    """Constant tensors that a graph reads from its module."""
    found = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value: Any = module
            for part in node.target.split("."):
                value = getattr(value, part)
            if isinstance(value, Tensor):
                found[node.target] = value
    return found
