"""Shrink and grow: networks of other widths, from one or from two.

A network that grows computes what it did, and has room for more. Two networks fused into one of twice the width keep
all their units: next to the ensemble, in one pass. Fused into half the width they become small. A comparison puts all
of it in one table, beside what one network alone reaches.

    python examples/journeys/shrink_and_grow.py
"""

import time

import torch
from torch import nn

import transfuse
from transfuse.demo import digits

EPOCHS = 15  # enough for 95 % on 8 x 8 digits


def trained(seed: int, width: int = 32) -> nn.Sequential:
    """A network after a short training."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )
    x, y = digits("train")
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
    return net.eval()


def journey() -> transfuse.Comparison:
    """Grow one network, then compare what two become at half, equal and double width."""
    x, _ = digits("test")
    a = trained(0)
    grown = transfuse.fuse([a], x[:2], target=2.0).model
    assert grown[1].out_features == 2 * a[1].out_features
    torch.testing.assert_close(grown(x), a(x), rtol=1e-4, atol=1e-4)
    pairs = {f"{seed} and {seed + 1}": [trained(seed), trained(seed + 1)] for seed in (0, 2)}
    widths = {f"auto, {factor:g} × as wide": {"method": "auto", "target": factor} for factor in (0.5, 1.0, 2.0)}
    evaluate = transfuse.evaluator([digits("test")])
    return transfuse.compare(pairs, x[:2], evaluate, methods=widths, data=digits("train")[0][:300], points=3)


if __name__ == "__main__":
    torch.set_num_threads(1)
    started = time.perf_counter()
    found = journey()
    print(found, f"{time.perf_counter() - started:.0f} s", sep="\n")
    errors = {row[0]: float(row[2].split()[0]) for row in found.table().rows}
    assert errors["auto, 2 × as wide"] < errors["ensemble"] + 1
    assert errors["auto, 2 × as wide"] <= errors["auto, 1 × as wide"] <= errors["auto, 0.5 × as wide"]
