"""The strategy for Flower, on Flower's own messages and without its processes."""

import logging

import numpy as np
import pytest
import torch

from federations import LAYOUT, X, network, normed, trained
from transfuse import InputError

flwr = pytest.importorskip("flwr", reason="Flower is not installed: `make test-flower` makes an environment for it")
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402

from transfuse.flower import FusionStrategy, load_sent, to_send  # noqa: E402

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


@pytest.fixture(autouse=True)
def _identity(monkeypatch):
    """Who sends the messages; in a run Flower says it."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class Nodes:
    """All of Flower's grid that configuring a round asks for."""

    def __init__(self, count=4):
        self.ids = range(1, count + 1)

    def get_node_ids(self):
        return list(self.ids)


def strategy(model=None, **options):
    return FusionStrategy(model or network(), X, **({"layout": LAYOUT} if model is None else {}), **options)


def messages_of(own, server_round=1, arrays=None, nodes=4):
    arrays = arrays or ArrayRecord(network().state_dict())
    found = list(own.configure_train(server_round, arrays, ConfigRecord(), Nodes(nodes)))
    return sorted(found, key=lambda message: message.metadata.dst_node_id)


def content(state, examples=10, **metrics):
    arrays = state if isinstance(state, ArrayRecord) else ArrayRecord(dict(state))
    return RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": examples, **metrics})})


def replies_of(messages, states, **metrics):
    return [
        Message(content(state, **metrics), reply_to=message) for message, state in zip(messages, states, strict=True)
    ]


def test_vanilla_is_fedavg():
    own, average = strategy(method="vanilla"), FedAvg()
    messages = messages_of(own)
    states = [network(seed=seed).state_dict() for seed in range(4)]
    replies = [
        Message(content(state, examples=10 * (number + 1), loss=float(number)), reply_to=message)
        for number, (message, state) in enumerate(zip(messages, states, strict=True))
    ]
    arrays, metrics = own.aggregate_train(1, replies)
    expected, means = average.aggregate_train(1, replies)
    torch.testing.assert_close(dict(arrays.to_torch_state_dict()), dict(expected.to_torch_state_dict()))
    assert dict(metrics) == pytest.approx(dict(means))


def test_parameters_of_fedavg_are_taken_and_others_refused():
    own = strategy(fraction_train=0.5, min_train_nodes=1, min_available_nodes=4)
    assert len(messages_of(own)) == 2
    with pytest.raises(TypeError, match="fraction_trained"):
        strategy(fraction_trained=0.5)
    with pytest.raises(InputError, match="no method is called"):
        strategy(method="average")


def test_a_round_is_logged_with_what_was_matched(caplog):
    own = strategy()
    with caplog.at_level(logging.INFO, logger="flwr"):
        own.aggregate_train(1, replies_of(messages_of(own), [network(seed=seed).state_dict() for seed in range(4)]))
    line = next(record.getMessage() for record in caplog.records if "round 1" in record.getMessage())
    assert "4 of 4 clients fused by auto" in line
    assert "% of units moved, objective" in line
    assert own.history[0].status == line


def damaged():
    arrays = ArrayRecord(network().state_dict())
    arrays["0.weight"] = Array(dtype="float32", shape=(8, 1, 3, 3), stype="numpy.ndarray", data=b"no array")
    return arrays


def huge():
    arrays = ArrayRecord(network().state_dict())
    header = np.lib.format.magic(1, 0)
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }"
    text += b" " * (118 - len(text)) + b"\n"
    arrays["0.weight"] = Array(
        dtype="float64", shape=(10**15,), stype="numpy.ndarray", data=header + len(text).to_bytes(2, "little") + text
    )
    return arrays


BROKEN = {
    "NaN": lambda: content({k: v * float("nan") for k, v in network().state_dict().items()}),
    "another architecture": lambda: content(normed().state_dict()),
    "damaged bytes": lambda: content(damaged()),
    "a huge array": lambda: content(huge()),
    "no arrays": lambda: RecordDict({"metrics": MetricRecord({"num-examples": 1})}),
    "two arrays": lambda: RecordDict(
        {
            "a": ArrayRecord(network().state_dict()), "b": ArrayRecord(network().state_dict()),
            "metrics": MetricRecord({"num-examples": 1}),
        }
    ),
    "no metrics": lambda: RecordDict({"arrays": ArrayRecord(network().state_dict())}),
    "no examples": lambda: RecordDict(
        {"arrays": ArrayRecord(network().state_dict()), "metrics": MetricRecord({"loss": 1.0})}
    ),
    "a list of examples": lambda: content(network().state_dict(), examples=[1, 2]),
    "scaled by a million": lambda: content({k: v * 1e6 for k, v in network().state_dict().items()}),
}  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_reply_is_left_out_by_name_and_the_round_is_that_of_the_others(broken, caplog):
    own, other = strategy(), strategy()
    states = [trained(network(seed=3).state_dict(), seed) for seed in range(3)]
    *good, last = messages_of(own)
    replies = replies_of(good, states)
    expected, _ = other.aggregate_train(1, replies_of(messages_of(other, nodes=3), states))
    arrays, metrics = own.aggregate_train(1, [*replies, Message(broken(), reply_to=last)])
    torch.testing.assert_close(dict(arrays.to_torch_state_dict()), dict(expected.to_torch_state_dict()))
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([line for line in lines if f"client {last.metadata.dst_node_id} is left out" in line]) == 1
    assert metrics is not None


