"""One table of small networks, `ZOO`, that every law of the test-suite runs over.

A row gives a network, inputs that suit it, and what tracing should find: `widths`, worked out by hand from
the mathematics of the network, not from what the tracer does, and the `share` that follows. Conventions:

- Inputs and outputs are fixed. What is hidden *and* returned is fixed.
- Layers joined by addition, a norm or a tied weight share a space; a concatenation keeps its parts' apart.
- Attention: heads are the units. With one head, queries and keys share a space, values have another.
- A grouped convolution (G groups, K inputs and O outputs each) offers either its groups as units or its
  channels within their groups; the choice with more permutations counts (`lgamma` of the factorials).
  Depthwise (K = 1), a channel moves with its input. A group norm chooses in the same way.
- Recurrent units: one space per layer and direction; a projection has its own.

Widths differ from each other and from batch, time and image sizes where they can, and nothing stays at
a constant initial value (see `livened`), so that a wrong axis shows. Deliberately not here: training,
and anything larger than a few thousand parameters.
"""

import functools
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


@dataclass(frozen=True)
class Network:
    """One row: `widths` are the sizes of all movable spaces (two units or more), sorted.

    `share` is the share of the numbers in the state that lie on a unit of some space.
    """

    name: str
    build: Callable[[], nn.Module]  # in eval mode; deterministic under torch.manual_seed
    inputs: Callable[[], object]  # a tensor, a tuple of positional or a dict of keyword arguments
    widths: tuple[int, ...]
    share: float


def named(name: str) -> Network:
    """The row with this name."""
    return next(row for row in ZOO if row.name == name)


def call(module: nn.Module, inputs: object) -> object:
    """The module on `inputs` as a row states them: one tensor, positional or keyword arguments."""
    if isinstance(inputs, dict):
        return module(**inputs)
    return module(*inputs) if type(inputs) is tuple else module(inputs)


_rows: list[Network] = []


def network(inputs: Callable[[], object], *, widths: tuple[int, ...], share: float):
    """Enter a function or class that takes no arguments and gives a module; its name is the row's."""

    def enter(make: Callable[[], nn.Module]):
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", make.__name__).lower()
        _rows.append(Network(name, lambda: livened(make()).eval(), inputs, widths, share))
        return make

    return enter


def livened(module: nn.Module) -> nn.Module:
    """The module with constant tensors (norms, running statistics) made uneven: ones permute unseen."""
    for tensor in module.state_dict().values():
        if tensor.is_floating_point() and tensor.numel() > 1 and tensor.min() == tensor.max():
            tensor.add_(0.5 * torch.rand_like(tensor))  # never negative: it may be a variance
    return module


def floats(*shape: int, seed: int = 0) -> Callable[[], Tensor]:
    return lambda: torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def tokens(vocabulary: int, *shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randint(vocabulary, shape, generator=torch.Generator().manual_seed(0))


def positional(*parts: Callable[[], Tensor]) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: tuple(part() for part in parts)


def keywords(**parts: Callable[[], Tensor]) -> Callable[[], dict[str, Tensor]]:
    return lambda: {name: part() for name, part in parts.items()}


def weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape) / math.sqrt(shape[-1]))


class Apply(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Joined(nn.Module):
    """Several branches on the same input, and one function that joins what they give."""

    def __init__(self, join: Callable[[list[Tensor]], Tensor], *branches: nn.Module):
        super().__init__()
        self.join = join
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return self.join([branch(x) for branch in self.branches])


added = functools.partial(Joined, functools.partial(functools.reduce, operator.add))
multiplied = functools.partial(Joined, functools.partial(functools.reduce, operator.mul))
concatenated = functools.partial(Joined, functools.partial(torch.cat, dim=1))


def mean_of_pixels() -> nn.Module:
    return Apply(lambda x: x.mean((2, 3)))


def mean_of_steps() -> nn.Module:
    return Apply(lambda x: x.mean(1))


# ---------------------------------------------------------------------------------------------- dense


@network(floats(3, 5), widths=(7, 9), share=0.974)
def mlp():
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 4))


@network(floats(3, 5), widths=(6, 10), share=1.000)
def mlp_without_bias():
    return nn.Sequential(
        nn.Linear(5, 6, bias=False),
        nn.LeakyReLU(),
        nn.Linear(6, 10, bias=False),
        nn.LeakyReLU(),
        nn.Linear(10, 4, bias=False),
    )


@network(floats(3, 5), widths=(7, 8), share=0.972)
def mlp_tanh():
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 8), nn.Tanh(), nn.Linear(8, 4))


@network(floats(3, 5), widths=(6, 7), share=0.960)
def mlp_prelu():
    return nn.Sequential(nn.Linear(5, 7), nn.PReLU(7), nn.Linear(7, 6), nn.PReLU(), nn.Linear(6, 4))


