"""`run`: train, fuse, compare, and write a page."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..files import write_whole
from ..fusing import Fusion, fuse
from ..tracing import trace
from .data import digits
from .networks import NETWORKS, TITLES
from .pages import write_pages
from .training import base_network

METHODS = ("vanilla", "ot", "wb", "gwb", "auto")
UNLABELED = 200
ROWS = {
    "base": "base networks (mean of two)",
    "vanilla": "vanilla: the plain average",
    "ot": "OT fusion",
    "wb": "WB: Wasserstein barycenter",
    "gwb": "GWB: Gromov-Wasserstein barycenter",
    "auto": "auto, without any data",
    "data": f"auto, with {UNLABELED} unlabeled images",
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
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # networks this small are slower on more, and the figures would depend on their number
    try:
        with torch.random.fork_rng(devices=[]):
            return _run(folder, fresh=fresh, quiet=quiet)
    finally:
        torch.set_num_threads(threads)


def _run(folder: Path, *, fresh: bool, quiet: bool) -> tuple[dict[str, Any], str]:
    started = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    pairs = {}
    for kind in NETWORKS:
        _tell(f"{TITLES[kind]}: two networks, trained independently", quiet)
        pairs[kind] = [base_network(kind, seed, folder, fresh=fresh) for seed in (0, 1)]
    kept, key = folder / "results.json", _key(folder)
    if (data := _remembered(kept, key)) is None:
        data = _compared(folder, pairs, quiet=quiet) | {"key": key}
        write_whole(kept, json.dumps(data, indent=1).encode())
    data["seconds"] = round(time.perf_counter() - started, 1)
    return data, f"{table(data['rows'])}\n\n{epilogue(folder, data['pages'], data['seconds'])}"


def _compared(folder: Path, pairs: Mapping[str, Sequence[nn.Module]], *, quiet: bool) -> dict[str, Any]:
    """Fuse all pairs and write pages about them."""
    compared = []
    for kind, pair in pairs.items():
        _tell(f"{TITLES[kind]}: fused by {', '.join(METHODS)}", quiet)
        compared.append(compare(kind, pair))
    rows = cells(compared)
    _tell("Barriers and error surfaces", quiet)
    pages = write_pages(folder, {each.kind: each.fusion for each in compared}, rows, show=not quiet)
    return {"accuracy": {each.kind: each.accuracies for each in compared}, "rows": rows, "pages": list(pages)}


def _key(folder: Path) -> str:
    """What the results depend on: the networks, and the code that fuses them."""
    digest = hashlib.sha256(f"{torch.__version__}".encode())
    for path in sorted([*folder.glob("*-[01].safetensors"), *Path(__file__).parents[1].rglob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _remembered(kept: Path, key: str) -> dict[str, Any] | None:
    """Results of a run on the same networks with the same code, if its pages are still there."""
    try:
        data: dict[str, Any] = json.loads(kept.read_text("utf-8"))
        return data if data["key"] == key and all(Path(page).exists() for page in data["pages"]) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def compare(kind: str, pair: Sequence[nn.Module]) -> Compared:
    """Fuse a pair by every method, and measure."""
    images, _ = digits("test")
    layout = trace(pair[0], images[:2])
    accuracies = {"base": sum(map(accuracy, pair)) / len(pair)}
    for method in METHODS:
        fusion = fuse(pair, images[:2], layout=layout, method=method)
        accuracies[method] = accuracy(fusion.model)
    seen = digits("train")[0][:UNLABELED]
    accuracies["data"] = accuracy(fuse(pair, images[:2], layout=layout, data=seen).model)
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


def cells(compared: Sequence[Compared]) -> list[list[str]]:
    """Test accuracies: a column for each kind of network."""
    head = ["test accuracy, %", *(each.kind.upper() for each in compared)]
    return [head] + [[title, *(f"{each.accuracies[key]:.1f}" for each in compared)] for key, title in ROWS.items()]


def table(rows: Sequence[Sequence[str]]) -> str:
    """The same for a terminal."""
    head, *body = rows
    wide = max(len(row[0]) for row in body)
    lines = [f"{row[0]:<{wide}}" + "".join(f"{cell:>8}" for cell in row[1:]) for row in (head, *body)]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def epilogue(folder: Path, pages: Sequence[str], seconds: float) -> str:
    """What to do next."""
    return f"""{seconds:.0f} s. Only the row with unlabeled images used any data to fuse, and nothing was trained again.
Open {pages[0]} in a browser: barriers and error surfaces.

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
