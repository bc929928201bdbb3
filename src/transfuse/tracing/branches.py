"""Branches by the truth of a value: where `if h.mean() > 0:` goes one way on the example, the other is recorded too.

A branch may do anything to units without a tensor of its own (`h[:, 0] = 0`), so nothing of it would show. Hence
each question that the forward pass asks of a value is answered the other way round in a recording of its own, question
by question, also those that come up only there. A way that ends in an error of the network's own is none.

In: how to record with some answers turned. Out: recordings, and what could not be recorded. Not here: questions that
are asked of plain numbers (`if h.mean().item() > 0`), which nobody sees.
"""

from __future__ import annotations

import dis
import pdb
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..modules import first_line

MOST = 16  # ways that are recorded beside that of the example, each of which takes as long

_HERE, _TORCH = str(Path(__file__).parent), str(Path(torch.__file__).parent)
# Whatever gives a plain truth value that depends on numbers in a tensor.
_QUESTIONS = {
    Tensor.__bool__, Tensor.item, Tensor.tolist, Tensor.is_nonzero, Tensor.equal, Tensor.allclose,
    torch.is_nonzero, torch.equal, torch.allclose,
}  # fmt: skip


class Question(NamedTuple):
    """A place in code where values are asked for their truth; a line may have several (`if a > 0 and b > 0`)."""

    file: str
    line: int
    instruction: int

    def __str__(self) -> str:
        """The line as messages show it."""
        return f"{Path(self.file).name}:{self.line}"


@dataclass(frozen=True, eq=False)
class Turned:
    """Which answers are turned: to each question so many of the first ones; then loops end by their own answers."""

    counts: Mapping[Question, int]

    @property
    def last(self) -> Question:
        """The question whose answers were turned last, of those that lead there."""
        return list(self.counts)[-1]


AS_IS = Turned({})


class Questions(TorchFunctionMode):
    """Counts what code outside of torch asks of values, question by question, and turns some of the answers."""

    def __init__(self, turned: Turned = AS_IS) -> None:
        super().__init__()
        self.turned = turned
        self.asked: dict[Question, int] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the function; where it tells whether a value is true, maybe the other way round."""
        answer = func(*args, **(kwargs or {}))
        if func not in _QUESTIONS or not isinstance(answer, bool):
            return answer
        question = _asked_by(sys._getframe(1))
        if question is None:
            return answer
        self.asked[question] = self.asked.get(question, 0) + 1
        return answer != (self.asked[question] <= self.turned.counts.get(question, 0))


def _asked_by(frame: FrameType | None) -> Question | None:
    """The place that asks; none if that is in torch itself, which knows what it does."""
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(_TORCH):
        return None
    return Question(frame.f_code.co_filename, frame.f_lineno, frame.f_lasti)


@dataclass(frozen=True)
class Unseen:
    """A way that could not be looked at, and why."""

    question: Question
    why: str

    def __str__(self) -> str:
        """The place and the reason, as a warning lists them."""
        return f"the other way at {self.question}: {self.why}"


def explored(asked: Mapping[Question, int], follow: Callable[[Turned], Mapping[Question, int]]) -> list[Unseen]:
    """Follow every other way that can be reached by turning the answers to one question after another.

    Args:
        asked: What was asked on the way of the example, and how often.
        follow: Takes a way, and gives what was asked on it.
    """
    unseen: list[Unseen] = []
    known, waiting = set(asked), [Turned({question: count}) for question, count in asked.items()]
    for number, turned in enumerate(waiting):  # grows meanwhile
        if number >= MOST:
            unseen.append(Unseen(turned.last, f"no more than {MOST} ways are looked at"))
            continue
        try:
            with _no_debugger():
                further = follow(turned)
        except (Exception, SystemExit) as error:  # the network's own code runs here, on a way that it never took
            if not _own(error):
                unseen.append(Unseen(turned.last, first_line(error)))
            continue
        new = {question: count for question, count in further.items() if question not in known}
        waiting += [Turned({**turned.counts, question: count}) for question, count in new.items()]
        known |= new.keys()
    return unseen


def _own(error: BaseException) -> bool:
    """Whether an error was raised by a statement of code outside of torch: the way is a refusal, and no other one."""
    if isinstance(error, SystemExit | _DebuggerError):
        return True
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_filename.startswith(_TORCH):
        return False
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


class _DebuggerError(Exception):
    """A way that ends in a debugger."""


@contextmanager
def _no_debugger() -> Iterator[None]:
    """In this thread a debugger ends the way that calls it: `if h.isnan().any(): breakpoint()` is no way to follow."""
    mine, before = threading.get_ident(), pdb.set_trace

    def called(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == mine:
            raise _DebuggerError
        return before(*args, **kwargs)

    pdb.set_trace = called
    try:
        yield
    finally:
        pdb.set_trace = before