@network(floats(3, 5), widths=(6, 8, 9), share=0.980)
class MlpModuleList(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [5, 8, 6, 9, 4]
        self.layers = nn.ModuleList(map(nn.Linear, sizes[:-1], sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.gelu(layer(x))
        return F.log_softmax(self.layers[-1](x), dim=-1)


@network(floats(3, 5), widths=(7, 9), share=0.973)
def mlp_batch_norm():
    return nn.Sequential(
        nn.Linear(5, 7),
        nn.BatchNorm1d(7),
        nn.ELU(),
        nn.Linear(7, 9),
        nn.ELU(),
        nn.BatchNorm1d(9),
        nn.Linear(9, 4),
    )


@network(floats(3, 5), widths=(8,), share=0.950)
def batch_norm_without_affine():
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8, affine=False), nn.ReLU(), nn.Linear(8, 4))


@network(floats(3, 5), widths=(7, 9), share=0.976)
def mlp_layer_norm():
    return nn.Sequential(
        nn.Linear(5, 7),
        nn.LayerNorm(7),
        nn.SiLU(),
        nn.Linear(7, 9),
        nn.LayerNorm(9, elementwise_affine=False),
        nn.SiLU(),
        nn.Linear(9, 4),
    )


@network(floats(3, 5), widths=(8,), share=0.957)
def mlp_rms_norm():
    return nn.Sequential(nn.Linear(5, 8), nn.RMSNorm(8), nn.Softplus(), nn.Linear(8, 4))


@network(floats(3, 5), widths=(7,), share=0.906)
def mlp_weight_norm():
    return nn.Sequential(weight_norm(nn.Linear(5, 7)), nn.Tanh(), weight_norm(nn.Linear(7, 4)))


@network(floats(3, 5), widths=(7, 8), share=0.972)
def mlp_dropout_in_place():
    return nn.Sequential(
        nn.Linear(5, 7),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(7, 8),
        nn.Hardtanh(inplace=True),
        nn.Dropout(0.2, inplace=True),
        nn.Linear(8, 4),
    )


@network(floats(3, 5), widths=(6, 8), share=0.972)
def concatenated_hidden():
    return nn.Sequential(
        concatenated(nn.Sequential(nn.Linear(5, 6), nn.Tanh()), nn.Sequential(nn.Linear(5, 8), nn.ReLU())),
        nn.Linear(14, 4),
    )


@network(floats(3, 5), widths=(7,), share=0.745)
def concatenated_with_input():
    return nn.Sequential(concatenated(nn.Identity(), nn.Sequential(nn.Linear(5, 7), nn.ReLU())), nn.Linear(12, 4))


@network(floats(3, 5), widths=(8,), share=0.989)
def highway():
    def carry_or_transform(parts):
        x, transformed, gate = parts
        return gate * transformed + (1 - gate) * x

    def layer():
        return Joined(
            carry_or_transform,
            nn.Identity(),
            nn.Sequential(nn.Linear(8, 8), nn.ReLU()),
            nn.Sequential(nn.Linear(8, 8), nn.Sigmoid()),
        )

    return nn.Sequential(nn.Linear(5, 8), layer(), layer(), nn.Linear(8, 4))


@network(floats(3, 5), widths=(7,), share=0.966)
def gated_linear_unit():
    return nn.Sequential(nn.Linear(5, 14), nn.GLU(), nn.Linear(7, 4))


# The two pieces of a unit may be swapped as well: 6! ways to order the units beat 2!^6 for the pieces.
@network(floats(3, 5), widths=(6,), share=0.960)
def maxout():
    return nn.Sequential(nn.Linear(5, 12), Apply(lambda x: x.view(-1, 6, 2).max(-1).values), nn.Linear(6, 4))


@network(floats(3, 5), widths=(6, 8, 9), share=0.977)
def autoencoder():
    return nn.Sequential(nn.Linear(5, 9), nn.Mish(), nn.Linear(9, 6), nn.Linear(6, 8), nn.Mish(), nn.Linear(8, 5))


# -------------------------------------------------------------------------- own parameters, functional


@network(floats(3, 5), widths=(7, 9), share=1.000)
class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = weight(7, 5), weight(7, 9), weight(4, 9)
        self.bias = weight(7)

    def forward(self, x):
        x = F.linear(x, self.first, self.bias).relu()
        x = torch.tanh(x @ self.second)
        return (self.third @ x.t()).t()


@network(floats(3, 5), widths=(6, 8), share=1.000)
class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = weight(6, 5), weight(6, 8), weight(4, 8)

    def forward(self, x):
        x = torch.einsum("bi,oi->bo", x, self.first).sigmoid()
        x = torch.einsum("bo,oh->bh", x, self.second).sigmoid()
        return torch.einsum("ch,bh->bc", self.third, x)


# Two hidden axes, each moves by itself: a block stands on one axis, so 42 joint units are not offered.
@network(floats(3, 5), widths=(6, 7), share=1.000)
class EinsumTwoAxes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = weight(5, 6, 7), weight(6, 7, 4)

    def forward(self, x):
        hidden = torch.einsum("bi,ihd->bhd", x, self.first).tanh()
        return torch.einsum("bhd,hdo->bo", hidden, self.second)


@network(floats(3, 5), widths=(2, 8), share=0.961)
class LowRankUpdate(nn.Module):
    """A product of two parameters added to a third: the rank axis is a space that meets no activation."""

    def __init__(self):
        super().__init__()
        self.first, self.down, self.up = weight(8, 5), weight(2, 5), weight(8, 2)
        self.second = nn.Linear(8, 4)

    def forward(self, x):
        return self.second(F.relu(F.linear(x, self.first + self.up @ self.down)))


@network(floats(3, 5), widths=(7,), share=0.894)
class TiedAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.hidden_bias, self.visible_bias = weight(7, 5), weight(7), weight(5)

    def forward(self, x):
        hidden = F.linear(x, self.weight, self.hidden_bias).sigmoid()
        return F.linear(hidden, self.weight.t(), self.visible_bias)


@network(floats(3, 5), widths=(7,), share=0.969)
class LoopOverOneLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.step, self.read = nn.Linear(5, 7), nn.Linear(7, 7), nn.Linear(7, 4)

    def forward(self, x):
        hidden = driven = self.lift(x)
        for _ in range(3):
            hidden = torch.tanh(self.step(hidden) + driven)
        return self.read(hidden)


@network(positional(floats(3, 5), floats(3, 4, seed=1)), widths=(6, 7), share=0.987)
class Bilinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(5, 6), nn.Linear(4, 7)
        self.both = nn.Bilinear(6, 7, 2)

    def forward(self, left, right):
        return self.both(F.relu(self.left(left)), torch.tanh(self.right(right)))


@network(floats(3, 5), widths=(6, 7), share=0.964)
class RadialBasis(nn.Module):
    """Distances to centres: the space of the features is summed away without a matrix product."""

    def __init__(self):
        super().__init__()
        self.lift, self.read = nn.Linear(5, 6), nn.Linear(7, 4)
        self.centres = weight(7, 6)

    def forward(self, x):
        distances = (self.lift(x).tanh().unsqueeze(1) - self.centres).square().sum(-1)
        return self.read(torch.exp(-distances))


@network(floats(3, 5), widths=(6, 8, 9), share=0.980)
class Memory(nn.Module):
    """Softmax over the units of a hidden layer (here the cells) commutes with their permutation."""

    def __init__(self):
        super().__init__()
        self.query, self.read = nn.Linear(5, 6), nn.Linear(8, 4)
        self.keys, self.values = weight(9, 6), weight(9, 8)

    def forward(self, x):
        return self.read(torch.softmax(self.query(x) @ self.keys.t(), dim=-1) @ self.values)


# ----------------------------------------------------------------------------------- experts, conditions


# The two units of the gate do not move: each multiplies its own expert.
@network(floats(3, 5), widths=(6, 8), share=0.875)
class TwoExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(5, 2)
        self.first = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4))
        self.second = nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, x):
        share = self.gate(x).softmax(-1)
        return share[:, :1] * self.first(x) + share[:, 1:] * self.second(x)


