"""Unlabeled inputs, to be gone through again and again.

In: tensors or NumPy arrays, an iterable of batches, or a `DataLoader`. Out: `Batches`, each a function that runs a
network on one batch. A tuple or list is an input with its labels, which are left out; a dict holds keyword arguments;
for anything else, say with `forward` how a model is run on a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..arguments import FUNCTION, check_arguments, optional, told
from ..errors import InputError
from ..modules import private_randomness, random_states_kept, seed_random_states
from ..types import Forward

SAMPLES = 100  # in a batch that is cut from tensors
# The same where each sample is an image or a film. Convolutions turn it into much more than it is, and memory that is
# asked for in large pieces is cleared anew each time: two ResNet20 take a twentieth longer with twice as many.
IMAGES = 50


def plain_forward(model: nn.Module, batch: Any) -> Any:
    """Run a model on a batch as it comes from a `DataLoader`."""
    if isinstance(batch, tuple | list) and batch:
        batch = batch[0]
    batch = _as_tensors(batch)
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
    """One batch of inputs, and what it is for.

    Args:
        content: What a model is run on, maybe with labels.
        forward: Runs a model on that content.
        fits: Whether corrections are learnt from it.
        judges: Whether it is held out, to judge what was learnt from others.
        weight: How much each of its samples counts.
    """

    content: Any
    forward: Forward
    fits: bool
    judges: bool
    weight: float = 1.0

    @property
    def samples(self) -> int:
        """How many samples it holds."""
        return _samples_in(self.content)

    def run(self, model: nn.Module) -> Any:
        """What a model gives on it; random numbers that it draws are the same in every run."""
        with private_randomness(seed=0):
            return self.forward(model, self.content)

    def varied(self, vary: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with other inputs, made of its own; itself where it is not known which tensor is the input.

        That is the content, or the first of a tuple or list, or the only tensor of floats in a dict; a container of the
        user's own class, which may have attributes, is left alone.
        """
        content = self.content
        if isinstance(content, Tensor):
            return replace(self, content=vary(content))
        if type(content) in (tuple, list) and content and isinstance(content[0], Tensor):
            return replace(self, content=type(content)([vary(content[0]), *content[1:]]))
        floats = [key for key, value in content.items() if is_float(value)] if type(content) is dict else []
        if len(floats) != 1:
            return self
        return replace(self, content={**content, floats[0]: vary(content[floats[0]])})


def is_float(value: Any) -> bool:
    """Whether a value is a tensor of floating-point numbers, unlike labels and tokens."""
    return isinstance(value, Tensor) and value.is_floating_point()


@dataclass(frozen=True, eq=False, repr=False)
class Batches:
    """Batches that can be gone through several times; every fifth one judges, the others fit.

    Two to four are too few for that: the last one judges. One alone does both.

    Args:
        data: What to iterate over, more than once.
        count: How many batches.
        forward: Runs a model on one of them.
        support: Further batches, whose samples count less.
    """

    data: Iterable[Any]
    count: int
    forward: Forward = plain_forward
    support: tuple[Batch, ...] = ()

    @staticmethod
    def of(data: Any, *, forward: Forward | None = None, size: int | None = None) -> Batches:
        """The batches in tensors or NumPy arrays (cut along the first dimension), an iterable, or a `DataLoader`.

        An iterator that can be gone through only once is read and kept.

        Raises:
            InputError: there is nothing in it.
        """
        if isinstance(data, Batches):
            return data
        check_arguments(forward=(forward, optional(FUNCTION)))
        data = _as_tensors(data)
        if isinstance(data, Tensor | Mapping | tuple):
            data = _cut(data, size)
        if not isinstance(data, Iterable) or isinstance(data, str | bytes | nn.Module):
            raise InputError(f"data is {told(data)}; expected tensors, an iterable of batches or a DataLoader")
        with _naming_the_data():
            kept = list(data) if isinstance(data, Iterator) else data
        found = sum(1 for _ in _repeatably(kept))
        if not found:
            raise InputError(
                "data holds no batches; if it is an iterator, it may be exhausted: pass a list or a loader"
            )
        return Batches(kept, found, forward or plain_forward)

    def __repr__(self) -> str:
        """How many batches there are; tensors would fill a screen."""
        return f"{self.count} batches of inputs" + (
            f", and {len(self.support)} that support them" if self.support else ""
        )

    def __iter__(self) -> Iterator[Batch]:
        """All batches, then those that support them.

        Raises:
            InputError: the data gave another number of batches than the first time.
        """
        every, number = min(5, self.count), 0
        for number, content in enumerate(_repeatably(self.data), start=1):
            judges = number % every == 0
            forward = partial(self._run, number)
            yield Batch(content, forward, fits=not judges or self.count == 1, judges=judges)
        if number != self.count:
            raise InputError(
                f"data gave {self.count} batches the first time and {number} now; pass a list, or a loader that gives "
                "the same batches each time"
            )
        yield from self.support

    @property
    def samples(self) -> int:
        """How many samples there are: each batch counts as many as its first tensor has along its first dimension.

        Example:
            >>> Batches.of(torch.zeros(12, 3)).samples
            12
        """
        return sum(_samples_in(content) for content in _repeatably(self.data))

    def supported_by(self, others: Batches, *, weight: float) -> Batches:
        """These batches, and others as well, each of whose samples counts `weight`."""
        return replace(self, support=tuple(replace(each, weight=weight) for each in others))

    def judged_by(self, content: Any) -> Batches:
        """These batches, and one more of which nothing is learnt: it judges, and counts as much as all that do so."""
        weight = sum(batch.samples for batch in self if batch.judges) / _samples_in(content)
        judge = Batch(content, partial(self._run, self.count + 1), fits=False, judges=True, weight=weight)
        return replace(self, support=(*self.support, judge))

    def _run(self, number: int, model: nn.Module, content: Any) -> Any:
        try:
            # A copy: a model may write to its inputs.
            return self.forward(model, pytree.tree_map_only(Tensor, torch.clone, content))
        except InputError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            several = isinstance(content, tuple | list) and len(content) > 1 and self.forward is plain_forward
            taken = ", of a tuple or list the first element, since labels may follow it" if several else ""
            raise InputError(
                f"{type(model).__name__} does not run on batch {number} of the data{taken} ({text}); pass inputs as it "
                "takes them (several: a dict of keyword arguments), or forward=, a function of model and batch"
            ) from error


