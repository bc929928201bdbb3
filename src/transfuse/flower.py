"""Flower: a strategy that matches the units of clients before it averages them, and two functions for clients.

In: Flower's messages. Out: Flower's records. What happens in a round is said by `transfuse.Federation`; here states are
taken out of messages and put into them, and everything is logged. Needs the extra `flower`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from torch import nn

try:
    from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import FedAvg
except ImportError as error:
    raise ImportError(f"transfuse.flower needs Flower: pip install 'transfuse[flower]' ({error})") from error

from .corrections import NONE
from .errors import InputError
from .federated import Federation, LeftOut, Reply, Round
from .federated.records import one_line
from .layout import Layout
from .modules import state_of
from .workers import Workers

__all__ = ["FusionStrategy", "load_sent", "to_send"]

LOG = logging.getLogger("flwr")  # Flower's own, so that lines of a round stand together
# What `numpy.load` raises for bytes that are no array, or that claim to be a huge one.
DAMAGED = (ValueError, TypeError, EOFError, OSError, MemoryError, OverflowError)


class FusionStrategy(FedAvg):  # type: ignore[misc]
    """Federated averaging in which units that do the same are averaged, wherever they stand in each client's network.

    A drop-in for Flower's `FedAvg`: all its parameters are taken by name. Clients may be narrower than the server: they
    train networks of their own widths, which they are sent from their second round on (`load_sent` tells them). A reply
    that cannot be used is left out with one line in the log, and the round stands.

    Args:
        model: The server's network, as wide as any client's.
        example_inputs: For tracing, and for synthetic inputs if a correction is wanted without data.
        layout: A layout, instead of tracing the network.
        method: A row of `transfuse.METHODS`; `vanilla` is `FedAvg`'s average.
        options: Options of the method.
        correct: A correction of the server's network after each round; see `transfuse.Federation.of`.
        correct_until: The last round after which it is corrected; None for all.
        data: A few unlabeled inputs on the server, for the correction.
        may_lack: Endings of names of tensors that clients may keep to themselves.
        beyond: Leave out clients that are far from the median of all after matching; None leaves out none.
        rematch: What is sent to a narrower client follows the coupling of its last reply, not of its first.
        least: With fewer replies that count, the server's arrays stay as they are.
        seed: Of the order of sweeps, and of synthetic inputs.
        workers: Processes or an executor that help to couple the clients; see `transfuse.fuse_states`.
        **averaging: Parameters of `FedAvg`: `fraction_train`, `min_available_nodes`, `weighted_by_key` and so on.
    """

    def __init__(  # noqa: PLR0913
        self, model: nn.Module, example_inputs: Any = None, *, layout: Layout | None = None, method: str = "auto",
        options: Mapping[str, Any] | None = None, correct: str = NONE, correct_until: int | None = None,
        data: Any = None, may_lack: Collection[str] = (), beyond: float | None = None, rematch: bool = False,
        least: int = 1, seed: int = 0, workers: Workers = 0, **averaging: Any,
    ) -> None:  # fmt: skip
        super().__init__(**averaging)
        self.federation = Federation.of(
            model, example_inputs, layout=layout, method=method, options=options, correct=correct,
            correct_until=correct_until, data=data, may_lack=may_lack, beyond=beyond, rematch=rematch, least=least,
            seed=seed, workers=workers,
        )  # fmt: skip
        self.history: list[Round] = []
        self._arrays: ArrayRecord | None = None

    def summary(self) -> None:
        """Log what is matched, and how."""
        rules, spaces = self.federation.rules, self.federation.layout.spaces
        told = ", ".join(f"{space.name} {space.units}" for space in spaces) or "none"
        LOG.info("\t├──> Fusion: method %s, correction %s, spaces %s", rules.method, rules.correct, told)
        super().summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round of training, each with the state in the widths of its client."""
        self._adopt(arrays)
        return self._in_their_widths(super().configure_train(server_round, arrays, config, grid))

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round of evaluation, each with the state in the widths of its client."""
        self._adopt(arrays)
        return self._in_their_widths(super().configure_evaluate(server_round, arrays, config, grid))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The server's next arrays, and the mean of the metrics of the clients that counted."""
        try:
            return self._joined(list(replies))
        except Exception:  # whatever it is, the federation goes on; the log has the cause
            LOG.exception("round %d: the arrays stay as they are, for joining the replies failed", server_round)
            return None, None

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The mean of the metrics of clients whose reply can be used."""
        good: dict[int, RecordDict] = {}
        for message in replies:
            try:
                good[message.metadata.src_node_id] = self._weighed(message)[0]
            except InputError as error:
                LOG.warning("round %d, evaluation: %s", server_round, LeftOut(message.metadata.src_node_id, str(error)))
        return self._mean(good, self.evaluate_metrics_aggr_fn)

    def _adopt(self, arrays: ArrayRecord) -> None:
        """Begin with arrays that come from elsewhere: those of the first round, or changed by a subclass."""
        if arrays is not self._arrays:
            self.federation = self.federation.begun_with(_as_sent(arrays))
            self._arrays = arrays

    def _in_their_widths(self, messages: Iterable[Message]) -> list[Message]:
        return [self._in_its_width(message) for message in messages]

    def _in_its_width(self, message: Message) -> Message:
        """A message with the state in the widths of its client."""
        client = message.metadata.dst_node_id
        state = self.federation.sent_to(client)
        if state is self.federation.state:
            return message
        content = RecordDict({**message.content, self.arrayrecord_key: ArrayRecord(dict(state))})
        return Message(content=content, message_type=message.metadata.message_type, dst_node_id=client)

    def _joined(self, messages: list[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        contents: dict[int, RecordDict] = {}
        usable, broken = [], []
        for message in messages:
            client = message.metadata.src_node_id
            try:
                content, examples = self._weighed(message)
                usable.append(Reply(client, _as_sent(_only(content.array_records, "ArrayRecord")), examples))
                contents[client] = content
            except (InputError, *DAMAGED) as error:
                broken.append(LeftOut(client, one_line(error)))
        self.federation, told = self.federation.joined(usable)
        self.history.append(told)
        LOG.info("%s", told.status)
        for each in (*broken, *told.left_out):
            LOG.warning("round %d: %s", told.number, each)
        if not told.clients:
            return None, None
        self._arrays = ArrayRecord(dict(told.state))
        counted = {client: contents[client] for client in told.clients if isinstance(client, int)}
        return self._arrays, self._mean(counted, self.train_metrics_aggr_fn)

    def _weighed(self, message: Message) -> tuple[RecordDict, float]:
        """What a reply holds, and how many examples it counts.

        Raises:
            InputError: it is an error, or has no number of examples.
        """
        if message.has_error():
            raise InputError(f"it failed: {one_line(message.error.reason or 'no reason was given')}")
        metrics = _only(message.content.metric_records, "MetricRecord")
        if self.weighted_by_key not in metrics:
            raise InputError(f"its metrics lack {self.weighted_by_key!r}; they are {', '.join(metrics) or 'none'}")
        return message.content, metrics[self.weighted_by_key]

    def _mean(
        self, contents: Mapping[int, RecordDict], mean: Callable[[list[RecordDict], str], MetricRecord]
    ) -> MetricRecord | None:
        """The mean of metrics, over the clients that have those which most have."""
        names = {client: _names(content) for client, content in contents.items()}
        if not names:
            return None
        usual = Counter(names.values()).most_common(1)[0][0]
        for client in names.keys() - {client for client, own in names.items() if own == usual}:
            LOG.warning("the metrics of client %s are left out: they are %s", client, sorted(map(str, names[client])))
        found: MetricRecord = mean(
            [content for client, content in contents.items() if names[client] == usual], self.weighted_by_key
        )
        return found


def _only(records: Mapping[str, Any], kind: str) -> Any:
    """The only record of a kind.

    Raises:
        InputError: there is none, or there are several.
    """
    if len(records) != 1:
        raise InputError(f"it holds {len(records)} records of the kind {kind}; expected one")
    return next(iter(records.values()))


def _names(content: RecordDict) -> tuple[tuple[str, int], ...]:
    """The names of the metrics of a reply, and how many numbers each has."""
    metrics = _only(content.metric_records, "MetricRecord")
    return tuple(sorted((name, len(value) if isinstance(value, list) else 0) for name, value in metrics.items()))


def _as_sent(arrays: ArrayRecord) -> Any:
    """Arrays by name; a list if they have numbers for names, as Flower gives lists."""
    if list(arrays) == [str(number) for number in range(len(arrays))]:
        return [array.numpy() for array in arrays.values()]
    return {name: array.numpy() for name, array in arrays.items()}


def load_sent(model: nn.Module, arrays: ArrayRecord, *, keep: Collection[str] = ()) -> bool:
    """Put what the server sent into a client's model, if it has these widths; whether it has.

    In its first round a narrower client is sent the server's widths, for nobody knows its own yet: it trains what it
    has, and is sent its own widths from then on.

    Args:
        model: The client's model; it is changed.
        arrays: What the server sent.
        keep: Endings of names of tensors that the client keeps as they are, such as those of batch norms.
    """
    own = state_of(model)
    sent = arrays.to_torch_state_dict()
    if any(name not in own or own[name].shape != tensor.shape for name, tensor in sent.items()):
        return False
    model.load_state_dict(
        {name: tensor for name, tensor in sent.items() if not name.endswith(tuple(keep))}, strict=False
    )
    return True


def to_send(model: nn.Module, *, keep: Collection[str] = ()) -> ArrayRecord:
    """The tensors of a client's model for the server, without those that the client keeps to itself."""
    return ArrayRecord(
        {name: tensor.cpu() for name, tensor in state_of(model).items() if not name.endswith(tuple(keep))}
    )
