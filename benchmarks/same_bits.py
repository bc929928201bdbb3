"""Whether a change leaves every fused number as it was: twenty fusions of trained networks, compared bit for bit.

    python benchmarks/same_bits.py --json bits.json          digests of this checkout
    python benchmarks/same_bits.py --against main~5          this checkout beside a commit; exit code 1 if they differ

Networks are trained on the digits that ship with the package, once, and kept in `build/bits`: both checkouts fuse the
same ones. Digests depend on the machine and on the versions of libraries, so they are compared within one run and never
stored in the repository.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import transfuse
from transfuse.demo.data import digits

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "bits"
EPOCHS, RATE, BATCH = 6, 4e-3, 64  # seconds for each network; they need to be trained, not good
FEW = 200  # unlabeled images

Fused = Mapping[str, Tensor]


class Steps(nn.Module):
    """A recurrent network that reads the rows of an image, and a linear layer on its last state."""

    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.reader = kind(8, 48, batch_first=True, **options)
        self.head = nn.Linear(48 * (2 if options.get("bidirectional") else 1), 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.reader(x.squeeze(1))[0][:, -1])


class Residual(nn.Module):
    """A convolutional network with batch norm and two blocks that are added to their inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24))
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(24, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(),
                nn.Conv2d(24, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24),
            )
            for _ in range(2)
        )  # fmt: skip
        self.head = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).relu()
        for block in self.blocks:
            x = (x + block(x)).relu()
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    """One pre-norm transformer layer over the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(self.embed(x.squeeze(1))).mean(1))


def mlp(*widths: int, act: type[nn.Module] = nn.ReLU) -> nn.Module:
    layers = [part for a, b in pairwise((64, *widths)) for part in (nn.Linear(a, b), act())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(widths[-1], 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: mlp(100, 60, 40),
    "narrow": lambda: mlp(60, 40, 30),
    "tanh": lambda: mlp(80, 50, act=nn.Tanh),
    "cnn": cnn,
    "residual": Residual,
    "rnn": lambda: Steps(nn.RNN),
    "lstm": lambda: Steps(nn.LSTM),
    "bilstm": lambda: Steps(nn.LSTM, num_layers=2, bidirectional=True),
    "gru": lambda: Steps(nn.GRU),
    "attention": Attention,
}


def network(kind: str, seed: int) -> nn.Module:
    """A trained network, from the folder if it is kept there."""
    torch.manual_seed(seed)
    model, path = NETWORKS[kind](), KEPT / f"{kind}-{seed}.pt"
    if path.exists():
        model.load_state_dict(torch.load(path, weights_only=True))
        return model.eval()
    images, labels = digits("train")
    adam = torch.optim.Adam(model.parameters(), RATE)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(images)).split(BATCH):
            adam.zero_grad()
            F.cross_entropy(model(images[rows]), labels[rows]).backward()
            adam.step()
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), path)
    return model.eval()


def fused(kind: str, *, models: int = 2, few: bool = False, correct: str | None = None, **options: Any) -> Fused:
    """The state of a fusion, with the aligned models beside it."""
    given = [network(kind, seed) for seed in range(models)]
    images = digits("test")[0]
    if few:
        options["data"] = images[:FEW]
    if correct:  # commits before the corrections got their name call the argument `finish`
        word = "correct" if "correct" in inspect.signature(transfuse.fuse).parameters else "finish"
        options[word] = correct
    fusion = transfuse.fuse(given, images[:4], **options)
    aligned = {
        f"aligned {number}: {name}": tensor
        for number, model in enumerate(fusion.aligned)
        for name, tensor in model.state_dict().items()
    }
    return {**fusion.model.state_dict(), **aligned}


FUSIONS: dict[str, Callable[[], Fused]] = {
    "mlp, auto": lambda: fused("mlp"),
    "mlp, wb": lambda: fused("mlp", method="wb"),
    "mlp, wb, entropic": lambda: fused("mlp", method="wb", epsilon=0.02),
    "mlp, ot, plain distance": lambda: fused("mlp", method="ot", distance="plain"),
    "mlp, four models, auto": lambda: fused("mlp", models=4, weights=[4, 3, 2, 1]),
    "mlp, three models, c2m3": lambda: fused("mlp", models=3, method="c2m3"),
    "mlp, three models, rebasin": lambda: fused("mlp", models=3, method="rebasin"),
    "mlp, four models, fedma": lambda: fused("mlp", models=4, method="fedma"),
    "mlp, grown": lambda: fused("mlp", target={"1.out": 150, "3.out": 90}),
    "mlp, shrunk": lambda: fused("mlp", target={"1.out": 50, "3.out": 40}, few=True),
    "tanh, auto": lambda: fused("tanh"),
    "cnn, auto": lambda: fused("cnn"),
    "cnn, activation, few inputs": lambda: fused("cnn", method="activation", few=True),
    "residual, auto, few inputs": lambda: fused("residual", few=True),
    "residual, repair": lambda: fused("residual", few=True, correct="repair"),
    "rnn, auto": lambda: fused("rnn"),
    "rnn, gwb, entropic": lambda: fused("rnn", method="gwb", epsilon=0.2),
    "lstm, auto": lambda: fused("lstm"),
    "bilstm, auto, few inputs": lambda: fused("bilstm", few=True),
    "gru, auto": lambda: fused("gru"),
    "attention, auto": lambda: fused("attention"),
}


def digest(state: Fused) -> str:
    """A hash of names, types, shapes and every bit."""
    found = hashlib.sha256()
    for name, tensor in state.items():
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.detach().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def digests() -> dict[str, str]:
    """The digest of every fusion."""
    found = {}
    for name, make in FUSIONS.items():
        found[name] = digest(make())
        print(f"{found[name]}  {name}", file=sys.stderr, flush=True)
    return found


def digests_of(commit: str) -> dict[str, str]:
    """The digests that another commit gives, in a process and a work tree of its own."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        subprocess.run(
            ["git", "worktree", "add", "--detach", str(tree), commit], cwd=ROOT, check=True, capture_output=True
        )
        try:
            out = Path(folder, "bits.json")
            environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
            subprocess.run([sys.executable, __file__, "--json", str(out)], env=environment, check=True)
            found: dict[str, str] = json.loads(out.read_text())
            return found
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="compare with this commit")
    parser.add_argument("--json", metavar="FILE", help="write the digests there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ours = digests()
    if options.json:
        Path(options.json).write_text(json.dumps(ours, indent=2))
    if not options.against:
        return 0
    theirs = digests_of(options.against)
    different = [name for name in ours if ours[name] != theirs[name]]
    print(f"{len(ours) - len(different)} of {len(ours)} fusions have the same bits as {options.against}")
    print("".join(f"  differs: {name}\n" for name in different), end="")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
