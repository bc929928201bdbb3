"""The server: rounds by the strategy of transfuse, and the accuracy on digits of all kinds after each."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from transfuse.demo.data import digits
from transfuse.flower import FusionStrategy

from .task import accuracy, network

torch.set_num_threads(1)
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Some rounds; after each the accuracies are written to a file, if one is named."""
    settings = context.run_config
    images, labels = digits("test")
    model = network(seed=0)
    reached: list[float] = []

    def tell() -> None:
        if settings["out"]:
            told = {"accuracy": reached, "rounds": [str(each) for each in strategy.history]}
            Path(str(settings["out"])).write_text(json.dumps(told), encoding="utf-8")

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        model.load_state_dict(arrays.to_torch_state_dict())
        reached.append(accuracy(model, images, labels))
        tell()
        return MetricRecord({"accuracy": reached[-1]})

    strategy = FusionStrategy(network(seed=0), images[:2], method=str(settings["method"]), fraction_evaluate=0.0)
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(model.state_dict()),
        num_rounds=int(settings["num-server-rounds"]),
        timeout=float(settings["timeout"]),
        evaluate_fn=evaluate,
    )
    print("accuracy after every round, in percent:", " ".join(f"{each:.1f}" for each in reached), flush=True)
