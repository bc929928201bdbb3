"""Views and in-place operations: which values share memory, found by running the same views on indices.

Each value has an integer tensor that stands for its memory: views of one value give views of that tensor, copies give
copies. A write to one value is then read by all that share its memory.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from .algebra import Algebra
from .labels import Labels


def mutates(node: fx.Node) -> bool:
    """Whether an operation writes to one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


class Memory:
    """Follows an interpretation, node by node, and carries writes over to all values that share memory."""

    def __init__(self) -> None:
        self.cells: dict[fx.Node, Any] = {}
        self.sharing: dict[int, list[fx.Node]] = {}

    def follow(self, node: fx.Node, values: dict[fx.Node, Any], algebra: Algebra) -> None:
        """Note the memory of a node's value; if the node has written to memory, update what shares it."""
        cells = self.cells[node] = self._cells(node)
        if isinstance(cells, Tensor):
            self.sharing.setdefault(_storage(cells), []).append(node)
        written = _first_argument(node)
        if mutates(node) and written is not None:
            self._write(written, values[node], values, algebra)

    def _cells(self, node: fx.Node) -> Any:
        """The memory of a node's value: that of its base where the op gives a view, else new."""
        source = _first_argument(node)
        base = None if source is None else self.cells.get(source)
        if node.target is operator.getitem and isinstance(base, list | tuple):
            return base[node.args[1]]  # type: ignore[index]
        schema = getattr(node.target, "_schema", None)
        gives_view = schema is not None and any(result.alias_info is not None for result in schema.returns)
        if gives_view and source is not None and isinstance(base, Tensor):
            return base if mutates(node) else _viewed(node, source, base)
        example = node.meta.get("val")
        return torch.arange(example.numel()).reshape(example.shape) if isinstance(example, Tensor) else None

    def _write(self, written: fx.Node, value: Any, values: dict[fx.Node, Any], algebra: Algebra) -> None:
        cells = self.cells.get(written)
        if not isinstance(cells, Tensor) or not isinstance(value, Labels | Tensor):
            return
        nodes = self.sharing[_storage(cells)]
        base = nodes[0]
        if isinstance(values[base], Tensor) and isinstance(value, Tensor):
            return  # constants were written to by the call itself
        whole = algebra.labels(value)
        if cells is not self.cells[base]:
            count = self.cells[base].numel()
            source = torch.arange(count)
            source[cells.reshape(-1)] = count + torch.arange(cells.numel())
            source = source.reshape(self.cells[base].shape)
            (whole,) = algebra.move(
                lambda old, new: torch.cat([old.reshape(-1), new.reshape(-1)])[source], values[base], value
            )
        for node in nodes:
            places = self.cells[node]
            if places is self.cells[base]:
                values[node] = whole
            else:
                (values[node],) = algebra.move(lambda array, places=places: array.reshape(-1)[places], whole)


def _first_argument(node: fx.Node) -> fx.Node | None:
    return node.args[0] if node.args and isinstance(node.args[0], fx.Node) else None


def _viewed(node: fx.Node, source: fx.Node, base: Tensor) -> Any:
    """A view of memory by the node's own call; None where it depends on values or converts the type."""
    others = node.args[1:]
    if any(isinstance(leaf, fx.Node) for leaf in pytree.tree_leaves((others, dict(node.kwargs)))):
        return None
    if str(node.target).startswith("aten.to."):
        example = node.meta.get("val")
        return base if isinstance(example, Tensor) and source.meta["val"].dtype == example.dtype else None
    return node.target(base, *others, **node.kwargs)  # type: ignore[operator]


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
