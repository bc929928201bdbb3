"""A user of Hugging Face: two folders in, one folder out that `from_pretrained` loads.

Two tiny vision transformers are fine-tuned on small digits from different seeds and saved with `save_pretrained`. The
command needs nothing but the folders. The result has a model card and is loaded as any model is; a wider one, too.

    python examples/journeys/hugging_face.py [FOLDER]
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForImageClassification, ViTConfig, ViTForImageClassification
from transformers.utils import logging

from transfuse.cli import main
from transfuse.demo import digits

EPOCHS = 12  # a short training: the two tell 65 and 86 % of the digits
CONFIG = dict(
    image_size=8, patch_size=2, num_channels=1, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=4, num_labels=10,
)  # fmt: skip


def trained(seed: int) -> ViTForImageClassification:
    """A transformer after a short training."""
    torch.manual_seed(seed)
    net, (x, y) = ViTForImageClassification(ViTConfig(**CONFIG)), digits("train")
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]).logits, y[batch]).backward()
            optimizer.step()
    return net.eval()


def accuracy(net: nn.Module) -> float:
    """The share of test images whose class a network tells, in percent."""
    x, y = digits("test")
    with torch.no_grad():
        return 100 * float((net(x).logits.argmax(1) == y).float().mean())


def run(*arguments: object) -> None:
    """Run the command `transfuse`, and stop if it fails."""
    told = [str(each) for each in arguments]
    print("$ transfuse", *told)
    assert main(told) == 0


def journey(folder: Path) -> dict[str, float]:
    """Everything, in a folder; gives accuracies in percent."""
    found = {}
    for seed, name in enumerate("ab"):
        net = trained(seed)
        net.save_pretrained(folder / name)
        found[name] = accuracy(net)
    torch.save({"inputs": digits("train")[0][:300]}, folder / "unlabeled.pt")
    parents = (folder / "a", folder / "b")
    run("fuse", *parents, "-o", folder / "average", "--method", "vanilla", "--force", "-q")
    run("fuse", *parents, "-o", folder / "fused", "--data", folder / "unlabeled.pt", "--force", "-q")
    run("fuse", folder / "a", "-o", folder / "wide", "--target", "vit.layers.*.mlp.fc1.out=2.0", "--force", "-q",
        "--no-synthetic")  # fmt: skip
    for name in ("average", "fused", "wide"):
        found[name] = accuracy(AutoModelForImageClassification.from_pretrained(folder / name))
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    started = time.perf_counter()
    place = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    found = journey(place)
    print({name: round(each, 1) for name, each in found.items()}, f"{time.perf_counter() - started:.0f} s, in {place}")
    assert "library_name: transformers" in (place / "fused/README.md").read_text()
    assert json.loads((place / "fused/config.json").read_text())["dtype"] == "float32"
    assert json.loads((place / "wide/config.json").read_text())["intermediate_size"] == 2 * CONFIG["intermediate_size"]
    assert abs(found["wide"] - found["a"]) < 0.5
    assert found["fused"] > found["average"]
