"""What corrections by unlabeled images do for fused CIFAR-10 networks: a table of test accuracy.

    TRANSFUSE_DATA=folder python experiments/cifar_corrections.py --network vgg11 --base a.safetensors b.safetensors
    TRANSFUSE_DATA=folder python experiments/cifar_corrections.py --network resnet20 [--epochs 8] [--images 500]

The folder holds `cifar-10-batches-bin/` with the files of the binary version. Without `--base`, two networks are
trained (seeds 0 and 1; SGD with one cycle of the learning rate, flips and shifts) and kept in `--cache`. Rows are
methods of fusing; columns are corrections, with the first images of the training set and without their labels.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

import transfuse
from transfuse.networks import NETWORKS

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
ROWS: dict[str, dict[str, Any]] = {
    "vanilla": {"method": "vanilla"},
    "wb": {"method": "wb"},
    "auto": {"method": "auto", "finish": "none"},
    "auto, matched with the images": {"method": "auto", "finish": "none", "terms": "both"},
    "activation": {"method": "activation"},
}


def cifar(*files: str) -> tuple[Tensor, Tensor]:
    """Normalised images and labels from files of the binary version."""
    folder = Path(os.environ.get("TRANSFUSE_DATA", "data")) / "cifar-10-batches-bin"
    missing = [name for name in files if not (folder / name).exists()]
    if missing:
        raise SystemExit(
            f"{folder} lacks {', '.join(missing)}; put CIFAR-10 (binary version) there, or set TRANSFUSE_DATA"
        )
    records = np.concatenate([np.fromfile(folder / name, np.uint8).reshape(-1, 3073) for name in files])
    images = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32)).float() / 255
    normal = (images - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(DEVIATION).view(3, 1, 1)
    return normal, torch.from_numpy(records[:, 0]).long()


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Share of right answers, in percent."""
    model.eval()
    with torch.no_grad():
        answers = torch.cat([model(part).argmax(1) for part in images.split(500)])
    return 100 * float((answers == labels).float().mean())


def train(name: str, seed: int, epochs: int) -> nn.Module:
    """One base network."""
    images, labels = cifar(*(f"data_batch_{number}.bin" for number in range(1, 6)))
    torch.manual_seed(seed)
    model = NETWORKS[name].build().train()
    optimiser = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)
    batches = -(-len(images) // 128)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=epochs * batches)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(128):
            part = images[rows]
            part = torch.where((torch.rand(len(part)) < 0.5).view(-1, 1, 1, 1), part.flip(3), part)
            top, left = torch.randint(0, 9, (2,)).tolist()
            part = F.pad(part, (4, 4, 4, 4))[:, :, top : top + 32, left : left + 32]
            optimiser.zero_grad()
            F.cross_entropy(model(part), labels[rows]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimiser.step()
            schedule.step()
    return model.eval()


def base_networks(name: str, files: list[Path], cache: Path, epochs: int) -> list[nn.Module]:
    """From files; or from the cache, trained if they are not there."""
    models = []
    for seed in range(len(files) or 2):
        path = files[seed] if files else cache / f"{name}_{epochs}_{seed}.safetensors"
        model = NETWORKS[name].build().eval()
        if path.exists():
            state = load_file(path)
            model.load_state_dict({key: x.float() if x.is_floating_point() else x for key, x in state.items()})
        else:
            print(f"training {path.stem} ...", flush=True)
            model = train(name, seed, epochs)
            cache.mkdir(parents=True, exist_ok=True)
            save_file(model.state_dict(), path.with_suffix(".part"))
            path.with_suffix(".part").replace(path)
        models.append(model)
    return models


def main() -> None:
    """Fuse, correct, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=NETWORKS, default="vgg11")
    parser.add_argument("--base", nargs=2, type=Path, default=[])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--test", type=int, default=10000, help="test images to measure on")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--cache", type=Path, default=Path("experiments/.cache"))
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    models = base_networks(options.network, options.base, options.cache, options.epochs)
    test = tuple(each[: options.test] for each in cifar("test_batch.bin"))
    unlabeled = cifar("data_batch_1.bin")[0][: options.images]
    print(f"{options.network}: base networks {[round(accuracy(model, *test), 2) for model in models]}", flush=True)
    layout = transfuse.trace(models[0], test[0][:2])
    for row in options.rows:
        uses_data = ROWS[row].get("terms") == "both" or ROWS[row]["method"] == "activation"
        fusion = transfuse.fuse(models, layout=layout, **ROWS[row], **({"data": unlabeled} if uses_data else {}))
        found = {"none": accuracy(fusion.model, *test)}
        for name in transfuse.CORRECTIONS:
            if name == "batchnorm" and not any(isinstance(each, nn.BatchNorm2d) for each in models[0].modules()):
                continue
            started = time.process_time()
            fixed = transfuse.recalibrate(fusion.model, unlabeled, fusion.aligned, method=name)
            found[name] = accuracy(fixed, *test)
            print(f"  {row:<30} {name:<12} {found[name]:6.2f}   {time.process_time() - started:.0f} s", flush=True)
        print(f"  {row:<30} " + "   ".join(f"{name} {value:.2f}" for name, value in found.items()), flush=True)
        if options.results is not None:
            with options.results.open("a") as file:
                file.write(
                    json.dumps({"network": options.network, "images": options.images, "row": row, **found}) + "\n"
                )


if __name__ == "__main__":
    main()
