"""A client: it trains what the server sends, or in its first round a network of its own."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

from transfuse.flower import load_sent, to_send

from .task import accuracy, network, share, train

torch.set_num_threads(1)
app = ClientApp()


def _mine(context: Context) -> tuple[int, int]:
    """The number of this client, and how many there are."""
    return int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])


def _reply(message: Message, metrics: dict[str, float], arrays: ArrayRecord | None = None) -> Message:
    content = RecordDict({"metrics": MetricRecord(metrics)})
    if arrays is not None:
        content["arrays"] = arrays
    return Message(content=content, reply_to=message)


@app.train()
def fit(message: Message, context: Context) -> Message:
    """A round of training."""
    client, clients = _mine(context)
    images, labels = share(client, clients)
    model = network(seed=client + 1)
    first = message.content["config"]["server-round"] == 1
    if not (first and context.run_config["own-starts"]):
        load_sent(model, message.content["arrays"])
    settings = context.run_config
    loss = train(model, images, labels, epochs=settings["local-epochs"], rate=settings["learning-rate"])
    if context.node_config.get("sends-nan"):  # a broken client, to see what the server makes of it
        nn.utils.vector_to_parameters(torch.full((sum(p.numel() for p in model.parameters()),), float("nan")),
                                      model.parameters())  # fmt: skip
    return _reply(message, {"loss": loss, "num-examples": len(labels)}, to_send(model))


@app.evaluate()
def measure(message: Message, context: Context) -> Message:
    """The accuracy of what the server sent, on the client's own examples."""
    images, labels = share(*_mine(context))
    model = network(seed=0)
    load_sent(model, message.content["arrays"])
    return _reply(message, {"accuracy": accuracy(model, images, labels), "num-examples": len(labels)})
