"""Unlabeled inputs, to be gone through again and again.

In: tensors, an iterable of batches, or a `DataLoader`. Out: `Batches`, each a function that runs a network on one
batch. A tuple or list is an input with its labels, which are left out; a dict holds keyword arguments; for anything
else, say with `forward` how a model is run on a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError

Forward = Callable[[nn.Module, Any], Any]


def plain_forward(model: nn.Module, batch: Any) -> Any:
    """Run a model on a batch as it comes from a `DataLoader`."""
    if isinstance(batch, tuple | list):
        batch = batch[0]
    if isinstance(batch, Mapping):
        return model(**batch)
    if not isinstance(batch, Tensor):
        raise InputError(
            f"a batch of data is {type(batch).__name__}; expected a tensor, a tuple whose first element is one, or a "
            "dict of keyword arguments; or pass forward=, a function of model and batch"
        )
    return model(batch)


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch.

    Args:
        run: Runs a model on it.
        fits: To learn from.
        judges: To judge by what was learnt from others.
    """

    run: Callable[[nn.Module], Any]
    fits: bool
    judges: bool


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches that can be gone through several times; every fifth one judges, the others fit.

    Two to four are too few for that: the last one judges. One alone does both.

    Args:
        data: What to iterate over, more than once.
        count: How many batches.
        forward: Runs a model on one of them.
    """

    data: Iterable[Any]
    count: int
    forward: Forward = plain_forward

    @staticmethod
    def of(data: Any, *, forward: Forward | None = None, size: int = 100) -> Batches:
        """From tensors (cut along the first dimension), an iterable of batches or a `DataLoader`.

        An iterator that can be gone through only once is read and kept.

        Raises:
            InputError: there is nothing in it.
        """
        if isinstance(data, Batches):
            return data
        if isinstance(data, Tensor | Mapping | tuple):
            data = _cut(data, size)
        if not isinstance(data, Iterable):
            raise InputError(f"data is {type(data).__name__}; expected tensors, an iterable of batches or a DataLoader")
        kept = list(data) if isinstance(data, Iterator) else data
        count = sum(1 for _ in kept)
        if not count:
            raise InputError(
                "data holds no batches; if it is an iterator, it may be exhausted: pass a list or a loader"
            )
        return Batches(kept, count, forward or plain_forward)

    def __iter__(self) -> Iterator[Batch]:
        """All batches."""
        every = min(5, self.count)
        for number, content in enumerate(self.data, start=1):
            judges = number % every == 0
            yield Batch(partial(self._run, number, content), fits=not judges or self.count == 1, judges=judges)

    def _run(self, number: int, content: Any, model: nn.Module) -> Any:
        try:
            return self.forward(model, content)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise InputError(f"the model does not run on batch {number} of the data: {error}") from error


def _cut(data: Any, size: int) -> list[Any]:
    """Tensors as batches of at most `size` samples, and at least five batches if there are five samples."""
    if isinstance(data, tuple):
        return _cut(data[0], size) if data else []
    if isinstance(data, Mapping):
        lengths = {name: len(tensor) for name, tensor in data.items()}
        if len(set(lengths.values())) != 1:
            raise InputError(f"data has different numbers of samples: {lengths}; expected one number")
        columns = {name: _cut(tensor, size) for name, tensor in data.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if not isinstance(data, Tensor) or data.dim() == 0 or not len(data):
        raise InputError(f"data holds no samples: {data!r}; expected tensors with samples along their first dimension")
    return list(torch.tensor_split(data, max(-(-len(data) // size), min(5, len(data)))))
