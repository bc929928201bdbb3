"""Which replies count: broken and hostile ones are told from others before anything is fused.

In: replies, the server's state and layout. Out: replies of tensors that can be fused, and who was left out, with the
reason. No reply makes an error: whatever a client sends, the others go on. Not here: replies that look like any other
and were trained to mislead; of these `outliers` finds only those that are far from all others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from statistics import median, median_low

import torch
from torch import Tensor

from ..arguments import NUMBER
from ..errors import FusionError, InputError
from ..fusing.elsewhere import COUNT, received
from ..layout import Layout
from ..types import State
from .records import Client, LeftOut, Reply, one_line

STATISTICS = ("running_mean", "running_var")  # of batch norms: of another size than weights
# A reply counts if its norm is at most so many times that of the others: training changes norms by small factors, and
# what is scaled by a million is far beyond.
MOST = 100.0


def sifted(
    replies: Sequence[Reply], layout: Layout, server: State, may_lack: Collection[str] = ()
) -> tuple[list[Reply], list[LeftOut]]:
    """The replies that can be fused, their states as tensors by name, and the clients that are left out.

    Args:
        replies: Of one round.
        layout: Of the whole network.
        server: The server's state, which is as wide as any.
        may_lack: Endings of the names of tensors that a reply may lack.
    """
    good: dict[Client, Reply] = {}
    out = []
    for reply in replies:
        try:
            if reply.client in good:
                raise InputError("it replied twice; the first reply counts")
            good[reply.client] = replace(reply, state=_checked(reply, layout, server, may_lack))
        except FusionError as error:
            out.append(LeftOut(reply.client, one_line(error)))
    large = _too_large(list(good.values()), server)
    return [reply for reply in good.values() if reply.client not in large], out + [
        LeftOut(client, reason) for client, reason in large.items()
    ]


def _checked(reply: Reply, layout: Layout, server: State, may_lack: Collection[str]) -> State:
    """The state of a reply as tensors by name.

    Raises:
        FusionError: it cannot be fused with the server's.
    """
    if not NUMBER.holds(reply.examples) or reply.examples == 0:
        raise InputError(f"it counts {reply.examples!r} examples; expected a positive number")
    (state,), own = received([reply.state], layout, may_lack)
    own.check(state)
    if problems := [*_misfits(state, server), *_too_wide(own.widths(state), layout.widths(server), layout)]:
        raise InputError("; ".join(problems))
    return state


def _misfits(state: State, server: State) -> Iterator[str]:
    """What is wrong with the numbers of a state."""
    for name, tensor in state.items():
        own = server[name]
        numbers, expected = ((each.is_floating_point(), each.is_complex()) for each in (tensor, own))
        if numbers != expected:
            yield f"tensor {name} holds {tensor.dtype}, the server's {own.dtype}"
        elif any(numbers):
            if not bool(tensor.isfinite().all()) and not _same_infinities(tensor, own):
                yield f"tensor {name} holds NaN or infinity"
        elif not name.endswith(COUNT) and not torch.equal(tensor, own.to(tensor)):
            yield f"tensor {name} ({tensor.dtype}) differs from the server's, and no mean can be made of it"


def _same_infinities(tensor: Tensor, own: Tensor) -> bool:
    """Whether a tensor is infinite exactly where the server's is, as masks are."""
    return tensor.shape == own.shape and bool((tensor.isfinite() | (tensor == own)).all())


def _too_wide(widths: Mapping[str, int], server: Mapping[str, int], layout: Layout) -> Iterator[str]:
    """Spaces that are wider than the server's, or that cannot be widened to it."""
    for name, width in widths.items():
        if width > server[name]:
            yield f"space {name} has {width} units, the server's {server[name]}; the server's model must be the widest"
        elif objection := layout.growth_objection(name, width, server[name]):
            yield objection


def _too_large(replies: Sequence[Reply], server: State) -> dict[Client, str]:
    """Clients whose weights or statistics are far larger than is usual, with the reason."""
    states = [_as_state(reply) for reply in replies]
    found: dict[Client, str] = {}
    for kind, statistics in (("weights", False), ("statistics of batch norms", True)):
        sizes = [_norm(state, statistics=statistics) for state in states]
        usual = median_low([_norm(server, statistics=statistics), *sizes])
        for reply, size in zip(replies, sizes, strict=True):
            if size > MOST * usual > 0:
                found.setdefault(reply.client, f"its {kind} have a norm of {size:.3g}, where {usual:.3g} is usual")
    return found


def _as_state(reply: Reply) -> State:
    assert isinstance(reply.state, Mapping), "replies that were sifted hold tensors by name"
    return reply.state


def _norm(state: State, *, statistics: bool) -> float:
    """The root of the sum of squares of all weights, or of all statistics of batch norms."""
    squares = [
        float(torch.where(tensor.isfinite(), tensor, 0.0).double().square().sum())  # a mask may be infinite
        for name, tensor in state.items()
        if tensor.is_floating_point() and name.endswith(STATISTICS) == statistics
    ]
    return sqrt(sum(squares))


def outliers(clients: Sequence[Client], aligned: Sequence[State], beyond: float) -> list[LeftOut]:
    """Clients whose state, in the common order, is far from the median of all, number by number.

    The mean would be drawn towards an outlier; the median of three or more is not.

    Args:
        clients: Who sent what.
        aligned: Their states in the common order.
        beyond: A distance is too large from so many times the median distance on.
    """
    if len(clients) < 3:
        return []
    squares = [0.0] * len(clients)
    for name, first in aligned[0].items():
        if first.is_floating_point():
            parts = torch.stack([state[name].double() for state in aligned])
            differences = (parts - parts.median(0).values).nan_to_num().flatten(1)
            squares = [total + float(own.square().sum()) for total, own in zip(squares, differences, strict=True)]
    distances = [sqrt(each) for each in squares]
    usual = median(distances)
    return [
        LeftOut(client, f"after matching it is {distance:.3g} from the median of all, where {usual:.3g} is usual")
        for client, distance in zip(clients, distances, strict=True)
        if distance > beyond * usual > 0
    ]
