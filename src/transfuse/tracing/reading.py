"""Reading recordings: every operation by its rule, from the first placeholder to the outputs.

In: recordings of one network, one for each way through its code, and a table of rules. Out: the registry of units, and
the ids on the axes of each tensor of the state.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from ..errors import TraceError
from ..modules import is_mask
from .algebra import Algebra
from .labels import Labels
from .leaving import leaves, length_argument
from .memory import Memory, mutates
from .recording import Recording
from .registry import Registry
from .rules import Call, Rule

Unknown = Literal["fix", "raise"]
_PACKAGES = (str(Path(torch.__file__).parent), str(Path(__file__).parent))


@dataclass
class Reading:
    """What reading a network has found.

    Args:
        registry: Relations between the ids of units.
        ids: For each tensor of the state and each of its axes longer than 1, the ids on it.
        used: Names of the tensors that the network reads.
        idle: Those of them that are read for nothing: what is computed from them is not returned.
    """

    registry: Registry
    ids: dict[str, dict[int, Tensor]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    idle: set[str] = field(default_factory=set)


def read(
    recordings: Iterable[Recording], state: Mapping[str, Tensor], *, rules: Mapping[str, Rule],
    unknown: Unknown = "fix", algebra: Algebra | None = None, still: Collection[str] = (),
) -> Reading:  # fmt: skip
    """Read every operation by its rule, in all recordings of one network: what is found holds for each of them.

    Rules are read in the algebra of units, or in another one. Tensors that are `still` are constants to it: each of
    their positions is its own, and none moves.

    Raises:
        TraceError: for an operation without a rule, if `unknown` is "raise".
    """
    reader = _Reader(state, rules, unknown, algebra or Algebra(), still)
    for recording in recordings:
        reader.follow(recording)
    return reader.reading


class _Reader:
    def __init__(
        self, state: Mapping[str, Tensor], rules: Mapping[str, Rule], unknown: Unknown, algebra: Algebra,
        still: Collection[str],
    ) -> None:  # fmt: skip
        self.state, self.rules, self.unknown, self.algebra, self.still = state, rules, unknown, algebra, still
        self.reading = Reading(self.algebra.registry)
        self.parameters: dict[str, Labels] = {}  # of all recordings: a tensor has the same units in each
        self.effective: set[str] = set()  # tensors that are not idle in each of them

    def follow(self, recording: Recording) -> None:
        """Read one recording; what others have shown of the tensors stays."""
        self.recording = recording
        self.values: dict[fx.Node, Any] = {}
        self.live = _live(recording.graph)
        self.idle = _idle(recording, self.live)
        self.memory = Memory() if any(map(mutates, recording.graph.nodes)) else None
        for node in recording.graph.nodes:
            if node in self.live or node in self.idle:
                self.step(node)
        self.reading.idle = self.reading.used - self.effective

    def step(self, node: fx.Node) -> None:
        """Read one operation."""
        if node.op == "placeholder":
            self.values[node] = self._placeholder(node)
        elif node.op == "get_attr":
            self.values[node] = self._attribute(str(node.target))
        elif node.op == "output":
            self._output(node)
        elif node.target is operator.getitem:
            whole, index = node.args
            self.values[node] = self.values[whole][index]  # type: ignore[index]
        else:
            self.values[node] = self._call(node)
        if self.memory is not None and node.op != "output":
            self.memory.follow(node, self.values, self.algebra)

    def _attribute(self, name: str) -> Tensor | None:
        """A constant that the recorder kept."""
        value = self.recording.attributes.get(name)
        if value is not None and torch._C._functorch.is_functorch_wrapped_tensor(value):
            raise TraceError(
                "the forward pass keeps a tensor inside of a transformed function (torch.func: vmap, jacrev), which "
                "cannot be recorded; write it without the transform, or write the layout by hand"
            )
        return None if value is None else value.clone()

    def _placeholder(self, node: fx.Node) -> Any:
        if node.name in self.recording.constants:
            value = self.recording.constants[node.name]
            return value.clone() if isinstance(value, Tensor) else value
        name = self.recording.state.get(node.name)
        if name is None:
            example = node.meta.get("val")
            self.algebra.where = "a model input"
            return self.algebra.source(example.shape) if isinstance(example, Tensor) else example
        tensor = self.state[name]
        self.reading.used.add(name)
        if node in self.live:
            self.effective.add(name)
        if not (tensor.is_floating_point() or tensor.is_complex()) or is_mask(tensor):
            return tensor.clone()
        if name in self.still:
            return self.parameters.setdefault(name, replace(self.algebra.source(tensor.shape), weight=True))
        if name not in self.parameters:
            labels = self.parameters[name] = self.algebra.parameter(tensor.shape, name)
            axes = [axis for axis, length in enumerate(tensor.shape) if length > 1]
            if labels.units:  # other algebras have none
                self.reading.ids[name] = {axis: ids.reshape(-1) for axis, ids in zip(axes, labels.units, strict=True)}
        return self.parameters[name]

    def _output(self, node: fx.Node) -> None:
        self.algebra.where = ""
        for result in pytree.tree_leaves(node.args):
            value = self.values.get(result) if isinstance(result, fx.Node) else None
            if isinstance(value, Labels):
                self.algebra.pinned(value, None, "is returned by the model")

    def _call(self, node: fx.Node) -> Any:
        args, kwargs = pytree.tree_map_only(
            fx.Node, lambda argument: self.values[argument], (node.args, dict(node.kwargs)),
            is_leaf=lambda leaf: isinstance(leaf, fx.Node),
        )  # fmt: skip
        operands = pytree.tree_leaves((args, kwargs), is_leaf=_is_labels)
        if not any(map(_is_labels, operands)):
            return self._without_labels(node, args, kwargs)
        self.algebra.where = _where(node)
        if not isinstance(node.target, torch._ops.OpOverload):
            return self._without_rule(node, str(node.target), operands, "has no rule")
        call = _bind(node, args, kwargs, _live_results(node, self.live))
        rule = self.rules.get(f"{call.name}.{node.target._overloadname}") or self.rules.get(call.name)
        left = self._left(node, call) if leaves(node) else None
        if left is not None or not call.shapes:
            return left
        if rule is None:
            return self._without_rule(node, call.name, operands, "has no rule")
        try:
            results = rule(self.algebra, call)
        except Exception as error:  # a rule that meets what it was not written for: fixed, never guessed
            return self._without_rule(node, call.name, operands, f"met what its rule does not know ({error})")
        return _checked(node, call, results)

    def _without_labels(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        """A constant, computed as it is; or random numbers, of which each position has its own."""
        if _draws(node):
            return self.algebra.source(_shapes(node)[0])
        return node.target(*args, **kwargs)  # type: ignore[operator]

    def _left(self, node: fx.Node, call: Call) -> Any:
        """The results of an operation by which values leave for Python: fixed; nothing where its rule goes on."""
        why = "its value is read by Python code"
        if name := length_argument(node):
            self.algebra.opaque((), pytree.tree_leaves(call[name], is_leaf=_is_labels), why)
            return None
        results = [self.algebra.opaque(shape, call.tensors, why) for shape in call.shapes or [()]]
        return results[0] if len(call.shapes) < 2 else results

    def _without_rule(self, node: fx.Node, name: str, operands: Sequence[Any], why: str) -> Any:
        if self.unknown == "raise" and node in self.live:
            raise TraceError(f"{name} {why}, {_where(node)}; pass a rule for it, or unknown='fix'")
        tensors = [value for value in operands if isinstance(value, Labels | Tensor)]
        results = [self.algebra.opaque(shape, tensors, f"{name} {why}") for shape in _shapes(node)]
        return results[0] if isinstance(node.meta.get("val"), Tensor) else results


def _draws(node: fx.Node) -> bool:
    """Whether an operation draws random numbers, which are others in every run."""
    tags = node.target.tags if isinstance(node.target, torch._ops.OpOverload) else ()
    return torch.Tag.nondeterministic_seeded in tags and isinstance(node.meta.get("val"), Tensor)


def _is_labels(value: object) -> bool:
    return isinstance(value, Labels)


def _live(graph: fx.Graph) -> set[fx.Node]:
    """Operations that the outputs depend on, that write to memory, or whose result Python reads."""
    live: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        reads = node.op == "output" or mutates(node) or leaves(node)
        if reads or any(user in live for user in node.users):
            live.add(node)
    return live


def _idle(recording: Recording, live: set[fx.Node]) -> set[fx.Node]:
    """Operations without effect on tensors that nothing else reads, and all that they need.

    They are read so that these tensors move with what they meet: the network may remember the results.
    """
    nodes = list(recording.graph.nodes)
    found = {node for node in nodes if node.name in recording.state and node.users and node not in live}
    for node in nodes:
        if node not in live and any(argument in found for argument in node.all_input_nodes):
            found.add(node)
    for node in reversed(nodes):
        if any(user in found for user in node.users):
            found.add(node)
    return found


def _live_results(node: fx.Node, live: set[fx.Node]) -> frozenset[int]:
    """Which results of an operation with several are read."""
    picked = {user.args[1] for user in node.users if user in live and user.target is operator.getitem}
    return frozenset(index for index in picked if isinstance(index, int)) or frozenset([0])


def _bind(node: fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any], live: frozenset[int]) -> Call:
    """The call's arguments by the names of its schema."""
    schema = node.target._schema  # type: ignore[union-attr]
    arguments = {}
    for index, argument in enumerate(schema.arguments):
        if index < len(args):
            arguments[argument.name] = args[index]
        elif argument.name in kwargs:
            arguments[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            arguments[argument.name] = argument.default_value
    name = schema.name
    function: Callable[..., Any] = node.target  # type: ignore[assignment]
    if schema.is_mutable and name.endswith("_"):
        name = name.removesuffix("_")
        library, plain = name.split("::")
        packet = getattr(getattr(torch.ops, library), plain, None)
        function = function if packet is None else packet
    return Call(name, function, arguments, _shapes(node), live, _is_whole(node))


def _is_whole(node: fx.Node) -> bool:
    """Whether an operation gives whole numbers or truth values."""
    first = next(iter(pytree.tree_leaves(node.meta.get("val"))), None)
    return isinstance(first, Tensor) and not (first.is_floating_point() or first.is_complex())


def _shapes(node: fx.Node) -> tuple[tuple[int, ...], ...]:
    """The shape of each tensor that an operation gives."""
    results = pytree.tree_leaves(node.meta.get("val"))
    return tuple(tuple(result.shape) for result in results if isinstance(result, Tensor))


def _checked(node: fx.Node, call: Call, results: Any) -> Any:
    """The results of a rule in the form of the op's own, after a check of their shapes."""
    single = isinstance(node.meta.get("val"), Tensor)
    found = [results] if isinstance(results, Labels) else list(results)
    if len(found) < len(call.shapes) or any(
        value.shape != shape for value, shape in zip(found, call.shapes, strict=False)
    ):
        got = [list(value.shape) for value in found]
        raise TraceError(
            f"the rule for {call.name} gave labels of shapes {got}, the operation gives "
            f"{[list(shape) for shape in call.shapes]}, {_where(node)}; correct the rule"
        )
    return found[0] if single else found


def _where(node: fx.Node) -> str:
    """The operation and the line of the user's code that called it."""
    name = str(node.target)
    for file, line in reversed(list(_frames(node.meta.get("stack_trace") or ""))):
        if not file.startswith(_PACKAGES):
            return f"{name} at {Path(file).name}:{line}"
    return name


def _frames(trace: str) -> Iterator[tuple[str, str]]:
    """File and line of each frame in a stack trace."""
    for text in trace.splitlines():
        words = text.strip().split('"')
        if len(words) == 3 and words[0] == "File " and words[2].startswith(", line "):
            yield words[1], words[2].removeprefix(", line ").split(",")[0]