# Here the experts themselves are units; a hidden unit moves in all experts at once.
@network(floats(3, 4), widths=(5, 7), share=1.000)
class StackedExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 5)
        self.first, self.second = weight(5, 4, 7), weight(5, 7, 2)

    def forward(self, x):
        hidden = torch.einsum("bi,eih->beh", x, self.first).relu()
        opinions = torch.einsum("beh,eho->beo", hidden, self.second)
        return torch.einsum("be,beo->bo", self.gate(x).softmax(-1), opinions)


@network(keywords(image=floats(3, 2, 8, 8), condition=floats(3, 4, seed=1)), widths=(6, 9), share=0.984)
class FilmConditioning(nn.Module):
    def __init__(self):
        super().__init__()
        self.look, self.read = nn.Conv2d(2, 6, 3), nn.Linear(6, 5)
        self.condition = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 12))

    def forward(self, image, condition):
        scale, shift = self.condition(condition)[:, :, None, None].chunk(2, dim=1)
        return self.read(F.relu(scale * self.look(image) + shift).mean((2, 3)))


# --------------------------------------------------------------------------------- splitting and mutating


@network(floats(2, 6), widths=(3, 4, 5), share=0.889)
class SplitUnevenly(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(6, 12)
        self.heads = nn.ModuleList(nn.Linear(width, 7) for width in (3, 4, 5))

    def forward(self, x):
        parts = self.lift(x).tanh().split([3, 4, 5], dim=-1)
        return torch.stack([head(part) for head, part in zip(self.heads, parts, strict=True)]).sum(0)


@network(floats(3, 5), widths=(6, 7), share=0.980)
class StackAndUnbind(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(5, 6), nn.Linear(5, 6)
        self.mix, self.read = nn.Linear(6, 14), nn.Linear(7, 4)

    def forward(self, x):
        largest = torch.stack([self.left(x), self.right(x)], dim=1).amax(1)
        value, gate = self.mix(largest).view(-1, 2, 7).unbind(1)
        return self.read(value * gate.sigmoid())


@network(floats(3, 5), widths=(7,), share=0.946)
class Reordered(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.read = nn.Linear(5, 7), nn.Linear(7, 4)

    def forward(self, x):
        return self.read(self.lift(x).relu()[:, [3, 0, 6, 1, 5, 2, 4]])


# The first four of the nine units are added to, so they are other units than the last five.
@network(floats(3, 6), widths=(4, 5), share=0.982)
class SliceMutation(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.extra, self.read = nn.Linear(6, 9), nn.Linear(6, 4), nn.Linear(9, 2)

    def forward(self, x):
        hidden = self.lift(x)
        hidden[:, :4] += self.extra(x).sigmoid()
        return self.read(hidden.relu_())


# ------------------------------------------------------------------------------------- constants, control


# The constant is no part of the state, so nothing can move with it: its seven units are fixed.
@network(floats(3, 5), widths=(6,), share=0.610)
class ConstantFixes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.read = nn.Linear(5, 7), nn.Linear(7, 6), nn.Linear(6, 4)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 7), persistent=False)

    def forward(self, x):
        return self.read(self.second(self.first(x).relu() * self.scale).relu())


# This buffer is part of the state, so it moves with its units.
@network(floats(3, 5), widths=(7,), share=0.951)
class BufferMoves(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.read = nn.Linear(5, 7), nn.Linear(7, 4)
        self.register_buffer("shift", torch.linspace(-1, 1, 7))

    def forward(self, x):
        return self.read(torch.tanh(self.first(x) + self.shift))


# A running sum over the units knows their order: seven are fixed, the eight after it are not.
@network(floats(3, 5), widths=(8,), share=0.676)
def cumulative_sum_fixes():
    return nn.Sequential(nn.Linear(5, 7), Apply(lambda x: x.cumsum(-1)), nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 4))


@network(floats(3, 5), widths=(6, 7), share=0.966)
class NoGradInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen, self.tuned, self.read = nn.Linear(5, 7), nn.Linear(7, 6), nn.Linear(6, 4)

    def forward(self, x):
        with torch.no_grad():
            x = self.frozen(x).relu()
        return self.read(self.tuned(x).relu())


@network(floats(3, 5), widths=(7,), share=0.946)
class DataDependentBranch(nn.Module):
    """Export refuses this; either branch keeps the units interchangeable."""

    def __init__(self):
        super().__init__()
        self.lift, self.read = nn.Linear(5, 7), nn.Linear(7, 4)

    def forward(self, x):
        hidden = self.lift(x)
        return self.read(hidden.relu() if hidden.sum() > 0 else hidden.sigmoid())


@network(floats(3, 5), widths=(7,), share=0.946)
class WholeNumbers(nn.Module):
    """What is behind the point is lost: units move, and have neither signs nor scales."""

    def __init__(self):
        super().__init__()
        self.lift, self.read = nn.Linear(5, 7), nn.Linear(7, 4)

    def forward(self, x):
        return self.read((9 * self.lift(x).relu()).int().type_as(x))


@network(floats(3, 5), widths=(7,), share=0.946)
class RowsByMask(nn.Module):
    """How many rows there are depends on the values, the units in them do not."""

    def __init__(self):
        super().__init__()
        self.lift, self.read = nn.Linear(5, 7), nn.Linear(7, 4)

    def forward(self, x):
        hidden = self.lift(x).sigmoid()
        return self.read(hidden[hidden.sum(1) > 0])


@network(floats(3, 5), widths=(7,), share=0.9333)
def weight_norm_of_all():
    return nn.Sequential(weight_norm(nn.Linear(5, 7), dim=None), nn.Tanh(), nn.Linear(7, 4))


# --------------------------------------------------------------------------- several inputs, several outputs


# The second head is computed and dropped: its columns go with the units, its rows stay.
@network(floats(3, 5), widths=(7,), share=0.9286)
class DroppedHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.read, self.second = nn.Linear(5, 7), nn.Linear(7, 4), nn.Linear(7, 3)

    def forward(self, x):
        hidden = self.lift(x).tanh()
        self.second(hidden)
        return self.read(hidden)


@network(floats(3, 5), widths=(7,), share=0.939)
class Policy(nn.Module):
    """A distribution over actions, and a value."""

    def __init__(self):
        super().__init__()
        self.lift, self.actor, self.critic = nn.Linear(5, 7), nn.Linear(7, 4), nn.Linear(7, 1)

    def forward(self, x):
        hidden = self.lift(x).tanh()
        return torch.distributions.Categorical(logits=self.actor(hidden)), self.critic(hidden)


@network(positional(floats(3, 5), floats(3, 5, seed=1)), widths=(6, 7), share=0.981)
class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 6))
        self.read = nn.Linear(6, 2)

    def forward(self, left, right):
        return self.read(torch.abs(self.encoder(left) - self.encoder(right)))


