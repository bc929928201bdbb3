"""The table of op rules: one decorator, one signature, and the table can be passed in.

A rule is a function `(algebra, call) -> labels` (or several, in the order of the op's results). It is found by
the op's name, with its overload (`aten::lstm.data`) or without (`aten::lstm`); in-place variants (`aten::relu_`) use
the rule of the plain op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree

from ...arguments import TEXT, check_arguments, many
from ..algebra import Algebra
from ..labels import Labels


@dataclass(frozen=True, eq=False)
class Call:
    """One operation of a recorded network.

    Args:
        name: Qualified name without overload, such as `aten::linear`.
        function: What was called, to be called again on integers.
        arguments: By name as in the op's schema, defaults filled in; tensors are labels, or plain
            tensors where they are constants.
        shapes: The shape of each result.
        live: Which of the results matter for the model's outputs.
        whole: Whether the (first) result is of whole numbers or truth values.
    """

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    live: frozenset[int] = frozenset([0])
    whole: bool = False

    def __getitem__(self, name: str) -> Any:
        """The argument of that name."""
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The argument of that name, or the default where the op has none (or has None)."""
        value = self.arguments.get(name)
        return default if value is None else value

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the (first) result."""
        return self.shapes[0]

    @property
    def tensors(self) -> list[Labels | Tensor]:
        """All tensor arguments, in order."""
        leaves = pytree.tree_leaves(list(self.arguments.values()))
        return [leaf for leaf in leaves if isinstance(leaf, Labels | Tensor)]


Rule = Callable[[Algebra, Call], "Labels | Sequence[Labels]"]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for ops of the `aten` library (`linear`) or of another (`library::op`).

    Raises:
        InputError: a name is no text; `@rule` without names and brackets is the usual cause.
    """
    check_arguments(names=(names, many(TEXT, "names of operations: @rule('linear')")))

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name if "::" in name else f"aten::{name}"] = function
        return function

    return register


def positive(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis % rank if rank else 0


def axes_of(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    """The axes that a `dim` argument names; none or an empty list: all."""
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return list(range(rank))
    return [positive(dim, rank) for dim in ([dims] if isinstance(dims, int) else dims)]
