"""What the default `fuse` of a pair of networks takes as a whole, and the share of each of its stages.

    python benchmarks/whole_call.py [--networks tiny ResNet20 VGG11 LSTM-256] [--images 0 500] [--correct auto]
                                    [--json FILE]

Two networks with random weights, whose batch norms remember drawn images, as those of trained networks remember data:
else inverted noise would be nearest to them. An LSTM has twice the weights that it is made with, so that its states
move, as those of a trained one do; it reads the 28 rows of an image. Without data (0 images), and with so many images
of noise as data. Columns: CPU seconds of the whole call, then the share of each stage: `trace` finds the layout and
proves it, `synthetic` makes inputs without data, `matching` runs the networks and finds couplings, `correction` makes
the corrections and chooses, `checks` hold models and results to be what they should. What is left are copies. Wanted:
40 s for VGG11, 15 for ResNet20, 2 for the tiny one, 5 for the LSTM with 500 images.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from clock import Clock
from networks import vgg11
from torch import nn

import transfuse
from transfuse.fusing import given
from transfuse.fusing import networks as stages
from transfuse.fusing.inputs import Inputs
from transfuse.fusing.verifying import Verified
from transfuse.networks import lstm, resnet20
from transfuse.synthetic import SyntheticInputs
from transfuse.synthetic.leaves import dead_leaves


def tiny() -> nn.Module:
    """Three convolutions and two linear layers, as tutorials have them."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10))


def lively_lstm() -> nn.Module:
    """An LSTM of 256 units with twice its weights, in evaluation mode."""
    model = lstm()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0)
    return model.eval()


BUILD: dict[str, Callable[[], nn.Module]] = {
    "tiny": tiny, "ResNet20": resnet20, "VGG11": vgg11, "LSTM-256": lively_lstm,
}  # fmt: skip
SHAPES = {"LSTM-256": (28, 28)}  # of one image, where it is not [3, 32, 32]
# By stage: where its functions are called from, and their names there.
STAGES: dict[str, list[tuple[Any, str]]] = {
    "trace": [(given, "trace")],
    "synthetic": [(SyntheticInputs, "of")],
    "matching": [(Inputs, "activations"), (stages, "fused_states")],
    "correction": [(stages, "corrected")],
    "checks": [(given, "verified"), (Verified, "held_to")],
}


@contextmanager
def timed() -> Iterator[dict[str, Clock]]:
    """A clock for each stage, which runs while a function of the stage does."""
    clocks = {stage: Clock() for stage in STAGES}
    patches = [patch.object(owner, name, _within(clocks[stage], owner, name))
               for stage, places in STAGES.items() for owner, name in places]  # fmt: skip
    for each in patches:
        each.start()
    try:
        yield clocks
    finally:
        for each in patches:
            each.stop()


def _within(clock: Clock, owner: Any, name: str) -> Any:
    """A function that does what another does, with a clock running."""
    plain = getattr(owner, name)

    def run(*args: Any, **options: Any) -> Any:
        with clock:
            return plain(*args, **options)

    return staticmethod(run) if isinstance(vars(owner)[name], staticmethod) else run


def remembering(model: nn.Module) -> nn.Module:
    """A network whose batch norms, if it has some, have the statistics of leaves, in evaluation mode."""
    norms = [each for each in model.modules() if isinstance(each, nn.BatchNorm2d)]
    if not norms:
        return model.eval()
    for norm in norms:
        norm.momentum = None  # the mean of all batches
    with torch.no_grad():
        model.train()(dead_leaves(200, torch.randn(16, 3, 32, 32), torch.Generator().manual_seed(2)))
    return model.eval()


def measure(name: str, images: int, correct: str) -> dict[str, Any]:
    """Seconds of one call, and of each stage."""
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(remembering(BUILD[name]()))
    shape = SHAPES.get(name, (3, 32, 32))
    data = torch.randn(images, *shape) if images else None
    with timed() as clocks, Clock() as whole:
        fusion = transfuse.fuse(models, torch.randn(16, *shape), data=data, correct=correct)
    shares = {stage: clock.cpu / whole.cpu for stage, clock in clocks.items()}
    return {"network": name, "images": images, "seconds": whole.cpu, "shares": shares,
            "correction": fusion.correction.method}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="*", default=list(BUILD), choices=list(BUILD))
    parser.add_argument("--images", nargs="*", type=int, default=[0, 500])
    parser.add_argument("--correct", default="auto")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    transfuse.fuse([tiny(), tiny()], torch.randn(2, 3, 32, 32), correct="none")  # imports inside torch
    found = []
    for name in options.networks:
        for images in options.images:
            line = measure(name, images, options.correct)
            found.append(line)
            told = "  ".join(f"{stage} {share:4.0%}" for stage, share in line["shares"].items())
            print(f"{name:<9} {images:4} images {line['seconds']:7.1f} s  {told}  ({line['correction']})", flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