@network(keywords(numbers=floats(3, 5), word=tokens(11, 3)), widths=(6, 7, 9), share=0.986)
class NamedInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.numbers, self.words = nn.Linear(5, 6), nn.Embedding(11, 7)
        self.mix, self.read = nn.Linear(13, 9), nn.Linear(9, 4)

    def forward(self, *, numbers, word):
        both = torch.cat([self.numbers(numbers).relu(), self.words(word)], dim=-1)
        return self.read(self.mix(both).relu())


@network(floats(3, 5), widths=(6, 7), share=0.960)
class NamedOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.mix = nn.Linear(5, 7), nn.Linear(7, 6)
        self.label, self.value = nn.Linear(6, 4), nn.Linear(7, 1)

    def forward(self, x):
        hidden = self.lift(x).relu()
        return {"label": self.label(self.mix(hidden).tanh()), "value": self.value(hidden)}


# The code (6) is returned, hence fixed; what leads to it (8) and from it (9) moves.
@network(floats(3, 5), widths=(8, 9), share=0.949)
class ReturnedCode(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 6))
        self.decoder = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 5))

    def forward(self, x):
        code = self.encoder(x)
        return self.decoder(code), code


@dataclass
class Prediction:
    label: Tensor
    spread: Tensor | None = None


@network(floats(3, 5), widths=(7,), share=0.925)
class DataclassOutput(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.label, self.spread = nn.Linear(5, 7), nn.Linear(7, 4), nn.Linear(7, 4)

    def forward(self, x):
        hidden = self.lift(x).relu()
        return Prediction(self.label(hidden), F.softplus(self.spread(hidden)))


# ------------------------------------------------------------------------------------------ convolutions


@network(floats(2, 1, 12, 12), widths=(5, 7, 11), share=0.993)
def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 5, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(5, 7, 2),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(28, 11),
        nn.ReLU(),
        nn.Linear(11, 4),
    )


@network(floats(2, 3, 8, 8), widths=(6,), share=0.990)
def flatten_channels_last():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2),
        nn.ReLU(),
        Apply(lambda x: x.permute(0, 2, 3, 1).flatten(1)),
        nn.Linear(54, 4),
    )


@network(floats(2, 3, 8, 8), widths=(6,), share=0.992)
def batch_norm_after_flatten():
    return nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.Flatten(), nn.BatchNorm1d(54), nn.ReLU(), nn.Linear(54, 4))


@network(floats(2, 3, 8, 8), widths=(5, 6, 7, 10), share=0.997)
def vgg():
    return nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(5, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 7, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d((2, 3)),
        nn.Flatten(),
        nn.Linear(42, 10),
        nn.ReLU(),
        nn.Linear(10, 4),
    )


@network(floats(2, 3, 8, 8), widths=(5, 6, 9), share=0.998)
def resnet_identity():
    def block(width):
        body = nn.Sequential(nn.Conv2d(6, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 6, 3, padding=1))
        return added(nn.Identity(), body)

    return nn.Sequential(
        nn.Conv2d(3, 6, 3), block(5), nn.ReLU(), block(9), nn.ReLU(), mean_of_pixels(), nn.Linear(6, 4)
    )


def convolution_and_norm(inputs, outputs, kernel=3, **options):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False, **options),
        nn.BatchNorm2d(outputs),
    )


@network(floats(2, 3, 8, 8), widths=(5, 6, 7, 9), share=0.995)
def resnet_projection():
    def block(inputs, width, outputs, stride, shortcut):
        body = nn.Sequential(
            convolution_and_norm(inputs, width, stride=stride),
            nn.ReLU(),
            convolution_and_norm(width, outputs),
        )
        return nn.Sequential(added(body, shortcut), nn.ReLU())

    return nn.Sequential(
        convolution_and_norm(3, 5),
        nn.ReLU(),
        block(5, 6, 7, stride=2, shortcut=convolution_and_norm(5, 7, kernel=1, stride=2)),
        block(7, 9, 7, stride=1, shortcut=nn.Identity()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(7, 4),
    )


@network(floats(2, 3, 8, 8), widths=(5, 7, 9), share=0.996)
def resnet_pre_activation():
    def body(width):
        return nn.Sequential(
            nn.BatchNorm2d(7),
            nn.ReLU(),
            nn.Conv2d(7, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 7, 3, padding=1, bias=False),
        )

    return nn.Sequential(
        nn.Conv2d(3, 7, 3),
        added(nn.Identity(), body(5)),
        added(nn.Identity(), body(9)),
        nn.BatchNorm2d(7),
        nn.ReLU(),
        mean_of_pixels(),
        nn.Linear(7, 4),
    )


@network(floats(2, 3, 8, 8), widths=(5, 6, 9), share=0.990)
def resnet_bottleneck():
    body = nn.Sequential(
        convolution_and_norm(9, 5, kernel=1),
        nn.ReLU(),
        convolution_and_norm(5, 6),
        nn.ReLU(),
        convolution_and_norm(6, 9, kernel=1),
    )
    return nn.Sequential(
        convolution_and_norm(3, 9), added(nn.Identity(), body), nn.ReLU(), mean_of_pixels(), nn.Linear(9, 4)
    )


# Shortcut without parameters ("option A"): channels 2 to 6 of the wider stage are the five of the narrow
# one; the four that meet zeros (0, 1, 7, 8) are a space of their own.
@network(floats(2, 3, 10, 10), widths=(4, 5, 6, 7), share=0.995)
def resnet_padded_shortcut():
    narrow = nn.Sequential(convolution_and_norm(5, 6), nn.ReLU(), convolution_and_norm(6, 5))
    wider = nn.Sequential(convolution_and_norm(5, 7, stride=2), nn.ReLU(), convolution_and_norm(7, 9))
    shortcut = Apply(lambda x: F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2)))
    return nn.Sequential(
        convolution_and_norm(3, 5),
        added(nn.Identity(), narrow),
        nn.ReLU(),
        added(shortcut, wider),
        nn.ReLU(),
        mean_of_pixels(),
        nn.Linear(9, 4),
    )