def _repeatably(data: Iterable[Any]) -> Iterator[Any]:
    """The items of some data, the same ones each time even from a loader that shuffles; random states are kept."""
    iterator, put_back = None, None
    while True:
        with private_randomness():
            if put_back is None:
                seed_random_states(0)
            else:
                put_back()
            try:
                with _naming_the_data():
                    iterator = iter(data) if iterator is None else iterator
                    item = next(iterator)
            except StopIteration:
                return
            put_back = random_states_kept()
        yield item


@contextmanager
def _naming_the_data() -> Iterator[None]:
    """Have an error of the user's own loader say where it came from; it keeps its type and its text."""
    try:
        yield
    except StopIteration:
        raise
    except Exception as error:
        error.add_note("transfuse: raised by the data that were passed, as a batch of them was read")
        raise


def _as_tensors(data: Any) -> Any:
    """NumPy arrays, alone or in a tuple or mapping, as tensors; numbers of 64 bits in torch's default type."""
    if isinstance(data, np.ndarray):
        tensor = torch.as_tensor(data)
        return tensor.to(torch.get_default_dtype()) if tensor.dtype is torch.float64 else tensor
    if isinstance(data, Mapping):
        return {name: _as_tensors(each) for name, each in data.items()}
    return tuple(_as_tensors(each) for each in data) if type(data) is tuple else data


def _cut(data: Any, size: int | None) -> list[Any]:
    """Tensors as batches of at most `size` samples, and at least five batches if there are ten samples."""
    if isinstance(data, tuple):
        return _cut(data[0], size) if data else []
    if isinstance(data, Mapping):
        if strange := {name: type(value).__name__ for name, value in data.items() if not _has_samples(value)}:
            raise InputError(f"data holds no samples in {strange}; expected tensors, cut along their first dimension")
        lengths = {name: len(tensor) for name, tensor in data.items()}
        if len(set(lengths.values())) != 1:
            raise InputError(f"data has different numbers of samples: {lengths}; expected one number")
        size = size or min(map(_most, data.values()))
        columns = {name: _cut(tensor, size) for name, tensor in data.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if not _has_samples(data):
        shape = f" of shape {tuple(data.shape)}" if isinstance(data, Tensor) else ""
        raise InputError(
            f"data holds no samples: it is {type(data).__name__}{shape}; expected tensors with samples along their "
            "first dimension (a list is a list of batches)"
        )
    return list(torch.tensor_split(data, max(-(-len(data) // (size or _most(data))), min(5, len(data) // 2), 1)))


def _most(samples: Tensor) -> int:
    """How many samples there are in a batch, at most."""
    return IMAGES if samples.dim() > 3 else SAMPLES


def _samples_in(content: Any) -> int:
    """How many samples a batch holds; one where it holds no tensor."""
    return next((len(value) for value in pytree.tree_leaves(_as_tensors(content)) if _has_samples(value)), 1)


def _has_samples(value: Any) -> bool:
    """Whether a value is a tensor with at least one sample along its first dimension."""
    return isinstance(value, Tensor) and value.dim() > 0 and len(value) > 0
