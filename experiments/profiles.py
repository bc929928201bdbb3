"""Settings as data: the paper's (Appendix F), what two cores do in hours, and what a test does in seconds.

In: nothing. Out: `PROFILES`. `paper` has the paper's own values; where the paper is silent, the value is marked below.
The other profiles are made from it, so that what they do otherwise is found by comparing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .attending import SETTINGS as ATTENDING
from .depths import SETTINGS as DEPTHS
from .different import SETTINGS as DIFFERENT
from .federated import SETTINGS as FEDERATED
from .joined import SETTINGS as JOINED
from .records import Build, Data, OwnClasses, Setting, Skill, Training, View
from .rows import ROWS
from .wide import SETTINGS as WIDE

# Not in the paper: batches of 64 (MLPNet) and 128 (ResNet18), flips and shifts, and how many examples validate.
MLP_TRAINING = Training("sgd", 0.05, epochs=20, batch=64, momentum=0.5)
HETEROGENEOUS = replace(MLP_TRAINING, rate=0.01, epochs=10)
VGG_TRAINING = Training(
    "sgd", 0.05, epochs=300, batch=128, decay=5e-4, schedule="steps", milestones=tuple(range(30, 300, 30)),
    factor=0.5, augment=True, keep="best",
)  # fmt: skip
RESNET_TRAINING = Training(
    "sgd", 0.1, epochs=300, batch=128, decay=1e-4, schedule="steps", milestones=(150,), factor=0.1, augment=True
)
ADAM = Training("adam", 1e-3, epochs=20, batch=64, decay=1e-4)
MNIST, ROWS_OF_MNIST, CIFAR10 = Data("mnist"), Data("mnist", "rows"), Data("cifar10")
CLASSES = {"sst2": 2, "agnews": 4, "dbpedia": 14}
# Epochs, rate, batch, length of texts.
TEXT = {
    ("sst2", "rnn"): (20, 1e-3, 256, 56),
    ("agnews", "rnn"): (10, 1e-4, 128, 60),
    ("dbpedia", "rnn"): (30, 1e-4, 256, 60),
    ("sst2", "lstm"): (20, 1e-3, 256, 56),
    ("agnews", "lstm"): (10, 1e-3, 128, 160),
    ("dbpedia", "lstm"): (5, 1e-3, 256, 100),
}
CPU_EPOCHS = {
    ("sst2", "rnn"): 3,
    ("agnews", "rnn"): 3,
    ("dbpedia", "rnn"): 12,
    ("sst2", "lstm"): 1,
    ("agnews", "lstm"): 2,
    ("dbpedia", "lstm"): 2,
}
# Batch norm makes training faster, and its epochs dearer.
CPU_IMAGE_EPOCHS = {"cifar10-vgg11-norm": 4, "cifar10-resnet18": 5, "cifar10-resnet18-norm": 3}
# What one core trains in minutes to half an hour, to an accuracy that a reader would use: epochs, rate, width.
HOURS = {
    "cifar10-vgg11": (30, 0.05, 32),
    "cifar10-resnet18": (22, 0.1, 16),
    "cifar10-resnet18-norm": (10, 0.1, 16),
    "cifar10-resnet20": (36, 0.1, 16),
}
# Begins by He et al., for it has no norms: 85.6 % of the test images after 22 epochs, where it had 80 after 16 as
# layers begin. VGG11 is better without (of the validation images 85.1 % after 24 epochs, 87 after 30 as layers
# begin), though a cycle of four epochs ends at 71 % instead of 50.
BY_HE = ("cifar10-resnet18",)
# The same of texts: epochs, rate. They have 84 % of the test sentences of SST-2, those of `cpu` 80.
HOURS_OF_TEXT = {"sst2-lstm": (3, 2e-3)}
VECTORS = {"rnn": 100, "lstm": 50}
SKILLS = {"a": Skill(4, True, 0.1), "b": Skill(4, False, 0.9)}


@dataclass(frozen=True)
class Profile:
    """All that a profile decides.

    Args:
        settings: Base networks by name.
        grid: Values of hyper-parameters to choose from; `row.name` for one row alone.
        points: Of a barrier.
        plane: Points along each side of a plane.
        shown: How many test examples a barrier is measured on; None for all.
        pictured: How many test examples a plane is measured on; None for all.
        cells: How many cells of an experiment are run if none are named; None for all.
    """

    settings: Mapping[str, Setting]
    grid: Mapping[str, tuple[Any, ...]]
    points: int
    plane: int
    shown: int | None = None
    pictured: int | None = None
    cells: int | None = None

    def grid_of(self, row: str) -> dict[str, tuple[Any, ...]]:
        """Values of the hyper-parameters of a row."""
        return {name: self.grid.get(f"{row}.{name}", self.grid[name]) for name in ROWS[row].grid}


def _text(name: str, cell: str) -> Setting:
    epochs, rate, batch, length = TEXT[name, cell]
    data = Data(name, "words", validation=872 if name == "sst2" else 5000, length=length, vectors=VECTORS[cell])
    training = replace(ADAM, epochs=epochs, rate=rate, batch=batch)
    return Setting(Build(cell, {"inputs": VECTORS[cell], "classes": CLASSES[name]}), data, training, 10)


def _paper() -> dict[str, Setting]:
    long_adam = replace(ADAM, epochs=50)
    settings = {
        "mnist-mlpnet": Setting(Build("mlpnet"), MNIST, MLP_TRAINING, 30, ("MLP",)),
        "mnist-mlpsmall": Setting(Build("mlpsmall"), MNIST, MLP_TRAINING, 10),
        "mnist-mlplarge": Setting(Build("mlplarge"), MNIST, MLP_TRAINING, 10),
        "mnist-mlpnet-bias": Setting(Build("mlpnet", {"bias": True}), MNIST, MLP_TRAINING, 10),
        "mnist-rnn": Setting(Build("rnn"), ROWS_OF_MNIST, ADAM, 10, ("RNN",)),
        "mnist-lstm": Setting(Build("lstm"), ROWS_OF_MNIST, long_adam, 10, ("LSTM",)),
        "mnist-lstm-bias": Setting(Build("lstm", {"bias": True}), ROWS_OF_MNIST, long_adam, 10),
        "mnist-lstm-two": Setting(Build("lstm", {"bias": True, "layers": 2}), ROWS_OF_MNIST, long_adam, 10),
        "mnist-bidirectional": Setting(Build("bidirectional", {"bias": True}), ROWS_OF_MNIST, long_adam, 10),
        "mnist-gru": Setting(Build("gru", {"bias": True}), ROWS_OF_MNIST, long_adam, 10),
        "cifar10-vgg11": Setting(Build("vgg11"), CIFAR10, VGG_TRAINING, 10),
        "cifar10-vgg11-norm": Setting(Build("vgg11", {"norm": True}), CIFAR10, VGG_TRAINING, 10),
        "cifar10-resnet18": Setting(Build("resnet18_plain"), CIFAR10, RESNET_TRAINING, 10),
        "cifar10-resnet18-norm": Setting(Build("resnet18"), CIFAR10, RESNET_TRAINING, 10),
        "cifar10-resnet20": Setting(Build("resnet20"), CIFAR10, RESNET_TRAINING, 10, ("resnet20",)),
    }
    for network in ("mlpnet", "mlpsmall"):
        for name, skill in SKILLS.items():
            data = replace(MNIST, skill=skill)
            settings[f"mnist-{network}-{name}"] = Setting(Build(network), data, HETEROGENEOUS, 10)
    return settings | {f"{name}-{cell}": _text(name, cell) for name, cell in TEXT}


PAPER = _paper()


def _cpu(name: str, setting: Setting) -> Setting:
    """What two cores train in minutes."""
    kind, data = setting.network.name, setting.data
    if data.name == "cifar10":
        width = {} if kind == "resnet20" else {"width": 16}
        epochs = CPU_IMAGE_EPOCHS.get(name, 8)
        training = replace(
            setting.training,
            rate=0.05,
            epochs=epochs,
            schedule="cycle",
            milestones=(),
            factor=1.0,
            clip=2.0,
            keep="last",
        )
        network = Build(kind, {**setting.network.sizes, **width})
        return replace(setting, network=network, training=training, networks=6)
    if data.name in CLASSES:
        return _cpu_text(setting)
    if kind in ("mlpnet", "mlpsmall", "mlplarge"):
        return replace(setting, training=replace(setting.training, epochs=10))
    epochs = 5 if kind == "rnn" else 3
    training = replace(
        setting.training, epochs=epochs, batch=128, schedule="steps", milestones=(epochs - 1,), factor=0.3, clip=1.0
    )
    if name in ("mnist-rnn", "mnist-lstm"):
        return replace(setting, training=training)
    network = Build(kind, {**setting.network.sizes, "hidden": 128})
    return replace(setting, network=network, training=training)


def _cpu_text(setting: Setting) -> Setting:
    """Vectors of 50 dimensions are projected: a smaller part of the official ones can be had than of 100."""
    kind, data = setting.network.name, setting.data
    epochs = CPU_EPOCHS[data.name, kind]
    data = replace(data, length=min(data.length or 0, 60), projected_from=100 if kind == "lstm" else None)
    rate = 2e-3 if kind == "lstm" else 1e-3
    training = replace(setting.training, epochs=epochs, rate=rate, batch=128, schedule="cycle", clip=1.0)
    return replace(setting, data=data, training=training, networks=6)


def _hours(name: str) -> Setting:
    """Convolutional networks by one cycle of the rate, with momentum, weight decay, flips and shifts.

    In single precision: bfloat16 is faster on processors that multiply it, and less than half as fast on others.
    """
    epochs, rate, width = HOURS[name]
    setting = PAPER[name]
    training = replace(
        setting.training, rate=rate, epochs=epochs, decay=5e-4, schedule="cycle", milestones=(), factor=1.0, clip=2.0,
        keep="last", initial="he" if name in BY_HE else "layers",
    )  # fmt: skip
    network = Build(setting.network.name, {**setting.network.sizes, "width": width})
    return replace(setting, network=network, training=training, networks=6)


def _hours_of_text(name: str) -> Setting:
    """Recurrent networks that read all of the vectors there are, by one cycle of the rate."""
    epochs, rate = HOURS_OF_TEXT[name]
    setting = PAPER[name]
    data = replace(setting.data, vectors=100)
    training = replace(setting.training, epochs=epochs, rate=rate, batch=64, decay=1e-5, schedule="cycle", clip=1.0)
    network = Build(setting.network.name, {**setting.network.sizes, "inputs": data.vectors})
    return replace(setting, network=network, data=data, training=training, networks=6)


SMALL = {
    "mlpnet": Build("mlpnet", {"hidden": (24, 16), "inputs": 64}),
    "mlpsmall": Build("mlpnet", {"hidden": (12, 8), "inputs": 64}),
    "mlplarge": Build("mlpnet", {"hidden": (48, 32), "inputs": 64}),
    "cnn": Build("cnn", {"widths": (4, 6), "hidden": 8, "size": 8}),
    "vgg11": Build("vgg11", {"width": 4}),
    "resnet18": Build("resnet18", {"width": 4}),
    "resnet18_plain": Build("resnet18_plain", {"width": 4}),
    "resnet20": Build("resnet20", {"width": 4}),
    "resnet8": Build("resnet8", {"width": 4}),
    "vit": Build("vit", {"width": 8, "heads": 2, "hidden": 12, "layers": 1, "patch": 4, "image": (1, 8)}),
    "characters": Build("characters", {"width": 8, "heads": 2, "hidden": 12, "layers": 1, "tokens": 17}),
    "llama": Build("llama", {"width": 8, "heads": 2, "hidden": 12, "layers": 1, "tokens": 17}),
    "chain": Build("chain", {"width": 2, "size": 8}),
    "resnet": Build("resnet", {"width": 2}),
    "vgg": Build("vgg", {"width": 2}),
}
KEPT = ("bias", "norm", "layers", "blocks", "convolutions")  # sizes that make a network another one
READ = ("characters", "llama")  # networks that foretell what they read; here, the pixels of an image


def _smoke(setting: Setting) -> Setting:
    """The same path of the program in seconds, on digits that ship with transfuse; results mean nothing."""
    kind = setting.network.name
    same = (*KEPT, "classes") if isinstance(setting.data.skill, OwnClasses) else KEPT
    kept = {name: value for name, value in setting.network.sizes.items() if name in same}
    small = SMALL.get(kind, Build(kind, {"hidden": 16, "inputs": 8}))
    image = kind.startswith(("vgg", "resnet"))
    view: View = "rows" if kind not in SMALL else "characters" if kind in READ else "image"
    data = Data("digits32" if image else "digits", view, 64 if image else 900, 200, 200, skill=setting.data.skill)
    training = Training("adam", 1e-2, epochs=2, batch=64, keep=setting.training.keep)
    start = setting.start and replace(setting.start, setting=_smoke(setting.start.setting))
    return Setting(Build(small.name, {**small.sizes, **kept}), data, training, 2, start=start)


def _smoke_targets() -> dict[str, Setting]:
    """Networks that are wider than those that are fused into them."""
    sizes: dict[str, dict[str, Any]] = {
        "mlpnet": {"hidden": (36, 24)},
        "cnn": {"widths": (6, 9), "hidden": 12},
        "rnn": {"hidden": 24},
        "lstm": {"hidden": 24},
    }
    found = {name: _smoke(setting) for name, setting in DIFFERENT.items() if name.endswith("-wide")}
    return {
        name: replace(each, network=Build(each.network.name, {**each.network.sizes, **sizes[each.network.name]}))
        for name, each in found.items()
    }


def _smoke_depths() -> dict[str, Setting]:
    """Networks whose number of layers stands in their widths: narrower ones, as deep as they are."""
    found = {name: setting for name, setting in DEPTHS.items() if setting.network.name == "mlpnet"}
    return {
        name: replace(small, network=Build("mlpnet", {**small.network.sizes, "hidden": (16,) * len(hidden)}))
        for name, setting in found.items()
        for small, hidden in [(_smoke(setting), setting.network.sizes["hidden"])]
    }


BEYOND = DIFFERENT | ATTENDING | FEDERATED | JOINED | DEPTHS | WIDE  # the same in all profiles but `smoke`
CPU = {name: _cpu(name, setting) for name, setting in PAPER.items()} | BEYOND
CPU_GRID: dict[str, tuple[Any, ...]] = {
    "epsilon": (None,), "gwb.epsilon": (None, 0.2), "wb-random.epsilon": (None, 0.2), "alpha": (1.0, 5.0, 20.0),
}  # fmt: skip
PROFILES = {
    "paper": Profile(
        PAPER | BEYOND,
        {"epsilon": (0.01, 0.005, 0.001, 0.0005), "alpha": (1.0, 5.0, 10.0, 20.0)},
        points=25,
        plane=41,
    ),
    "hours": Profile(
        CPU | {name: _hours(name) for name in HOURS} | {name: _hours_of_text(name) for name in HOURS_OF_TEXT},
        CPU_GRID,
        points=25,
        plane=15,
        shown=2000,
        pictured=1000,
    ),
    "cpu": Profile(CPU, CPU_GRID, points=25, plane=15, shown=2000, pictured=1000),
    "smoke": Profile(
        {name: _smoke(setting) for name, setting in (PAPER | BEYOND).items()} | _smoke_targets() | _smoke_depths(),
        {"epsilon": (None,), "alpha": (1.0, 10.0)},
        points=3,
        plane=3,
        shown=100,
        pictured=100,
        cells=1,
    ),
}