@network(floats(2, 3, 8, 8), widths=(4, 5, 6, 7, 9, 11), share=0.989)
def mobilenet():
    def squeeze_and_excite(channels, width):
        gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, width, 1),
            nn.ReLU(),
            nn.Conv2d(width, channels, 1),
            nn.Hardsigmoid(),
        )
        return multiplied(nn.Identity(), gate)

    def inverted(inputs, width, squeezed, outputs, stride):
        return nn.Sequential(
            convolution_and_norm(inputs, width, kernel=1),
            nn.Hardswish(),
            convolution_and_norm(width, width, groups=width, stride=stride),
            nn.Hardswish(),
            squeeze_and_excite(width, squeezed),
            convolution_and_norm(width, outputs, kernel=1),
        )

    return nn.Sequential(
        convolution_and_norm(3, 5),
        nn.ReLU6(),
        added(nn.Identity(), inverted(5, 9, 4, 5, stride=1)),
        inverted(5, 11, 6, 7, stride=2),
        mean_of_pixels(),
        nn.Linear(7, 4),
    )


# Two outputs per depthwise channel: both are slots of the channel they come from. (They could also be
# swapped channel by channel, 2!^6 ways; "a channel moves with its input" says not.)
@network(floats(2, 3, 8, 8), widths=(6, 7), share=0.990)
def depthwise_multiplier():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3),
        nn.ReLU(),
        nn.Conv2d(6, 12, 3, groups=6),
        nn.ReLU(),
        nn.Conv2d(12, 7, 1),
        nn.ReLU(),
        mean_of_pixels(),
        nn.Linear(7, 4),
    )


# Groups of 2 and 2: 5! ways to order the groups beat 2! * 2!^5 within them.
@network(floats(2, 3, 8, 8), widths=(5, 7), share=0.989)
def resnext_groups_move():
    body = nn.Sequential(
        convolution_and_norm(7, 10, kernel=1),
        nn.ReLU(),
        convolution_and_norm(10, 10, groups=5),
        nn.ReLU(),
        convolution_and_norm(10, 7, kernel=1),
    )
    return nn.Sequential(nn.Conv2d(3, 7, 3), added(nn.Identity(), body), nn.ReLU(), mean_of_pixels(), nn.Linear(7, 4))


# Two groups of 3 and 4: the outputs move within their group (4, 4); input k moves in both groups (3).
@network(floats(2, 5, 8, 8), widths=(3, 4, 4), share=0.996)
def grouped_channels_move():
    return nn.Sequential(
        nn.Conv2d(5, 6, 3),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, groups=2),
        nn.ReLU(),
        mean_of_pixels(),
        nn.Linear(8, 2),
    )


@network(floats(2, 3, 8, 8), widths=(4, 5, 6, 7, 8), share=0.994)
def densenet():
    def growth(inputs, width, outputs):
        layer = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, outputs, 3, padding=1, bias=False),
        )
        return concatenated(nn.Identity(), layer)

    return nn.Sequential(
        nn.Conv2d(3, 6, 3),
        growth(6, 7, 4),
        growth(10, 8, 5),
        nn.BatchNorm2d(15),
        nn.ReLU(),
        mean_of_pixels(),
        nn.Linear(15, 2),
    )


# Stem channels a0..a3 pass, b0..b3 enter the first branch, which gives c0..c3; shuffled: a0 c0 a1 c1 |
# a2 c2 a3 c3. The second unit passes the left half and turns the right one into d0..d3. Spaces: {a0 a1},
# {a2 a3}, {c0 c1}, {c2 c3}, b (4), d (4), and inside the branches 3 and 5.
@network(floats(3, 1, 8, 8), widths=(2, 2, 2, 2, 3, 4, 4, 5), share=0.967)
class Shufflenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(convolution_and_norm(1, 8), nn.ReLU())
        self.branches = nn.ModuleList(map(self.branch, (3, 5)))
        self.read = nn.Linear(8, 6)

    @staticmethod
    def branch(width):
        return nn.Sequential(
            convolution_and_norm(4, width, kernel=1),
            nn.ReLU(),
            convolution_and_norm(width, width, groups=width),
            convolution_and_norm(width, 4, kernel=1),
            nn.ReLU(),
        )

    def forward(self, x):
        x = self.stem(x)
        for branch in self.branches:
            passed, changed = x.chunk(2, dim=1)
            x = torch.cat([passed, branch(changed)], dim=1)
            x = x.unflatten(1, (2, 4)).transpose(1, 2).flatten(1, 2)
        return self.read(x.mean((2, 3)))


@network(floats(2, 1, 8, 8), widths=(5, 6, 7, 9), share=0.998)
def unet_transposed():
    inner = nn.Sequential(
        nn.MaxPool2d(2),
        nn.Conv2d(5, 7, 3, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(7, 6, 2, stride=2),
        nn.ReLU(),
    )
    return nn.Sequential(
        nn.Conv2d(1, 5, 3, padding=1),
        nn.ReLU(),
        concatenated(nn.Identity(), inner),
        nn.Conv2d(11, 9, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(9, 3, 1),
    )


@network(floats(2, 1, 8, 8), widths=(5, 7, 9), share=0.998)
def unet_interpolated():
    inner = nn.Sequential(
        nn.Conv2d(5, 7, 3, stride=2, padding=1),
        nn.SiLU(),
        Apply(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)),
    )
    return nn.Sequential(
        nn.Conv2d(1, 5, 3, padding=1),
        nn.SiLU(),
        concatenated(inner, nn.Identity()),
        nn.Conv2d(12, 9, 3, padding=1),
        nn.SiLU(),
        nn.Conv2d(9, 3, 1),
    )


@network(floats(2, 3, 9, 9), widths=(4, 5, 6, 7, 8), share=0.996)
def inception():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        concatenated(
            nn.Conv2d(8, 4, 1),
            nn.Sequential(nn.Conv2d(8, 5, 1), nn.ReLU(), nn.Conv2d(5, 6, 3, padding=1)),
            nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), nn.Conv2d(8, 7, 1)),
        ),
        nn.BatchNorm2d(17),
        nn.ReLU(),
        mean_of_pixels(),
        nn.Linear(17, 2),
    )


class ConvnextBlock(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, width), nn.Linear(width, channels)
        self.layer_scale = weight(channels)

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.layer_scale * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


@network(floats(2, 3, 8, 8), widths=(6, 11, 13), share=0.995)
def convnext():
    return nn.Sequential(
        nn.Conv2d(3, 6, 2, stride=2),
        ConvnextBlock(6, 11),
        ConvnextBlock(6, 13),
        mean_of_pixels(),
        nn.LayerNorm(6),
        nn.Linear(6, 5),
    )


