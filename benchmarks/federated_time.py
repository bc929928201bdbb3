"""Time of a federated round: joining the replies, beside the plain average and the clients' own training.

    python benchmarks/federated_time.py [--clients 4 10 30 100] [--json FILE]

The demo's MLP (64-128-64-10, with biases) on the 8 x 8 digits that ship with transfuse. Every client has 120 images and
trains five epochs; that is measured for one of them. *Average* is what Flower's FedAvg computes: arrays of NumPy,
weighted and added. *First* is a round in which every client began with a start of its own, and all starts of `auto` are
tried; *later* is the round after it, in which clients trained what they were sent: one start is enough. CPU seconds,
the least of some repeats. A round that grows with the clients, and not faster, has the same time for each client.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from clock import least
from torch import nn
from torch.nn import functional as F

import transfuse
from transfuse.demo.data import digits
from transfuse.demo.networks import mlp

SHARE, EPOCHS, BATCH = 120, 5, 16


def trained(state: dict[str, torch.Tensor] | None, client: int) -> nn.Module:
    """A client's network after training from a state, or from its own start."""
    torch.manual_seed(client)
    model = mlp()
    if state is not None:
        model.load_state_dict(state)
    images, labels = digits("train")
    rows = torch.randperm(len(labels))[:SHARE]
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(EPOCHS):
        for part in rows.split(BATCH):
            optimiser.zero_grad()
            F.cross_entropy(model(images[part]), labels[part]).backward()
            optimiser.step()
    return model


def averaged(states: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """What Flower's FedAvg computes of replies that count alike."""
    total: dict[str, np.ndarray] = {}
    for state in states:
        for name, array in state.items():
            total[name] = total[name] + array / len(states) if name in total else array / len(states)
    return total


def measured(clients: int, repeats: int) -> dict[str, float]:
    """CPU seconds of the parts of a round."""
    example = digits("test")[0][:2]
    replies = [transfuse.Reply(number, trained(None, number).state_dict()) for number in range(clients)]
    arrays = [{name: tensor.numpy() for name, tensor in reply.state.items()} for reply in replies]
    start = {method: transfuse.Federation.of(mlp(), example, method=method) for method in ("vanilla", "auto", "fedma")}
    after, _ = start["auto"].joined(replies)
    again = [transfuse.Reply(number, trained(dict(after.state), number).state_dict()) for number in range(clients)]
    return {
        "average": least(lambda: averaged(arrays), repeats),
        "vanilla": least(lambda: start["vanilla"].joined(replies), repeats),
        "fedma": least(lambda: start["fedma"].joined(replies), repeats),
        "first": least(lambda: start["auto"].joined(replies), repeats),
        "later": least(lambda: after.joined(again), repeats),
    }


def main() -> None:
    """Measure, print and perhaps write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[4, 10, 30, 100])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    trained(None, 0)  # the first call loads what the others find there
    training = least(lambda: trained(None, 0), options.repeats)
    print(f"training of one client: {training:.3f} CPU s, {torch.get_num_threads()} thread(s)", flush=True)
    rows = {}
    for clients in options.clients:
        rows[clients] = measured(clients, options.repeats)
        told = ", ".join(f"{name} {1e3 * value / clients:.2f}" for name, value in rows[clients].items())
        print(f"{clients} clients, CPU ms for each: {told}", flush=True)
    if options.json:
        content = {"torch": torch.__version__, "training": training, "rounds": rows}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
