"""A researcher with a ResNet and checkpoints of their own: from files as they are found to a table for a paper.

Four networks are trained on small digits from different seeds and saved as people save them: wrapped, with prefixes of
`DataParallel`, without counts of batches. Then the command does the rest: look into a file, trace the network, measure
a barrier, fuse, compare methods on two pairs. At the end the fused file is loaded into the researcher's own class.

    python examples/journeys/researcher.py [FOLDER]
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from transfuse.cli import main
from transfuse.demo import digits

EPOCHS = 8  # enough for about 94 % on 8 x 8 digits


class Block(nn.Module):
    """Two convolutions around which the input is added."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input, and what the convolutions make of it."""
        inner = self.norm1(self.conv1(x)).relu()
        return (x + self.norm2(self.conv2(inner))).relu()


class Net(nn.Module):
    """A ResNet as a researcher writes one; transfuse knows nothing of it."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores [batch, 10] of images [batch, 1, 8, 8]."""
        return self.head(self.blocks(self.norm(self.stem(x)).relu()).mean((2, 3)))


def trained(seed: int) -> Net:
    """A network after a short training."""
    torch.manual_seed(seed)
    net, (x, y) = Net(), digits("train")
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
    return net.eval()


def accuracy(net: nn.Module) -> float:
    """The share of test images whose class a network tells, in percent."""
    x, y = digits("test")
    with torch.no_grad():
        return 100 * float((net(x).argmax(1) == y).float().mean())


def save_as_people_do(net: Net, path: Path) -> None:
    """A checkpoint of a training on several devices, by a version of torch that counted no batches."""
    state = {f"module.{key}": value for key, value in net.state_dict().items() if "num_batches" not in key}
    torch.save({"net": state, "epoch": EPOCHS, "acc": accuracy(net)}, path)


def run(*arguments: object) -> None:
    """Run the command `transfuse`, and stop if it fails."""
    told = [str(each) for each in arguments]
    print("$ transfuse", *told)
    assert main(told) == 0


def journey(folder: Path) -> dict[str, float]:
    """Everything, in a folder; gives accuracies in percent."""
    nets = [trained(seed) for seed in range(4)]
    files = [folder / f"seed{seed}.pth" for seed in range(4)]
    for net, file in zip(nets, files, strict=True):
        save_as_people_do(net, file)
    torch.save({"inputs": digits("train")[0][:300]}, folder / "unlabeled.pt")
    model = ("--model", f"{Path(__file__)}:Net", "--input-shape", "1,8,8")
    measured = ("--data", "digits", "--unlabeled", folder / "unlabeled.pt")
    run("inspect", files[0], "-q")
    run("trace", *model, "-o", folder / "layout.yaml", "--force")
    run("barrier", *files[:2], *model, "--data", "digits", "--reset-batchnorm", "--align", "--points", 7,
        "--metric", "accuracy", "--plot", folder / "barrier.svg", "--force", "-q")  # fmt: skip
    run("fuse", *files[:2], "-o", folder / "fused.pth", *model, "--data", folder / "unlabeled.pt", "--force", "-q")
    methods = ("vanilla", "vanilla:correct=batchnorm", "rebasin:correct=repair", "auto")
    run("compare", *files, "-o", folder / "out", *model, *measured, "--methods", *methods, "--points", 5, "-q")
    fused = Net()
    fused.load_state_dict({k.removeprefix("module."): v for k, v in torch.load(folder / "fused.pth")["net"].items()},
                          strict=False)  # fmt: skip
    lines = json.loads((folder / "out/comparison.json").read_text())["lines"]
    plain = [100 - line["values"]["error"] for line in lines if line["row"] == "vanilla"]
    return {
        "seed 0": accuracy(nets[0]),
        "seed 1": accuracy(nets[1]),
        "average": plain[0],
        "fused": accuracy(fused.eval()),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    started = time.perf_counter()
    place = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    found = journey(place)
    print({name: round(each, 1) for name, each in found.items()}, f"{time.perf_counter() - started:.0f} s, in {place}")
    assert (place / "out/table.tex").exists()
    assert found["fused"] > found["average"] + 10
    assert found["fused"] > min(found["seed 0"], found["seed 1"]) - 5
