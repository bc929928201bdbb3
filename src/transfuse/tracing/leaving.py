"""Values that leave for Python: where code outside of torch reads them, what they say may steer it.

Some ways out are operations themselves (`.item()`, `torch.equal`, or a result whose shape depends on values); others
read memory unseen (`.tolist()`, `.numpy()`). `Leaving` makes an operation of the latter, so that a recording has all.

In: a recorded operation. Out: whether values leave by it. Not here: that these values are fixed (`reading`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

_LIBRARY = torch.library.Library("transfuse", "FRAGMENT")
_LIBRARY.define("to_python(Tensor value) -> bool")
_LIBRARY.impl("to_python", lambda value: True, "CompositeExplicitAutograd")

_READERS = {getattr(Tensor, name) for name in (
    "tolist", "numpy", "__array__", "__dlpack__", "__deepcopy__", "__reduce_ex__", "storage", "untyped_storage",
    "data_ptr",
)}  # fmt: skip
_DATA = Tensor.data.__get__  # type: ignore[attr-defined]  # a tensor that the recorder would not know
_TAGS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
# Operations made of others: their tags do not say it.
_UNTAGGED = {getattr(torch.ops.aten, name).default for name in ("is_nonzero", "nonzero_numpy", "where")}
# Of these only the argument of that name says how long the result is.
_LENGTHS = {
    torch.ops.aten.index.Tensor: "indices",
    torch.ops.aten._unsafe_index.Tensor: "indices",
    torch.ops.aten.repeat_interleave.self_Tensor: "repeats",
}
_MASKS = (torch.bool, torch.uint8)


class Leaving(TorchFunctionMode):
    """Records reading a tensor's memory from Python as an operation, `transfuse::to_python`."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the function; where it reads memory, after an operation that says so."""
        if func == _DATA:
            return args[0].detach()
        if func in _READERS:
            torch.ops.transfuse.to_python(args[0])
        return func(*args, **(kwargs or {}))


def leaves(node: fx.Node) -> bool:
    """Whether values leave for Python by an operation: as a number, or as the length of its result."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if target in _LENGTHS:
        places = [place.meta.get("val") for place in pytree.tree_leaves(node.args[1]) if isinstance(place, fx.Node)]
        by_mask = any(isinstance(place, Tensor) and place.dtype in _MASKS for place in places)
        return by_mask or _LENGTHS[target] != "indices"
    return target.namespace == "transfuse" or target in _UNTAGGED or any(tag in target.tags for tag in _TAGS)


def length_argument(node: fx.Node) -> str | None:
    """The one argument whose values say how long the result is; nothing where all values leave."""
    return _LENGTHS.get(node.target) if isinstance(node.target, torch._ops.OpOverload) else None
