"""Resumptions: a run of a network goes on from where the last one came to, though its code runs from the start.

A correction changes a network layer by layer, from the first to the last, and looks at what goes into each. What comes
before that is as it was in the run before, and most of it is never used again. So of a run those tensors are kept that
are still in use when it comes to the layer; in the next run, functions before it are not computed, but give what was
kept, or, where nobody is left to use it, numbers that mean nothing, in the same shape.

That is done only where no such number can get out: where every tensor comes from a function that was seen, no function
gives anything else that depends on numbers (a branch of the network's code may), and none draws random ones. Elsewhere
runs are computed as before.

In: the functions that a network calls, one after the other. Out: what they give.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

_UNKNOWN = count(1)


class Lost(BaseException):
    """Raised where a run has to begin anew, and nothing left out. No `Exception`: a network may catch those."""


@dataclass(eq=False)
class _Given:
    """A tensor that a function has given.

    Args:
        taken: Its place among what the function takes, where it is one of these, and was written to.
        kept: The tensor, while somebody uses it.
        like: Shape, strides and type.
    """

    taken: int | None
    kept: ReferenceType[Tensor]
    like: tuple[torch.Size, tuple[int, ...], torch.dtype]

    @staticmethod
    def of(tensor: Tensor, taken: Sequence[Any]) -> _Given:
        """The record of a tensor, which may be one of those that the function takes."""
        place = next((number for number, each in enumerate(taken) if each is tensor), None)
        return _Given(place, ref(tensor), (tensor.shape, tensor.stride(), tensor.dtype))

    def again(self, taken: Sequence[Any]) -> Tensor:
        """The tensor, or one that looks like it."""
        if self.taken is not None:
            found: Tensor = taken[self.taken]
            return found
        kept = self.kept()
        return kept if kept is not None else torch.empty_strided(*self.like[:2], dtype=self.like[2])


@dataclass(eq=False)
class _Called:
    """A function that was called, and what it gave: tensors, or nothing, in a structure.

    One that neither takes nor gives tensors has no structure: it is called again.
    """

    name: str
    given: list[_Given | None]
    structure: pytree.TreeSpec | None


@dataclass(eq=False)
class Resumption:
    """What was kept of the last run on a batch, up to the layer that it looked at.

    Args:
        calls: The functions that were called before that layer.
        held: The tensors that were in use there, and how often each had been written to.
        used: Names of the tensors of the network that these functions take.
        possible: Whether functions may be left out.
        at: How many functions the present run has called.
    """

    calls: list[_Called] = field(default_factory=list)
    held: list[tuple[Tensor, int]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    possible: bool = True
    at: int = 0
    _end: int = 0
    _known: dict[int, ReferenceType[Tensor]] = field(default_factory=dict)
    _drawn: Tensor | None = None

    @property
    def resuming(self) -> bool:
        """Whether the next function is one that need not be computed."""
        return self.at < self._end

    @property
    def bytes(self) -> int:
        """How much memory the tensors take that are held."""
        return sum(tensor.nbytes for tensor, _ in self.held)

    def begin(self, changed: Iterable[str]) -> None:
        """Begin a run of a network in which some tensors have changed, or are looked at, since the last one."""
        written = any(writes(tensor) != before for tensor, before in self.held)
        if written or not self.used.isdisjoint(changed):
            self.forget()
        del self.calls[self._end :]
        self.at, self._known, self._drawn = 0, {}, None

    def forget(self) -> None:
        """Begin the next run from the start."""
        self.calls, self.held, self.used, self._end = [], [], set(), 0

    def give_up(self) -> None:
        """Leave nothing out from now on."""
        self.possible = False
        self.forget()

    def again(self, name: str, make: Callable[[], Any], taken: Sequence[Any]) -> Any:
        """What a function gave in the last run.

        Raises:
            Lost: it was another function.
        """
        call = self.calls[self.at]
        self.at += 1
        if call.name != name:
            self.give_up()
            raise Lost
        if call.structure is None:
            return make()
        found = [each and each.again(taken) for each in call.given]
        result = pytree.tree_unflatten(found, call.structure)
        self.know(result)
        return result

    def check(self, own: Container[int], taken: Iterable[Any]) -> None:
        """Hold what is used against what was given: other tensors may be made of numbers that mean nothing.

        Args:
            own: Ids of the tensors of the network.
            taken: What is used.

        Raises:
            Lost: something was left out, and a tensor comes from elsewhere.
        """
        if not all(id(each) in own or self._gave(each) for each in taken if isinstance(each, Tensor)):
            resumed = self._end > 0
            self.give_up()
            if resumed:
                raise Lost

    def know(self, result: Any) -> None:
        """Tensors that a function has given may be used."""
        self._known.update((id(each), ref(each)) for each in pytree.tree_leaves(result) if isinstance(each, Tensor))

    def note(self, name: str, own: Mapping[int, str], taken: Sequence[Any], result: Any) -> None:
        """Note a function that was called before the layer that is looked at.

        Args:
            name: Its name.
            own: Names of the tensors of the network, by their id.
            taken: What it takes.
            result: What it gives.
        """
        if self._drawn is None:
            self._drawn = torch.get_rng_state()
        tensors = [each for each in taken if isinstance(each, Tensor)]
        given, structure = pytree.tree_flatten(result)
        if not tensors and not any(isinstance(each, Tensor) for each in given):
            self.calls.append(_Called(name, [], None))
        elif all(each is None or _is_plain(each) for each in given):
            made = [each if each is None else _Given.of(each, taken) for each in given]
            self.calls.append(_Called(name, made, structure))
        else:
            self.give_up()
        self.used.update(own[id(each)] for each in tensors if id(each) in own)
        self.at += 1

    def reach(self, room: int) -> None:
        """Keep what is in use now: the next run goes on from here, if there is room for so many bytes."""
        drawn = self._drawn is not None and not torch.equal(self._drawn, torch.get_rng_state())
        self.held = []  # what nobody else uses is gone with this
        given = [each for call in self.calls for each in call.given if each is not None]
        alive = [tensor for each in given if (tensor := each.kept()) is not None]
        self.held = [(each, writes(each)) for each in {id(each): each for each in alive}.values()]
        self._end = len(self.calls)
        if drawn:
            self.give_up()
        elif self.bytes > room:
            self.forget()

    def _gave(self, tensor: Tensor) -> bool:
        """Whether a tensor comes from a function that was seen."""
        known = self._known.get(id(tensor))
        return known is not None and known() is tensor


def writes(tensor: Tensor) -> int:
    """How often a tensor was written to; where that is not counted, in inference mode, another number each time."""
    return -next(_UNKNOWN) if tensor.is_inference() else tensor._version


def _is_plain(value: Any) -> bool:
    """Whether a value is a tensor that shape, strides and type describe, and where random numbers are looked at."""
    return type(value) is Tensor and value.layout is torch.strided and value.device.type == "cpu"
