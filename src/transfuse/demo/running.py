"""`run`: train, fuse, compare, and write a page."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..api import Fusion, fuse
from ..tracing import trace
from .data import digits
from .networks import NETWORKS, TITLES
from .training import base_network

METHODS = ("vanilla", "ot", "wb", "gwb", "auto")
ROWS = {
    "base": "base networks (mean of two)",
    "vanilla": "vanilla: the plain average",
    "ot": "OT fusion",
    "wb": "WB: Wasserstein barycenter",
    "gwb": "GWB: Gromov-Wasserstein barycenter",
    "auto": "auto",
    "ensemble": "ensemble (both networks run)",
}


@dataclass(frozen=True, eq=False)
class Compared:
    """A pair of networks and what became of it: accuracies in percent, and the fusion by `auto`."""

    kind: str
    accuracies: dict[str, float]
    fusion: Fusion


def run(folder: Path, *, fresh: bool = False, quiet: bool = False) -> tuple[dict[str, Any], str]:
    """Do it all; figures for machines, and the text for people."""
    started = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    compared = []
    for kind in NETWORKS:
        _tell(f"{TITLES[kind]}: two networks, trained independently", quiet)
        pair = [base_network(kind, seed, folder, fresh=fresh) for seed in (0, 1)]
        _tell(f"{TITLES[kind]}: fused by {', '.join(METHODS)}", quiet)
        compared.append(compare(kind, pair))
    pages = write_pages(folder, compared, quiet=quiet)
    seconds = time.perf_counter() - started
    data = {"accuracy": {each.kind: each.accuracies for each in compared}, "pages": pages, "seconds": round(seconds, 1)}
    return data, f"{table(compared)}\n\n{epilogue(folder, pages, seconds)}"


def compare(kind: str, pair: Sequence[nn.Module]) -> Compared:
    """Fuse a pair by every method, and measure."""
    images, _ = digits("test")
    layout = trace(pair[0], images[:2])
    accuracies = {"base": sum(map(accuracy, pair)) / len(pair)}
    for method in METHODS:
        fusion = fuse(pair, layout=layout, method=method)
        accuracies[method] = accuracy(fusion.model)
    accuracies["ensemble"] = accuracy(_Ensemble(pair))
    return Compared(kind, accuracies, fusion)


def accuracy(model: nn.Module) -> float:
    """Right answers on the test images, in percent."""
    images, labels = digits("test")
    with torch.no_grad():
        return 100 * float((model.eval()(images).argmax(1) == labels).float().mean())


class _Ensemble(nn.Module):
    """The mean of what several networks say."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.stack([model(images).softmax(1) for model in self.models]).mean(0)


def table(compared: Sequence[Compared]) -> str:
    """Test accuracies, a column for each kind of network."""
    wide = max(map(len, ROWS.values()))
    head = f"{'test accuracy, %':<{wide}}" + "".join(f"{TITLES[each.kind]:>22}" for each in compared)
    lines = [head, "-" * len(head)]
    for key, title in ROWS.items():
        lines.append(f"{title:<{wide}}" + "".join(f"{each.accuracies[key]:>22.1f}" for each in compared))
    return "\n".join(lines)


def write_pages(folder: Path, compared: Sequence[Compared], *, quiet: bool) -> list[str]:
    """Pages with pictures."""
    return []


def epilogue(folder: Path, pages: Sequence[str], seconds: float) -> str:
    """What to do next."""
    return f"""{seconds:.0f} s. Nothing but weights was used to fuse: no data, no training.
Open {", ".join(pages)} in a browser: barriers, error surfaces, couplings.

Next, with the networks in {folder}/:
  transfuse fuse {folder}/lstm-0.safetensors {folder}/lstm-1.safetensors -o {folder}/lstm-fused.safetensors \\
      --model transfuse.demo.networks:Rows --input-shape 1,8,8
  transfuse barrier {folder}/mlp-0.safetensors {folder}/mlp-1.safetensors --align \\
      --model transfuse.demo.networks:mlp --data digits
  transfuse trace --model transfuse.demo.networks:cnn --input-shape 1,8,8
  transfuse methods
With networks of yours: transfuse fuse a.pt b.pt -o ab.pt --model yourmodule:YourNet --input-shape 3,32,32"""


def _tell(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, file=sys.stderr, flush=True)