def test_a_client_that_failed_is_left_out(caplog):
    own = strategy()
    first, *rest = messages_of(own)
    replies = replies_of(rest, [network(seed=3).state_dict()] * 3)
    arrays, _ = own.aggregate_train(1, [Message(Error(0, "the node\ndied"), reply_to=first), *replies])
    assert arrays is not None
    assert "client 1 is left out: it failed: the node died" in caplog.text


@pytest.mark.parametrize("replies", [lambda messages: [], lambda messages: [Message(Error(0), reply_to=messages[0])]])
def test_without_replies_the_arrays_stay_and_the_next_round_goes_on(replies):
    own = strategy()
    assert own.aggregate_train(1, replies(messages_of(own))) == (None, None)
    arrays, _ = own.aggregate_train(2, replies_of(messages_of(own, 2), [network(seed=3).state_dict()] * 4))
    assert arrays is not None


def test_metrics_of_another_kind_do_not_end_the_round(caplog):
    own = strategy()
    messages = messages_of(own)
    replies = replies_of(messages, [network(seed=3).state_dict()] * 4, loss=2.0)
    replies[1] = Message(content(network(seed=3).state_dict(), other=1.0), reply_to=messages[1])
    _, metrics = own.aggregate_train(1, replies)
    assert dict(metrics) == {"loss": 2.0}
    assert "the metrics of client 2 are left out" in caplog.text
    assert dict(own.aggregate_evaluate(1, replies)) == {"loss": 2.0}
    assert own.aggregate_evaluate(1, [Message(Error(0), reply_to=messages[0])]) is None


def test_whatever_fails_the_federation_goes_on_and_the_log_has_the_cause(monkeypatch, caplog):
    own = strategy()
    monkeypatch.setattr(type(own.federation), "joined", lambda *_: 1 / 0)
    assert own.aggregate_train(1, []) == (None, None)
    assert "ZeroDivisionError" in caplog.text


def test_narrow_clients_are_sent_their_widths_from_their_second_round_on():
    own = strategy()
    messages = messages_of(own)
    nets = [network(width=4 if number == 0 else 8, seed=number) for number in range(4)]
    assert [load_sent(net, message.content["arrays"]) for net, message in zip(nets, messages, strict=True)] == [
        False, True, True, True,
    ]  # fmt: skip
    arrays, _ = own.aggregate_train(1, replies_of(messages, [net.state_dict() for net in nets]))
    again = messages_of(own, 2, arrays)
    assert all(load_sent(net, message.content["arrays"]) for net, message in zip(nets, again, strict=True))
    assert {message.content["config"]["server-round"] for message in again} == {2}
    asked = sorted(
        own.configure_evaluate(2, arrays, ConfigRecord(), Nodes()), key=lambda message: message.metadata.dst_node_id
    )
    assert asked[0].content["arrays"]["0.weight"].shape == (4, 1, 3, 3)
    assert asked[1].content["arrays"]["0.weight"].shape == (8, 1, 3, 3)
    own.aggregate_train(2, replies_of(again, [net.state_dict() for net in nets]))
    assert own.history[1].details["narrower"] == 1


def test_clients_that_keep_batch_norms_to_themselves():
    own = strategy(normed(), may_lack=STATISTICS)
    start = ArrayRecord(normed().state_dict())
    client = normed(seed=1)
    mean = client[1].running_mean.fill_(7.0)
    messages = messages_of(own, arrays=start)
    assert load_sent(client, messages[0].content["arrays"], keep=STATISTICS)
    assert torch.equal(client[0].weight, normed()[0].weight)
    assert torch.equal(mean, torch.full((6,), 7.0))
    sent = to_send(client, keep=STATISTICS)
    assert not any(name.endswith(STATISTICS) for name in sent)
    arrays, _ = own.aggregate_train(1, [Message(content(sent), reply_to=message) for message in messages])
    assert arrays.keys() == start.keys()
    assert own.history[0].left_out == ()


def test_lists_of_arrays_are_taken_in_the_order_of_the_layout():
    own = strategy(method="vanilla")
    state = network(seed=5).state_dict()
    listed = ArrayRecord([tensor.numpy() for tensor in state.values()])
    arrays, _ = own.aggregate_train(1, [Message(content(listed), reply_to=message) for message in messages_of(own)])
    torch.testing.assert_close(dict(arrays.to_torch_state_dict()), dict(state))


def test_arrays_that_do_not_fit_are_refused_before_anything_is_sent():
    with pytest.raises(InputError, match="other widths"):
        messages_of(strategy(), arrays=ArrayRecord(network(width=4).state_dict()))
