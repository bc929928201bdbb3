"""What every module of a network is given and gives in a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..modules import tensors_in


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a module: when it began, what it was given and what it gave."""

    number: int
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any
    times: int = 1

    @property
    def tensors(self) -> tuple[Tensor, Tensor] | None:
        """The first tensor that was given and the first that came of it, if there is one of each."""
        given, found = tensors_in((self.args, dict(self.kwargs))), tensors_in(self.result)
        return (given[0], found[0]) if given and found else None


def calls_of(model: nn.Module, run: Callable[[nn.Module], Any]) -> dict[str, Call]:
    """What every module below the network was given and gave in one run; of several calls the first."""
    calls: dict[str, Call] = {}
    begun: dict[str, tuple[int, Any, Any]] = {}

    def before(name: str) -> Callable[..., None]:
        """A hook that notes what a module is given, copied, since the network may change it in place."""

        def note(module: nn.Module, args: Any, kwargs: Any) -> None:
            if name not in begun:
                begun[name] = (len(begun), *copied(args, kwargs))

        return note

    def after(name: str) -> Callable[..., None]:
        """A hook that notes what a module gave."""

        def note(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
            known = calls.get(name)
            calls[name] = replace(known, times=known.times + 1) if known else Call(*begun[name], copied(result)[0])

        return note

    handles = []
    for name, module in model.named_modules():
        if name and not isinstance(module, torch.jit.ScriptModule):
            handles.append(module.register_forward_pre_hook(before(name), with_kwargs=True))
            handles.append(module.register_forward_hook(after(name), with_kwargs=True))
    try:
        run(model)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def copied(*values: Any) -> tuple[Any, ...]:
    """Values with every tensor in them copied."""
    return tuple(pytree.tree_map_only(Tensor, torch.clone, value) for value in values)
