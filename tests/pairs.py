"""Pairs of networks with equal tensor names and shapes that differ in one thing outside their states, drawn at random.

`PAIRS` has a row for each kind of difference; `drawn(kind, seed)` gives two networks and inputs on which they differ.
"""

import random
import types
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Pair = tuple[nn.Module, nn.Module, Tensor]
ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.GELU, nn.Sigmoid, nn.SiLU, nn.ELU, nn.Softplus, nn.Hardswish, nn.Mish)


class Net(nn.Module):
    """Two layers and what is between and around them; everything that is not a layer is given."""

    def __init__(self, width: int = 6, act: Callable[[Tensor], Tensor] = torch.relu, **attributes: object) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(5, width), nn.Linear(width, 3)
        self.act = act
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x)))


class Scaled(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward((x - self.mean) / self.spread) / self.temperature


class Buffered(Net):
    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.register_buffer("shift", values, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + self.shift)


class Listed(Net):
    """A layer in a Python list, which is in no state."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = [nn.Linear(5, 5)]

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.hidden[0](x))


class Forgetful(Net):
    """A `state_dict()` that leaves something out."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(5) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x * self.scale)

    def state_dict(self, *args, **kwargs):
        return {name: each for name, each in super().state_dict(*args, **kwargs).items() if name != "scale"}


class Caching(Net):
    """Weights that are kept at the first call."""

    kept = None

    def forward(self, x: Tensor) -> Tensor:
        if self.kept is None:
            self.kept = self.up.weight.detach().clone()
        return self.down(F.linear(x, self.kept, self.up.bias).relu())


class Tied(nn.Module):
    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(5, 5), nn.Linear(5, 5)
        if tied:
            self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.one(x).tanh())


class Other(Net):
    """Another class with the same tensor names."""

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x)) ** 2)


class Heads(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(12, 36), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, _ = x.shape
        q, k, v = (each.view(batch, time, self.heads, -1).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, time, 12))


def convolutional(**options: object) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, **options), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )


def between(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), *layers, nn.Linear(6, 3))


def hooked(rng: random.Random) -> nn.Module:
    net, factor = between(nn.ReLU()), rng.uniform(1.2, 3)
    net[1].register_forward_hook(lambda module, args, output: output * factor)
    return net


def called(net: nn.Module) -> nn.Module:
    net(torch.randn(2, 5))
    return net


def patched(rng: random.Random) -> nn.Module:
    """A forward pass that was replaced on one instance."""
    net, factor = Net(), rng.uniform(1.2, 3)
    net.forward = types.MethodType(lambda self, x: factor * Net.forward(self, x), net)
    return net


def two(rng: random.Random, values: tuple[object, ...]) -> list[object]:
    return rng.sample(values, 2)


X, SEQUENCE, IMAGES = (4, 5), (2, 4, 12), (2, 2, 9, 9)
Kind = tuple[Callable[[random.Random], tuple[nn.Module, nn.Module]], tuple[int, ...]]
PAIRS: dict[str, Kind] = {
    "activation": (lambda r: tuple(between(act()) for act in two(r, ACTIVATIONS)), X),
    "activation as an attribute": (
        lambda r: tuple(Net(act=act) for act in two(r, (torch.relu, torch.tanh, F.gelu))), X,
    ),
    "heads": (lambda r: tuple(Heads(heads) for heads in two(r, (1, 2, 3, 4, 6))), SEQUENCE),
    "heads of attention": (
        lambda r: tuple(nn.TransformerEncoderLayer(12, n, 8, batch_first=True) for n in two(r, (2, 3, 4))), SEQUENCE,
    ),
    "buffer that is not saved": (lambda r: (Buffered(torch.randn(5)), Buffered(torch.randn(5))), X),
    "temperature": (
        lambda r: tuple(Scaled(mean=0.0, spread=1.0, temperature=t) for t in (1.0, r.choice([1.001, 1.3, 2]))), X,
    ),
    "normalisation": (
        lambda r: tuple(Scaled(mean=m, spread=0.5, temperature=1.0) for m in (0.0, r.uniform(0.01, 1))), X,
    ),
    "normalisation tensor": (
        lambda r: tuple(Scaled(mean=torch.randn(5), spread=1.0, temperature=1.0) for _ in range(2)), X,
    ),
    "stride": (lambda r: tuple(convolutional(stride=s) for s in two(r, (1, 2, 3))), IMAGES),
    "dilation": (lambda r: tuple(convolutional(dilation=d) for d in two(r, (1, 2, 3))), IMAGES),
    "padding": (lambda r: tuple(convolutional(padding=p) for p in two(r, (0, 1, 2))), IMAGES),
    "padding mode": (
        lambda r: tuple(convolutional(padding=1, padding_mode=p) for p in two(r, ("zeros", "reflect", "circular"))),
        IMAGES,
    ),
    "eps": (lambda r: tuple(between(nn.LayerNorm(6, eps=e), nn.ReLU()) for e in two(r, (1e-5, 1e-3, 1e-2))), X),
    "negative slope": (lambda r: tuple(between(nn.LeakyReLU(s)) for s in two(r, (0.01, 0.1, 0.2, 0.3))), X),
    "softmax axis": (lambda r: tuple(between(nn.Softmax(d)) for d in two(r, (0, 1))), X),
    "layer in a list": (lambda r: (Listed(), Listed()), X),
    "hook": (lambda r: (between(nn.ReLU()), hooked(r))[:: r.choice([1, -1])], X),
    "forward of an instance": (lambda r: (Net(), patched(r))[:: r.choice([1, -1])], X),
    "tied": (lambda r: (Tied(tied=True), Tied(tied=False))[:: r.choice([1, -1])], X),
    "left out of state_dict": (lambda r: (Forgetful(), Forgetful()), X),
    "weights cached": (lambda r: (called(Caching()), called(Caching()) if r.random() < 0.5 else Caching()), X),
    "another class": (lambda r: (Net(), Other())[:: r.choice([1, -1])], X),
    "flag": (lambda r: tuple(nn.Sequential(nn.LSTM(5, 4, batch_first=b), Last()) for b in (True, False)), (4, 4, 5)),
}  # fmt: skip


class Last(nn.Module):
    def forward(self, found: tuple[Tensor, object]) -> Tensor:
        return found[0]


def drawn(kind: str, seed: int) -> Pair:
    """Two networks that differ in one thing outside the state, with random weights, and inputs."""
    torch.manual_seed(seed)
    make, shape = PAIRS[kind]
    one, other = make(random.Random(seed))
    return one, other, torch.randn(shape)
