"""A federation: what the server knows between rounds, and how replies become its next state.

In: a network, then the replies of each round. Out: the federation after the round, and a record of it. It is a value:
`federation, told = federation.joined(replies)`; nothing is sent, trained or logged here, so any framework, or a plain
loop, can carry it (`transfuse.flower` does it for Flower).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from ..arguments import NETWORK, NUMBER, SEED, SWITCH, TEXT, Kind, check_arguments, count, mapping, optional
from ..corrections import NONE, ChosenCorrection
from ..errors import InputError
from ..fusing import FusedStates
from ..fusing.elsewhere import ENDINGS, Sent, received
from ..layout import LAYOUT, Layout
from ..methods import Chosen
from ..modules import state_of, unwrapped
from ..tracing import trace
from ..types import State
from ..workers import WORKERS, Workers
from .carrying import carried, downwards, moved_share, nearest
from .merging import Merged, Rules, merged
from .records import Client, LeftOut, Reply, Round, Standing
from .sifting import outliers, sifted

OPTIONS = mapping(Kind(lambda value: True, ""), "options of the method by name: {'restarts': 0}")


@dataclass(frozen=True, eq=False)
class Federation:
    """What a server knows between rounds.

    Args:
        model: The server's network, as wide as any client's; its weights are not used once there is a state.
        layout: Which axes move together; traced once.
        state: The server's state.
        rules: How replies become one state.
        clients: What is known of the clients that have replied.
        rounds: How many rounds there were.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> federation = Federation.of(nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)), torch.zeros(1, 3))
        >>> replies = [Reply(number, federation.sent_to(number), examples=10) for number in range(2)]
        >>> federation, told = federation.joined(replies)
        >>> told.clients, federation.rounds
        ((0, 1), 1)
    """

    model: nn.Module
    layout: Layout
    state: State
    rules: Rules
    clients: Mapping[Client, Standing] = field(default_factory=dict)
    rounds: int = 0

    @staticmethod
    def of(  # noqa: PLR0913
        model: nn.Module, example_inputs: Any = None, *, layout: Layout | None = None, method: str = "auto",
        options: Mapping[str, Any] | None = None, correct: str = NONE, correct_until: int | None = None,
        data: Any = None, may_lack: Collection[str] = (), beyond: float | None = None, rematch: bool = False,
        least: int = 1, seed: int = 0, workers: Workers = 0,
    ) -> Federation:  # fmt: skip
        """A federation before its first round.

        Args:
            model: The server's network, as wide as any client's. It is not changed.
            example_inputs: For tracing, and for synthetic inputs if a correction is wanted without data.
            layout: A layout, instead of tracing the network.
            method: A row of `transfuse.METHODS` that goes by weights alone.
            options: Options of the method; `sweeps`, where it has them, are 10 if they are not given.
            correct: A correction of the server's network after each round: a row of `transfuse.CORRECTIONS`, `auto`, or
                `none`.
            correct_until: The last round after which it is corrected; None for all. Corrections help most where
                clients are far apart, as they are in the first round from different starts.
            data: A few unlabeled inputs on the server, for the correction; default: synthetic ones.
            may_lack: Endings of names of tensors that clients may keep to themselves, such as
                `("running_mean", "running_var")`; of these the server keeps its own.
            beyond: Leave out clients that are, after matching, more than so many times as far from the median of all
                as is usual; None leaves out none.
            rematch: What is sent to a narrower client follows the coupling of its last reply; default: that of its
                first one, so that its units keep their meaning.
            least: With fewer replies that count, the server's state stays as it is.
            seed: Of the order of sweeps, and of synthetic inputs.
            workers: Processes or an executor that help to couple the clients; see `fuse_states`.

        Raises:
            InputError: something of this cannot be; nothing is refused later but what clients send.
        """
        check_arguments(
            model=(model, NETWORK), layout=(layout, optional(LAYOUT)), method=(method, TEXT),
            options=(options, optional(OPTIONS)), correct=(correct, TEXT), may_lack=(may_lack, ENDINGS),
            beyond=(beyond, optional(NUMBER)), rematch=(rematch, SWITCH), least=(least, count(1)), seed=(seed, SEED),
            correct_until=(correct_until, optional(count(0))), workers=(workers, WORKERS),
        )  # fmt: skip
        model = unwrapped(model)
        rules = Rules(
            method, options or {}, correct, correct_until, data, example_inputs, tuple(may_lack), beyond,
            rematch=rematch, least=least, seed=seed, workers=workers,
        )  # fmt: skip
        _check_rules(rules, model)
        if layout is None and example_inputs is None:
            raise InputError("pass example_inputs, with which the network is traced, or a layout")
        # Couplings of one round are where the next one starts, and only what permutes or merges units can be that.
        found = (layout or trace(model, example_inputs)).without_rotations()
        found.check(state_of(model))
        return Federation(model, found, state_of(model), rules)

    def begun_with(self, state: Sent) -> Federation:
        """The federation with another state of the server's, of the same widths.

        Raises:
            LayoutError: it does not fit the layout.
            InputError: it has other widths than the server's network.
        """
        (own,), _ = received([state], self.layout)
        self.layout.check(own)
        if self.layout.widths(own) != self.layout.widths(self.state):
            raise InputError("the state has other widths than the server's network; give one of the same widths")
        return replace(self, state=own)

    def sent_to(self, client: Client) -> State:
        """What a client is to train next: the server's state, in the widths of the client where these are known."""
        standing = self.clients.get(client)
        if standing is None or standing.sent is None:
            return self.state
        return carried(self.state, self.layout, downwards(standing.sent), standing.widths)

    def joined(self, replies: Iterable[Reply]) -> tuple[Federation, Round]:
        """The federation after a round, and what the round gave; no reply makes an error."""
        started = time.perf_counter()
        number = self.rounds + 1
        good, out = sifted(list(replies), self.layout, self.state, self.rules.may_lack)
        if len(good) < self.rules.least:
            status = f"round {number}: {len(good)} replies count, fewer than {self.rules.least}; the state stays"
            return replace(self, rounds=number), Round(number, self.state, (), tuple(out), status)
        found = self._merged(good)
        if self.rules.beyond is not None and found.fused is not None:
            own = [reply.client for reply in good]
            if far := outliers(own, self._aligned(found.fused, len(good)), self.rules.beyond):
                good = [reply for reply in good if reply.client not in {each.client for each in far}]
                out, found = [*out, *far], self._merged(good)
        after = replace(self, state=found.state, clients=self._standings(good, found.fused), rounds=number)
        return after, self._told(number, good, out, found, time.perf_counter() - started)

    def _merged(self, replies: Sequence[Reply]) -> Merged:
        """The replies as one state; from the second round on, in the order of the server's units."""
        states = [(self._state(reply), reply.examples) for reply in replies]
        known = [self._known(reply) for reply in replies]
        rules = self.rules.in_round(self.rounds + 1)
        return merged(self.model, self.layout, self.state, rules, states, known if self.clients else None)

    def _state(self, reply: Reply) -> State:
        assert isinstance(reply.state, Mapping), "replies that were sifted hold tensors by name"
        return reply.state

    def _known(self, reply: Reply) -> State | None:
        """Couplings from which a client is matched; none of one that is new, or has changed its widths."""
        standing, state = self.clients.get(reply.client), self._state(reply)
        if standing is None or standing.widths != self._widths(state):
            return None
        return nearest(state, self.state, self.layout, standing)

    def _widths(self, state: State) -> dict[str, int]:
        lacking = [name for name in self.layout.tensors if name not in state]
        return {**self.layout.widths(self.state), **self.layout.without(lacking).widths(state)}

    def _aligned(self, fused: FusedStates, clients: int) -> Sequence[State]:
        return fused.aligned[len(fused.aligned) - clients :]

    def _standings(self, replies: Sequence[Reply], fused: FusedStates | None) -> dict[Client, Standing]:
        """What is known of the clients after a round."""
        found = dict(self.clients)
        full = self.layout.widths(self.state)
        for reply, own in zip(replies, fused.couplings[-len(replies) :] if fused else (), strict=fused is not None):
            widths, before = self._widths(self._state(reply)), self.clients.get(reply.client)
            kept = before is not None and before.widths == widths and not self.rules.rematch
            sent = before.sent if before is not None and kept else own
            found[reply.client] = Standing(widths, None if widths == full else sent, own)
        return found

    def _told(
        self, number: int, replies: Sequence[Reply], out: Sequence[LeftOut], found: Merged, seconds: float
    ) -> Round:
        """The record of a round."""
        couplings = found.fused.couplings[-len(replies) :] if found.fused else ()
        full = self.layout.widths(self.state)
        wide = [self._widths(self._state(reply)) == full for reply in replies]
        shares = [moved_share(own) for own, same in zip(couplings, wide, strict=False) if same]
        objective = found.fused.history[-1].objective if found.fused else float("nan")
        details = {
            "clients": len(replies), "left-out": len(out), "objective": objective, "seconds": seconds,
            "moved": sum(shares) / len(shares) if shares else 0.0, "narrower": wide.count(False),
        }  # fmt: skip
        parts = [
            f"round {number}: {len(replies)} of {len(replies) + len(out)} clients fused by {self.rules.method}",
            f"{100 * details['moved']:.0f} % of units moved",
            f"{details['narrower']} narrower" if details["narrower"] else "",
            f"objective {objective:.4g}",
            f"{seconds:.2f} s",
            *found.notes,
        ]
        status = ", ".join(filter(None, parts))
        clients = tuple(reply.client for reply in replies)
        return Round(number, found.state, clients, tuple(out), status, found.fused, details)


def _check_rules(rules: Rules, model: nn.Module) -> None:
    """Refuse a method or a correction that cannot be, before the first round.

    Raises:
        InputError: naming it.
    """
    terms = Chosen.of(rules.method, rules.options).row.terms
    if terms not in (None, "weights"):
        raise InputError(f"method {rules.method} matches units by {terms}; clients send weights alone")
    inputs = rules.data is not None or rules.example_inputs is not None
    ChosenCorrection.of(rules.correct).check(model, inputs=inputs)
    if rules.correct != NONE and not inputs:
        raise InputError(f"correct is {rules.correct!r}, but there are no inputs; pass data= or example_inputs")
