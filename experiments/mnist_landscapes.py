"""The paper's pictures for MNIST: what lies between two networks before and after one is aligned to the other.

    TRANSFUSE_DATA=folder python experiments/mnist_landscapes.py [--networks MLP RNN LSTM] [--figures docs/figures]

For each architecture, networks 0 and 1 of `mnist_pairs.py` (trained there, kept in `--cache`): the test error along the
segment between the networks as trained and aligned (method `auto` without its last correction), and on the plane
through model 1, model 2 and aligned model 2. Writes `barriers_mnist.svg` (of the architectures chosen) and
`plane_<network>_mnist.svg`. Values are kept beside the networks, so that an interrupted run goes on and a new picture
costs little. Recurrent networks are measured on the first 2,000 test images: one core takes ten minutes as it is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure
from mnist_pairs import BUILD, base_network, mnist

import transfuse

IMAGES = {"MLP": 10000, "RNN": 2000, "LSTM": 2000}
GRID = 21
TITLES = {"MLP": "MLPNet", "RNN": "RNN-256", "LSTM": "LSTM-256"}


def landscapes(kind: str, cache: Path, workers: int) -> tuple[transfuse.Barrier, transfuse.Barrier, transfuse.Plane]:
    """The barriers as trained and aligned, and the plane."""
    data, (images, labels) = mnist("train"), mnist("t10k")
    first, second = (base_network(kind, seed, cache, data) for seed in (0, 1))
    fusion = transfuse.fuse([first, second], images[:2], finish="none")
    batches = [part[: IMAGES[kind]].split(500) for part in (images, labels)]
    evaluate = transfuse.evaluator(zip(*batches, strict=True))
    how = {"cache": cache / f"landscape_{kind}.jsonl", "workers": workers, "progress": "always"}
    trained = transfuse.barrier(first, second, evaluate, **how)
    aligned = transfuse.barrier(*fusion.aligned, evaluate, **how)
    marks = {
        "model 1": fusion.aligned[0],
        "model 2": second,
        "model 2 aligned": fusion.aligned[1],
        "fused": fusion.model,
    }
    plane = transfuse.plane(*list(marks.values())[:3], evaluate, grid=GRID, marks=marks, **how)
    return trained, aligned, plane


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=BUILD, default=list(BUILD))
    parser.add_argument("--cache", type=Path, default=Path("experiments/.cache"))
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"))
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    options.figures.mkdir(parents=True, exist_ok=True)
    with style.context(["default", transfuse.plots.STYLE]):
        panels = Figure(figsize=(2.3 * len(options.networks), 2.4))
        row = panels.subplots(1, len(options.networks), squeeze=False)[0]
    for axes, kind in zip(row, options.networks, strict=True):
        trained, aligned, plane = landscapes(kind, options.cache, options.workers)
        print(f"{TITLES[kind]} as trained\n{trained}\n{TITLES[kind]} aligned\n{aligned}", flush=True)
        for mark in plane.marks:
            print(f"  {mark.name}: error {mark.values['error']:.2f}, at ({mark.x:.1f}, {mark.y:.1f})", flush=True)
        curves = {"as trained": trained, "aligned": aligned}
        transfuse.plots.barriers(curves, metric="error", label="test error, %", axes=axes)
        axes.set_title(TITLES[kind])
        figure = transfuse.plots.plane(plane, metric="error", title=f"{TITLES[kind]}: test error, %")
        figure.savefig(options.figures / f"plane_{kind.lower()}_mnist.svg")
    panels.savefig(options.figures / "barriers_mnist.svg")


if __name__ == "__main__":
    main()
