"""The records of a federation: what clients send, who was left out and why, what a round gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..barycenter import CouplingMatrices
from ..errors import printable
from ..fusing import FusedStates
from ..fusing.elsewhere import Sent
from ..types import State

Client = int | str
LONGEST = 300  # characters of a reason in a log: enough for the first few tensors that do not fit


@dataclass(frozen=True, eq=False, repr=False)
class Reply:
    """What a client sends after training.

    Args:
        client: Who it is: a number or a name, the same in every round.
        state: Tensors or arrays by name, or a list of them in the order of the layout.
        examples: How many examples it trained on: its weight in the average.
    """

    client: Client
    state: Sent
    examples: float = 1.0

    def __repr__(self) -> str:
        """Who sent how much; tensors would fill a screen."""
        return f"Reply(client={self.client!r}, {len(self.state)} tensors, examples={self.examples:g})"


@dataclass(frozen=True)
class LeftOut:
    """A client whose reply does not count in a round, and why."""

    client: Client
    reason: str

    def __str__(self) -> str:
        """One line for a log."""
        return f"client {printable(str(self.client))} is left out: {self.reason}"


def one_line(error: BaseException | str) -> str:
    r"""A message of several lines as one, cut where it becomes long.

    Example:
        >>> one_line("states that do not fit:\n  - tensor a is missing\n  - tensor b is missing")
        'states that do not fit: tensor a is missing; tensor b is missing'
    """
    headline, *rest = str(error).split("\n")
    told = printable(" ".join(filter(None, [headline, "; ".join(line.strip().removeprefix("- ") for line in rest)])))
    return told if len(told) <= LONGEST else f"{told[: LONGEST - 3]}..."


@dataclass(frozen=True, eq=False)
class Standing:
    """What the server knows of a client that has replied before.

    Args:
        widths: The client's widths, by space.
        sent: The coupling [server units, client units] of what is sent to it, if it is narrower than the server.
        found: The coupling of its last reply.
    """

    widths: Mapping[str, int]
    sent: CouplingMatrices | None
    found: CouplingMatrices


@dataclass(frozen=True, eq=False, repr=False)
class Round:
    """What a round gave.

    Args:
        number: Of the round, from 1.
        state: The server's state after it; the one before if too few replies counted.
        clients: Whose replies counted.
        left_out: Whose did not, each with the reason.
        status: One line: what was fused, how far units moved, the objective, seconds, and what did not go as asked.
        fused: The fusion, if there was one; its first model is the server's state, with weight 0, from round 2 on.
        details: The numbers of the status line by name.
    """

    number: int
    state: State
    clients: tuple[Client, ...]
    left_out: tuple[LeftOut, ...]
    status: str
    fused: FusedStates | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """The status, and a line for every client that was left out."""
        return "\n".join([self.status, *map(str, self.left_out)])

    __repr__ = __str__  # tensors would fill a screen
