"""Replays: runs of a network on the same inputs, again and again, of which only what has changed is computed.

A correction changes a network layer by layer, and runs it before each. What comes before the first tensor that has
changed is as it was, so what the layers gave there is kept, and given once more; all else that the network does, its
code included, is done again. Of a network that does not change, as a parent, nothing is computed twice but what is
cheap.

Where a run looks at one layer, even that is left out (`resuming`).

In: a network, and the number of a batch. Out: a `Replay`, for `observe`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..modules import live_tensors
from .recurrence import STEPS
from .resuming import Resumption, writes

MEMORY = 2**30  # bytes of activations that are kept for one set of runs; what comes beyond them is computed again
_CONVOLUTIONS = tuple(f"conv{axes}d" for axes in (1, 2, 3))
_POOLS = tuple(f"{kind}_pool{axes}d" for kind in ("max", "avg", "adaptive_max", "adaptive_avg") for axes in (1, 2, 3))
# Functions whose results are kept: they take much longer than a copy of what they give, and write to nothing.
KEPT = frozenset({"linear", *_CONVOLUTIONS, *_POOLS, *STEPS, "scaled_dot_product_attention"})


@dataclass(eq=False)
class Memory:
    """What a set of runs shares.

    Args:
        left: How many more bytes may be kept.
        written: Whether a network was seen to write to what a function gave it: copies are kept from then on.
    """

    left: int = field(default_factory=lambda: MEMORY)
    written: bool = False


@dataclass(frozen=True, eq=False)
class Kept:
    """What a function has given: the tensors themselves, or copies where the network writes to them.

    Args:
        result: Tensors, in a structure.
        stamps: How often each had been written to; nothing of copies, to which nobody writes.
    """

    result: Any
    stamps: tuple[int, ...] | None

    @staticmethod
    def of(result: Any, *, copied: bool) -> Kept:
        """What a function gives, to be kept."""
        return Kept(_copied(result), None) if copied else Kept(result, stamped(result))

    @property
    def whole(self) -> bool:
        """Whether it is as it was given."""
        return self.stamps is None or self.stamps == stamped(self.result)

    @property
    def again(self) -> Any:
        """What the function gives once more."""
        return _copied(self.result) if self.stamps is None else self.result

    @property
    def nbytes(self) -> int:
        """How many bytes all tensors take."""
        return _size(self.result)


@dataclass(eq=False)
class Replay:
    """What a network gave at its layers in its last run on one batch; it changes with every run.

    Args:
        memory: What may be kept.
        results: What each function that counts has given, in the order of the run.
        first: By tensor of the network: how many results there were when it was first used.
        stamps: By tensor of the network: which one it is, and how often it had been written to.
        complete: Whether the last run went to its end, so that all uses of tensors were seen.
        full: Whether there was no room for all results.
        at: How many functions that count the present run has come to.
        resumption: What was kept of a run up to the layer that it looked at.
        reserved: How many bytes that takes.
    """

    memory: Memory = field(default_factory=Memory)
    results: list[Kept] = field(default_factory=list)
    first: dict[str, int] = field(default_factory=dict)
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict)
    complete: bool = False
    full: bool = False
    at: int = 0
    resumption: Resumption = field(default_factory=Resumption)
    reserved: int = 0

    def lent(self, tensors: Mapping[str, Tensor]) -> Replay:
        """A replay for a copy of the network that has these tensors: it begins with what is kept, and keeps no more."""
        own = {name: (id(x), writes(x)) for name, x in tensors.items()}
        stamps = {name: own[name] for name in self.stamps}
        return Replay(Memory(0, self.memory.written), list(self.results), dict(self.first), stamps, self.complete)

    def begin(self, tensors: Mapping[str, Tensor], only: str | None = None) -> None:
        """Begin a run: what was computed with tensors that have changed since is forgotten.

        Args:
            tensors: The tensors of the network, by name.
            only: The weight that the run looks at, if it is one.
        """
        stamps = {name: (id(x), writes(x)) for name, x in tensors.items()}
        changed = stamps.items() - self.stamps.items() if self.stamps else ()
        if stamps.keys() != self.stamps.keys():
            self.resumption.forget()
        self.resumption.begin([name for name, _ in changed] + [only or ""])
        self._reserve()
        unseen = 0 if self.complete else len(self.results)
        valid = min((self.first.get(name, unseen) for name, _ in changed), default=len(self.results))
        self.memory.left += sum(kept.nbytes for kept in self.results[valid:])
        del self.results[valid:]
        self.first = {name: number for name, number in self.first.items() if number < valid}
        self.stamps, self.complete, self.at = stamps, False, 0
        self.full = bool(only) and self.resumption.possible  # what is in use where it looks takes less room

    def use(self, names: Iterable[str]) -> None:
        """Note which tensors of the network a function takes."""
        for name in names:
            self.first.setdefault(name, self.at)

    def keep_copies(self) -> None:
        """Keep copies from now on, for the network writes to what it is given, and forget what it may have spoiled."""
        self.memory.written = True
        self.memory.left += sum(kept.nbytes for kept in self.results)
        self.results.clear()

    def reach(self) -> None:
        """Keep what is in use now, where a run comes to the layer that it looks at."""
        self.resumption.reach(self.memory.left + self.reserved)
        self._reserve()

    def _reserve(self) -> None:
        """Have room for what is kept."""
        self.memory.left += self.reserved - self.resumption.bytes
        self.reserved = self.resumption.bytes

    def result(self, make: Callable[[], Any]) -> Any:
        """What a function that counts gives: as it was kept, or made now."""
        self.at += 1
        kept = self.results[self.at - 1] if self.at <= len(self.results) else None
        if kept is not None and kept.whole:
            return kept.again
        made = make()
        if kept is not None:
            self.memory.written = True
            self.results[self.at - 1] = Kept.of(made, copied=True)
            return made
        gap = self.at > len(self.results) + 1  # what follows one cannot be kept
        self.full = self.full or gap or _size(made) > self.memory.left
        if not self.full:
            self.results.append(Kept.of(made, copied=self.memory.written))
            self.memory.left -= _size(made)
        return made


@dataclass(eq=False)
class Runs:
    """The replays of networks on batches, which share the memory that may be used."""

    memory: Memory = field(default_factory=Memory)
    replays: dict[tuple[nn.Module, int], Replay] = field(default_factory=dict)

    def of(self, model: nn.Module, number: int) -> Replay:
        """The replay of a network on the batch of some number."""
        return self.replays.setdefault((model, number), Replay(self.memory))

    def lent(self, model: nn.Module, twin: nn.Module) -> Runs:
        """The runs of a network for a copy of it, whose tensors have the same names."""
        tensors = live_tensors(twin)
        found = {(twin, number): replay.lent(tensors) for (of, number), replay in self.replays.items() if of is model}
        return Runs(Memory(0, self.memory.written), found)


def stamped(result: Any) -> tuple[int, ...]:
    """How often each tensor of a result was written to."""
    return tuple(map(writes, _tensors(result)))


def _copied(result: Any) -> Any:
    """A copy, for the network may write to what a function gives it."""
    return result.clone() if isinstance(result, Tensor) else pytree.tree_map_only(Tensor, torch.clone, result)


def _size(result: Any) -> int:
    """Bytes of all tensors in a result."""
    return sum(tensor.nbytes for tensor in _tensors(result))


def _tensors(result: Any) -> list[Tensor]:
    """All tensors in a result."""
    return [result] if isinstance(result, Tensor) else [x for x in pytree.tree_leaves(result) if isinstance(x, Tensor)]