class GatedCausalConvolution(nn.Module):
    def __init__(self, channels, width, skipped, dilation):
        super().__init__()
        self.dilation = dilation
        self.both = nn.Conv1d(channels, 2 * width, 2, dilation=dilation)
        self.stay, self.skip = nn.Conv1d(width, channels, 1), nn.Conv1d(width, skipped, 1)

    def forward(self, x):
        value, gate = self.both(F.pad(x, (self.dilation, 0))).chunk(2, dim=1)
        gated = torch.tanh(value) * torch.sigmoid(gate)
        return x + self.stay(gated), self.skip(gated)


# The last residual goes nowhere, as in the original: `stay` of the last layer is without effect, but it is computed,
# and by the addition it belongs to the channels (5).
@network(floats(3, 1, 10), widths=(5, 6, 7, 8), share=0.9924)
class Wavenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Conv1d(1, 5, 1)
        self.layers = nn.ModuleList(
            [GatedCausalConvolution(5, 6, 8, dilation=1), GatedCausalConvolution(5, 7, 8, dilation=2)]
        )
        self.read = nn.Conv1d(8, 4, 1)

    def forward(self, x):
        x, skips = self.lift(x), 0
        for layer in self.layers:
            x, skip = layer(x)
            skips = skips + skip
        return self.read(F.relu(skips))


@network(floats(2, 1, 4, 8, 8), widths=(5, 7), share=0.992)
def convolution_3d():
    return nn.Sequential(
        nn.Conv3d(1, 5, 3, padding=1),
        nn.BatchNorm3d(5),
        nn.ReLU(),
        nn.MaxPool3d(2),
        nn.Conv3d(5, 7, 2),
        nn.SELU(),
        nn.AdaptiveMaxPool3d(1),
        nn.Flatten(),
        nn.Linear(7, 3),
    )


# The four pixels that a channel becomes are its slots.
@network(floats(2, 3, 8, 8), widths=(5, 7), share=0.999)
def pixel_shuffle():
    return nn.Sequential(
        nn.Conv2d(3, 7, 3), nn.ReLU(), nn.Conv2d(7, 20, 3), nn.PixelShuffle(2), nn.ReLU(), nn.Conv2d(5, 2, 3)
    )


# 4 groups of 2: the groups move (4! > 2!^4). 2 groups of 3: channels within them. 1 group of 7: all.
@network(floats(2, 1, 12, 12), widths=(3, 3, 4, 7), share=0.995)
def group_norm():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.GroupNorm(4, 8),
        nn.ReLU(),
        nn.Conv2d(8, 6, 3),
        nn.GroupNorm(2, 6),
        nn.ReLU(),
        nn.Conv2d(6, 7, 3),
        nn.GroupNorm(1, 7),
        nn.ReLU(),
        mean_of_pixels(),
        nn.Linear(7, 5),
    )


@network(floats(2, 3, 10, 10), widths=(6, 7), share=0.997)
def instance_norm():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3),
        nn.InstanceNorm2d(6, affine=True),
        nn.ReLU(),
        nn.Conv2d(6, 7, 3),
        nn.InstanceNorm2d(7),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(7 * 36, 4),
    )


# A norm over channels and pixels at once: its weight has the channels on the first of three axes.
@network(floats(2, 3, 8, 8), widths=(7,), share=0.989)
def layer_norm_of_images():
    return nn.Sequential(
        nn.Conv2d(3, 7, 3, stride=2), nn.LayerNorm((7, 3, 3)), nn.ReLU(), mean_of_pixels(), nn.Linear(7, 4)
    )


