"""The run of the demo: train networks, fuse and compare them, and write pages.

In: a folder. Out: figures for machines and a text for people. What was trained or compared before is not done again.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..activations import Batches
from ..comparison import as_text
from ..corrections import nearest_control
from ..files import write_whole
from ..fusing import Fusion, fuse
from ..modules import Ensemble, private_randomness
from ..report import Table, best_cells
from ..tracing import trace
from .data import digits
from .networks import NETWORKS, TITLES
from .pages import write_pages
from .training import base_network

METHODS = ("vanilla", "ot", "wb", "gwb", "auto")
WIDE = 1.5  # the width of the row between one network and two
UNLABELED = 200  # images without labels for the row with data: a sixth of the training images
ROWS = {
    "base": "base networks (mean of two)",
    "vanilla": "vanilla: the plain average",
    "ot": "OT fusion",
    "wb": "WB: Wasserstein barycenter",
    "gwb": "GWB: Gromov-Wasserstein barycenter",
    "auto": "auto, without any data",
    "wide": f"auto, {WIDE:g} times as wide, without any data",
    "data": f"auto, with {UNLABELED} unlabeled images",
    "control": "one network kept, last layer refitted",
    "ensemble": "ensemble (mean of probabilities)",
}


def run(folder: Path, *, fresh: bool = False, quiet: bool = False) -> tuple[dict[str, Any], str]:
    """Train, fuse, compare and write pages; figures for machines, and the text for people."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # networks this small are slower on more, and the figures would depend on their number
    try:
        with private_randomness():
            return _run(folder, fresh=fresh, quiet=quiet)
    finally:
        torch.set_num_threads(threads)


def _run(folder: Path, *, fresh: bool, quiet: bool) -> tuple[dict[str, Any], str]:
    """Train, fuse and compare, unless it was done here before; gives figures and a text."""
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
    return data, f"{as_text(accuracy_table(data['accuracy']))}\n\n{epilogue(folder, data['pages'], data['seconds'])}"


def _compared(folder: Path, pairs: Mapping[str, Sequence[nn.Module]], *, quiet: bool) -> dict[str, Any]:
    """Fuse all pairs and write pages about them."""
    accuracies, fusions = {}, {}
    for kind, pair in pairs.items():
        _tell(f"{TITLES[kind]}: fused by {', '.join(METHODS)}", quiet)
        accuracies[kind], fusions[kind] = compare(pair)
    _tell("Barriers and error surfaces", quiet)
    table = accuracy_table(accuracies)
    pages = write_pages(folder, fusions, table, show=not quiet)
    return {"accuracy": accuracies, "rows": [table.head, *table.rows], "pages": list(pages)}


def _key(folder: Path) -> str:
    """A hash of what the pages depend on: the networks, the code that fuses them, and the templates."""
    digest = hashlib.sha256(f"{torch.__version__}".encode())
    package = Path(__file__).parents[1]
    code = [path for kind in ("*.py", "*.html", "*.css", "*.js") for path in package.rglob(kind)]
    for path in sorted([*folder.glob("*-[01].safetensors"), *code]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _remembered(kept: Path, key: str) -> dict[str, Any] | None:
    """Results of a run on the same networks with the same code, if its pages are still there."""
    try:
        data: dict[str, Any] = json.loads(kept.read_text("utf-8"))
        return data if data["key"] == key and all(Path(page).exists() for page in data["pages"]) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def compare(pair: Sequence[nn.Module]) -> tuple[dict[str, float], Fusion]:
    """Fuse a pair by every method: accuracies on test images in percent, by row of `ROWS`, and the fusion by `auto`."""
    images, _ = digits("test")
    layout = trace(pair[0], images[:2])
    accuracies = {"base": sum(map(accuracy, pair)) / len(pair)}
    for method in METHODS:
        fusion = fuse(pair, images[:2], layout=layout, method=method)
        accuracies[method] = accuracy(fusion.model)
    accuracies["wide"] = accuracy(fuse(pair, images[:2], layout=layout, target=WIDE).model)
    seen = digits("train")[0][:UNLABELED]
    accuracies["data"] = accuracy(fuse(pair, images[:2], layout=layout, data=seen).model)
    accuracies["control"] = accuracy(nearest_control(pair, [0.5, 0.5], Batches.of(seen)).model)
    accuracies["ensemble"] = accuracy(Ensemble(pair))
    return accuracies, fusion


def accuracy(model: nn.Module) -> float:
    """The share of test images whose class a network tells, in percent."""
    images, labels = digits("test")
    with torch.no_grad():
        return 100 * float((model.eval()(images).argmax(1) == labels).float().mean())


def accuracy_table(accuracies: Mapping[str, Mapping[str, float]]) -> Table:
    """Test accuracies in percent: a row for each way to make one network of two, a column for each kind of network."""
    columns = [[f"{each[key]:.1f}" for key in ROWS] for each in accuracies.values()]
    return Table(
        head=["test accuracy, %", *(kind.upper() for kind in accuracies)],
        rows=[[title, *texts] for title, *texts in zip(ROWS.values(), *columns, strict=True)],
        shaded=[ROWS["auto"], ROWS["data"]],
        best=best_cells(["accuracy"] * len(columns), columns),
    )


def epilogue(folder: Path, pages: Sequence[str], seconds: float) -> str:
    """The text after the table: what was done, and commands to go on with."""
    return f"""{seconds:.0f} s. The two rows before the ensemble used images, no labels; nothing was trained again.
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
