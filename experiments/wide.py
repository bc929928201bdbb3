"""Networks for the curves of `widths`: small convolutional networks that one core trains in two minutes.

In: nothing. Out: `SETTINGS`, for `profiles`. They are the same in every profile but `smoke`.
"""

from __future__ import annotations

from .records import Build, Data, Setting, Training

NETWORKS = 6  # of every setting: three pairs
CNN = Training("adam", 2e-3, epochs=5, batch=128, decay=1e-4, schedule="cycle", clip=1.0)
RESNET = Training("sgd", 0.1, epochs=4, batch=128, decay=5e-4, schedule="cycle", clip=2.0)
SETTINGS = {
    "cifar10-cnn": Setting(
        Build("cnn", {"widths": (16, 32, 64), "hidden": 64, "channels": 3, "size": 32}), Data("cifar10"), CNN, NETWORKS
    ),
    "cifar10-resnet8": Setting(Build("resnet8", {"width": 8}), Data("cifar10"), RESNET, NETWORKS),
}