@network(floats(2, 1, 8, 8), widths=(5, 6, 7), share=0.999)
def convolutional_autoencoder():
    return nn.Sequential(
        nn.Conv2d(1, 5, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(5, 7, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Upsample(scale_factor=2),
        nn.Conv2d(7, 6, 3, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(6, 1, 2, stride=2),
        nn.Sigmoid(),
    )


# --------------------------------------------------------------------------------------------- recurrent


class Read(nn.Module):
    """A recurrent layer and a head on its outputs at all steps."""

    def __init__(self, layer, head):
        super().__init__()
        self.layer, self.head = layer, head

    def forward(self, x):
        return self.head(self.layer(x)[0])


def last_step() -> nn.Module:
    return Apply(lambda x: x[:, -1])


@network(floats(5, 3, 4), widths=(7,), share=0.981)  # steps first
def rnn_tanh():
    return Read(nn.RNN(4, 7), nn.Linear(7, 2))


@network(floats(3, 5, 4), widths=(6, 6), share=0.988)
def rnn_relu():
    return Read(
        nn.RNN(4, 6, num_layers=2, nonlinearity="relu", batch_first=True),
        nn.Sequential(last_step(), nn.Linear(6, 2)),
    )


@network(floats(5, 3, 4), widths=(7,), share=0.995)
def lstm():
    return Read(nn.LSTM(4, 7), nn.Linear(7, 2))


@network(floats(3, 5, 4), widths=(6,), share=0.992)
def lstm_without_bias():
    return Read(nn.LSTM(4, 6, bias=False, batch_first=True), nn.Sequential(last_step(), nn.Linear(6, 2)))


@network(floats(3, 4, 6), widths=(5, 5, 5, 5), share=0.998)
def lstm_bidirectional():
    return Read(nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True), nn.Linear(10, 2))


@network(floats(3, 6, 4), widths=(5, 8), share=0.995)
def lstm_projected():
    return Read(nn.LSTM(4, 8, proj_size=5, batch_first=True), nn.Linear(5, 2))


@network(floats(3, 5, 4), widths=(6, 6), share=0.997)
class LstmFinalHidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.read = nn.LSTM(4, 6, num_layers=2, batch_first=True), nn.Linear(6, 2)

    def forward(self, x):
        _, (hidden, _) = self.lstm(x)
        return self.read(hidden[-1])


@network(floats(3, 5, 4), widths=(6, 6), share=0.997)
class LstmAllFinalStates(nn.Module):
    """Both directions' last hidden and cell states, side by side."""

    def __init__(self):
        super().__init__()
        self.lstm, self.read = nn.LSTM(4, 6, bidirectional=True, batch_first=True), nn.Linear(24, 2)

    def forward(self, x):
        _, states = self.lstm(x)
        return self.read(torch.cat(states).transpose(0, 1).flatten(1))


@network(floats(3, 5, 4), widths=(7,), share=0.995)
class LstmLearnedStart(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.read = nn.LSTM(4, 7, batch_first=True), nn.Linear(7, 2)
        self.hidden, self.cell = weight(1, 1, 7), weight(1, 1, 7)

    def forward(self, x):
        start = [state.expand(-1, len(x), -1).contiguous() for state in (self.hidden, self.cell)]
        return self.read(self.lstm(x, tuple(start))[0])


@network(positional(floats(3, 5, 4), lambda: torch.tensor([3, 5, 2])), widths=(7,), share=0.995)
class LstmPacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.read = nn.LSTM(4, 7, batch_first=True), nn.Linear(7, 2)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        padded, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.read(padded)


@network(floats(3, 5, 4), widths=(6, 6), share=0.996)
def gru():
    return Read(nn.GRU(4, 6, num_layers=2, batch_first=True), nn.Sequential(last_step(), nn.Linear(6, 2)))


@network(floats(5, 3, 4), widths=(7, 7), share=0.997)
def gru_bidirectional():
    return Read(nn.GRU(4, 7, bidirectional=True), nn.Linear(14, 2))


@network(floats(3, 5, 4), widths=(6,), share=0.993)
class LstmCellLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.read = nn.LSTMCell(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        state = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.read(state[0])


@network(floats(3, 5, 4), widths=(7,), share=0.993)
class GruCellLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.read = nn.GRUCell(4, 7), nn.Linear(7, 2)

    def forward(self, x):
        hidden, hiddens = x.new_zeros(len(x), 7), []
        for step in range(x.shape[1]):
            hidden = self.cell(x[:, step], hidden)
            hiddens.append(hidden)
        return self.read(torch.stack(hiddens, dim=1))


@network(floats(2, 5, 1, 6, 6), widths=(7, 8), share=0.998)
class ConvolutionThenLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 7, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.lstm, self.read = nn.LSTM(28, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, frames):
        seen = self.look(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        return self.read(self.lstm(seen)[0][:, -1])


@network(tokens(11, 3, 5), widths=(6, 8), share=0.993)
def embedding_then_lstm():
    return nn.Sequential(nn.Embedding(11, 6), Read(nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 4)), last_step())


@network(tokens(13, 3, 5), widths=(6, 9), share=1.000)
class EmbeddingTied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(13, 6)
        self.mix = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 6))

    def forward(self, ids):
        return F.linear(self.mix(self.words(ids)), self.words.weight)


@network(floats(3, 5, 4), widths=(7, 9), share=0.977)
class AttentionPooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.read = nn.Sequential(nn.Linear(4, 7), nn.Tanh()), nn.Linear(7, 2)
        self.score = nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.Linear(9, 1))

    def forward(self, x):
        x = self.lift(x)
        return self.read((self.score(x).softmax(1) * x).sum(1))


# --------------------------------------------------------------------------------------------- attention


@network(floats(3, 5, 4), widths=(2, 6, 9), share=0.987)
def transformer_post_norm():
    return nn.Sequential(
        nn.Linear(4, 6),
        nn.TransformerEncoderLayer(6, nhead=2, dim_feedforward=9, batch_first=True),
        mean_of_steps(),
        nn.Linear(6, 5),
    )


@network(floats(5, 2, 4), widths=(2, 3, 6, 9, 10), share=0.993)  # steps first
def transformer_pre_norm():
    def layer(heads, width):
        return nn.TransformerEncoderLayer(6, heads, width, activation="gelu", norm_first=True)

    return nn.Sequential(nn.Linear(4, 6), layer(3, 9), layer(2, 10), nn.LayerNorm(6), nn.Linear(6, 5))


# Target and memory never add up, but PyTorch packs the projections of the cross-attention into one weight:
# rows for queries read the target, the others the memory, on the same axis. So both move together (6).
@network(positional(floats(2, 5, 4), floats(2, 7, 4, seed=1)), widths=(3, 3, 6, 10), share=0.992)
class TransformerDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target, self.read = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(6, 5)
        self.layer = nn.TransformerDecoderLayer(6, nhead=3, dim_feedforward=10, batch_first=True)

    def forward(self, target, source):
        return self.read(self.layer(self.target(target), self.source(source)))


class SelfAttend(nn.Module):
    """`nn.MultiheadAttention` of a sequence with itself."""

    def __init__(self, *arguments, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(*arguments, batch_first=True, **options)

    def forward(self, x):
        return self.attention(x, x, x)[0]


@network(floats(2, 5, 4), widths=(3, 6), share=0.991)
def multihead_attention():
    return nn.Sequential(nn.Linear(4, 6), added(nn.Identity(), SelfAttend(6, 3)), nn.Linear(6, 2))


# One head: what is attended to (7), queries with keys (7), values (7), what comes out (7).
@network(floats(2, 5, 4), widths=(7, 7, 7, 7), share=0.992)
def single_head_attention():
    return nn.Sequential(nn.Linear(4, 7), SelfAttend(7, 1, bias=False), nn.ReLU(), nn.Linear(7, 2))


@network(positional(floats(2, 4, 3), floats(2, 6, 3, seed=1)), widths=(2, 5, 8), share=0.981)
class CrossAttention(nn.Module):
    """Encoder and decoder of different widths: separate projections for queries, keys and values."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Sequential(nn.Linear(3, 5), nn.Tanh()), nn.Linear(3, 8)
        self.attention = nn.MultiheadAttention(8, 2, kdim=5, vdim=5, batch_first=True)
        self.norm, self.read = nn.LayerNorm(8), nn.Linear(8, 7)

    def forward(self, target, source):
        memory, x = self.encoder(source), self.decoder(target)
        return self.read(self.norm(x + self.attention(x, memory, memory, need_weights=False)[0]))


class FusedAttention(nn.Module):
    """One projection to queries, keys and values, and PyTorch's own attention."""

    def __init__(self, channels, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x):
        projected = self.project(x).unflatten(-1, (3, self.heads, -1))
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).flatten(2))


@network(floats(3, 5, 6), widths=(4, 8), share=0.994)
def fused_attention():
    return nn.Sequential(nn.Linear(6, 8), added(nn.Identity(), FusedAttention(8, heads=4)), nn.ReLU(), nn.Linear(8, 2))


class WrittenAttention(nn.Module):
    """Matrix products and a softmax; keys and values of different sizes; perhaps a bias of the scores."""

    def __init__(self, channels, heads, key, value, bias=None):
        super().__init__()
        self.heads, self.bias = heads, bias
        self.queries, self.keys = nn.Linear(channels, heads * key), nn.Linear(channels, heads * key)
        self.values = nn.Linear(channels, heads * value)
        self.out = nn.Linear(heads * value, channels)

    def forward(self, x):
        queries, keys, values = (
            part(x).view(*x.shape[:2], self.heads, -1).transpose(1, 2)
            for part in (self.queries, self.keys, self.values)
        )
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
        if self.bias is not None:
            scores = scores + self.bias
        return self.out((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))


@network(floats(3, 6, 4), widths=(2, 7), share=0.985)
def written_attention():
    return nn.Sequential(
        nn.Linear(4, 7), added(nn.Identity(), WrittenAttention(7, heads=2, key=3, value=5)), nn.Linear(7, 5)
    )


@network(floats(3, 4, 2), widths=(5, 6, 7), share=0.986)
def written_attention_of_one_head():
    return nn.Sequential(
        nn.Linear(2, 7), added(nn.Identity(), WrittenAttention(7, heads=1, key=5, value=6)), nn.Linear(7, 3)
    )


# A learned bias per head and pair of positions (as in Swin) moves with the heads.
@network(floats(2, 5, 4), widths=(3, 7), share=0.995)
def attention_relative_bias():
    attention = WrittenAttention(7, heads=3, key=2, value=4, bias=weight(3, 5, 5))
    return nn.Sequential(nn.Linear(4, 7), added(nn.Identity(), attention), nn.Linear(7, 2))


# A constant slope per head (as in ALiBi) fixes the heads; then the values of each of the three heads (4) move.
@network(floats(2, 5, 4), widths=(4, 4, 4, 7), share=0.958)
def attention_constant_slopes():
    steps = torch.arange(5.0)
    slopes = -(steps - steps[:, None]).abs() * torch.tensor([0.5, 0.25, 0.125])[:, None, None]
    attention = WrittenAttention(7, heads=3, key=2, value=4, bias=slopes)
    return nn.Sequential(nn.Linear(4, 7), added(nn.Identity(), attention), nn.Linear(7, 2))


# The latent queries (5) are averaged at the end, so they are interchangeable too.
@network(floats(3, 4, 2), widths=(5, 6, 7), share=0.968)
class LatentQueries(nn.Module):
    def __init__(self):
        super().__init__()
        self.latents = weight(5, 6)
        self.keys, self.values, self.read = nn.Linear(2, 6), nn.Linear(2, 7), nn.Linear(7, 3)

    def forward(self, x):
        shares = (self.latents @ self.keys(x).transpose(1, 2)).softmax(-1)
        return self.read(F.relu(shares @ self.values(x)).mean(1))


def transformer_block(channels, heads, width, causal=False):
    """Pre-norm attention and perceptron, each under a skip."""
    perceptron = nn.Sequential(nn.Linear(channels, width), nn.GELU(), nn.Linear(width, channels))
    attention = FusedAttention(channels, heads, causal)
    return nn.Sequential(
        added(nn.Identity(), nn.Sequential(nn.LayerNorm(channels), attention)),
        added(nn.Identity(), nn.Sequential(nn.LayerNorm(channels), perceptron)),
    )


@network(floats(2, 1, 8, 12), widths=(3, 9, 11), share=0.994)
class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, 9, 4, stride=4)
        self.start, self.positions = weight(1, 1, 9), weight(1, 7, 9)
        self.block = transformer_block(9, heads=3, width=11)
        self.norm, self.read = nn.LayerNorm(9), nn.Linear(9, 5)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.start.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.read(self.norm(self.block(x)[:, 0]))


@network(tokens(13, 4, 5), widths=(2, 3, 6, 10, 11), share=1.000)
class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(13, 6), nn.Embedding(8, 6)
        self.blocks = nn.Sequential(
            transformer_block(6, heads=2, width=10, causal=True),
            transformer_block(6, heads=3, width=11, causal=True),
        )
        self.norm, self.read = nn.LayerNorm(6), nn.Linear(6, 13, bias=False)
        self.read.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.read(self.norm(self.blocks(x)))


class GroupedQueryAttention(nn.Module):
    """Causal attention with rotated queries and keys, two query heads to each key and value head."""

    def __init__(self, channels, heads, size):
        super().__init__()
        self.size = size
        self.queries = nn.Linear(channels, 2 * heads * size, bias=False)
        self.keys = nn.Linear(channels, heads * size, bias=False)
        self.values = nn.Linear(channels, heads * size, bias=False)
        self.out = nn.Linear(2 * heads * size, channels, bias=False)

    def rotated(self, x):
        angles = torch.outer(torch.arange(x.shape[-2]), 0.1 ** torch.arange(self.size // 2)).repeat(1, 2)
        left, right = x.chunk(2, dim=-1)
        return x * angles.cos() + torch.cat([-right, left], dim=-1) * angles.sin()

    def forward(self, x):
        queries, keys, values = (
            part(x).view(*x.shape[:2], -1, self.size).transpose(1, 2) for part in (self.queries, self.keys, self.values)
        )
        keys, values = keys.repeat_interleave(2, dim=1), values.repeat_interleave(2, dim=1)
        mixed = F.scaled_dot_product_attention(self.rotated(queries), self.rotated(keys), values, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


# Units of the attention: key heads (4), each with its two query heads as slots. (Those two could also be
# swapped: 2!^4 ways against 4!.)
@network(tokens(13, 2, 5), widths=(4, 6, 9), share=1.000)
def llama():
    perceptron = nn.Sequential(
        multiplied(nn.Sequential(nn.Linear(6, 9, bias=False), nn.SiLU()), nn.Linear(6, 9, bias=False)),
        nn.Linear(9, 6, bias=False),
    )
    attention = GroupedQueryAttention(6, heads=4, size=4)
    return nn.Sequential(
        nn.Embedding(13, 6),
        added(nn.Identity(), nn.Sequential(nn.RMSNorm(6), attention)),
        added(nn.Identity(), nn.Sequential(nn.RMSNorm(6), perceptron)),
        nn.RMSNorm(6),
        nn.Linear(6, 13, bias=False),
    )


# Patches (6) are places of the image: they do not move, what mixes them (11) does.
@network(floats(2, 1, 8, 12), widths=(7, 9, 11), share=0.979)
class MlpMixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, 7, 4, stride=4)
        self.norms = nn.ModuleList(nn.LayerNorm(7) for _ in range(3))
        self.places = nn.Sequential(nn.Linear(6, 11), nn.GELU(), nn.Linear(11, 6))
        self.channels = nn.Sequential(nn.Linear(7, 9), nn.GELU(), nn.Linear(9, 7))
        self.read = nn.Linear(7, 4)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = x + self.places(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norms[1](x))
        return self.read(self.norms[2](x).mean(1))


ZOO: tuple[Network, ...] = tuple(_rows)
