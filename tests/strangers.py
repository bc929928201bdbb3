"""Networks as strangers write them: the most common ways of writing a forward pass, one small network for each.

The zoo (`zoo.py`) has one row for each operation, written as its rule would have it. Here, what matters is the style:
shapes taken from the input, states made on the way, functions with one's own parameters, outputs in all kinds of
containers. Nobody is to change a network for transfuse, so none of these avoids anything. Deliberately not here: what
the widths of spaces should be; the laws in `test_strangers.py` hold whatever they are.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

from zoo import call, floats, keywords, livened, positional, tokens


@dataclass(frozen=True)
class Stranger:
    """One row.

    Args:
        name: How it is called in tests.
        build: Makes the network, in evaluation mode; deterministic under torch.manual_seed.
        inputs: Makes a tensor, a tuple of positional or a dict of keyword arguments.
        read: The tensors in what the network returns.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], object]
    read: Callable[[object], list[Tensor]]


def tensors_of(result: object) -> list[Tensor]:
    """The tensors in tensors, sequences, mappings and dataclasses."""
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, dict):
        return [tensor for part in result.values() for tensor in tensors_of(part)]
    if isinstance(result, tuple | list):
        return [tensor for part in result for tensor in tensors_of(part)]
    return [tensor for each in fields(result) for tensor in tensors_of(getattr(result, each.name))]


_rows: list[Stranger] = []


def stranger(inputs: Callable[[], object], *, read: Callable[[object], list[Tensor]] = tensors_of):
    """Enter a class whose networks take no arguments; its name in lower case is the row's."""

    def enter(make: Callable[[], nn.Module]):
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", make.__name__).lower()
        _rows.append(Stranger(name, lambda: livened(make()).eval(), inputs, read))
        return make

    return enter


def outputs(row: Stranger, model: nn.Module, inputs: object) -> list[Tensor]:
    """All numbers that a network of a row gives; random ones are the same each time."""
    torch.manual_seed(0)
    with torch.no_grad():
        return [tensor for tensor in row.read(call(model, inputs)) if tensor.is_floating_point()]


IMAGES = floats(3, 1, 8, 8)
VECTORS = floats(4, 6)
WORDS = tokens(11, 3, 5)
STEPS = floats(3, 5, 6)


# ------------------------------------------------------------------------------------ from images to classes


class Tutorial(nn.Module):
    """Two convolutions and two linear layers, as nearly every tutorial has them."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 5, 3), nn.Conv2d(5, 6, 3)
        self.fc1, self.fc2 = nn.Linear(24, 7), nn.Linear(7, 4)

    def features(self, x):
        return F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)


@stranger(IMAGES)
class ViewOfMinusOne(Tutorial):
    def forward(self, x):
        x = self.features(x).view(-1, 24)
        return self.fc2(F.relu(self.fc1(x)))


@stranger(IMAGES)
class ViewByBatchSize(Tutorial):
    def forward(self, x):
        x = self.features(x).view(x.size(0), -1)
        return self.fc2(F.relu(self.fc1(x)))


@stranger(IMAGES)
class ReshapeByShape(Tutorial):
    def forward(self, x):
        x = self.features(x)
        return self.fc2(F.relu(self.fc1(x.reshape(x.shape[0], x.shape[1] * x.shape[2] * x.shape[3]))))


@stranger(IMAGES)
class FlattenAndLogSoftmax(Tutorial):
    def forward(self, x):
        x = F.relu(self.fc1(torch.flatten(self.features(x), 1)))
        return F.log_softmax(self.fc2(x), dim=1)


@stranger(IMAGES)
class FlatFeatures(Tutorial):
    def forward(self, x):
        x = self.features(x)
        x = x.view(-1, self.num_flat_features(x))
        return self.fc2(F.relu(self.fc1(x)))

    def num_flat_features(self, x):
        number = 1
        for size in x.size()[1:]:
            number *= size
        return number


@stranger(IMAGES)
class SqueezeAfterPooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(6, 4)

    def forward(self, x):
        x = self.pool(F.relu(self.norm(self.conv(x)), inplace=True))
        return self.fc(x.squeeze(-1).squeeze(-1))


@stranger(IMAGES)
class ResidualInPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 5, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(5, 5, 3, padding=1) for _ in range(2))
        self.head = nn.Linear(5, 4)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            identity = x
            x = block(x)
            x += identity
            x = F.relu(x)
        return self.head(x.mean(dim=[2, 3]))


@stranger(floats(3, 1, 28, 28))
class RowsAsSteps(nn.Module):
    """Rows of an image as the steps of a recurrent network, squeezed on the way."""

    def __init__(self):
        super().__init__()
        self.rnn, self.fc = nn.RNN(28, 6, batch_first=True), nn.Linear(6, 4)

    def forward(self, x):
        h0 = torch.zeros(1, x.size(0), 6).to(x.device)
        out, _ = self.rnn(x.squeeze(1), h0.to(x.dtype))
        return self.fc(out[:, -1, :])


@stranger(floats(3, 3, 8, 8))
class Patches(nn.Module):
    """Patches by a convolution, a class token, positions that are learnt."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 6, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 6))
        self.positions = nn.Parameter(torch.randn(1, 5, 6))
        self.mlp = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 6))
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        batch = x.shape[0]
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(batch, -1, -1), x), dim=1) + self.positions
        x = x + self.mlp(x)
        return self.head(x[:, 0])


# ------------------------------------------------------------------------------------------------- vectors


@stranger(VECTORS)
class LayersInALoop(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [6, 8, 7, 5, 3]
        self.layers = nn.ModuleList([nn.Linear(sizes[i], sizes[i + 1]) for i in range(len(sizes) - 1)])

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i < len(self.layers) - 1:
                x = torch.relu(x)
        return x


@stranger(VECTORS)
class OwnParameters(nn.Module):
    """Functions with parameters of one's own in place of layers."""

    def __init__(self):
        super().__init__()
        self.w1, self.b1 = nn.Parameter(torch.randn(8, 6) / 2), nn.Parameter(torch.randn(8))
        self.w2, self.b2 = nn.Parameter(torch.randn(3, 8) / 3), nn.Parameter(torch.zeros(3))
        self.gain, self.shift = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))

    def forward(self, x):
        h = F.layer_norm(F.linear(x, self.w1, self.b1), (8,), self.gain, self.shift)
        return F.linear(F.gelu(h), self.w2, self.b2)


@stranger(VECTORS)
class ProductsOfMatrices(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.randn(6, 8) / 2), nn.Parameter(torch.randn(8, 3) / 3)
        self.bias = nn.Parameter(torch.randn(8))

    def forward(self, x):
        return torch.tanh(x @ self.first + self.bias) @ self.second


@stranger(VECTORS)
class DropoutByMode(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x):
        x = F.dropout(F.elu(self.norm(self.fc1(x))), p=0.5, training=self.training)
        return self.fc2(x)


@stranger(VECTORS)
class SequentialByName(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            OrderedDict([("in", nn.Linear(6, 8)), ("act", nn.SiLU()), ("hidden", nn.Linear(8, 7)), ("act2", nn.SiLU())])
        )
        self.out = nn.Linear(7, 3)

    def forward(self, input):
        output = self.net(input)
        return self.out(output)


@stranger(VECTORS)
class GatesByChunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 16), nn.Linear(8, 3)

    def forward(self, x):
        value, gate = self.up(x).chunk(2, dim=-1)
        return self.down(value * torch.sigmoid(gate))


@stranger(VECTORS)
class SplitHeads(nn.Module):
    """One layer for mean and spread, split afterwards; both are returned."""

    def __init__(self):
        super().__init__()
        self.trunk, self.head = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x):
        mean, spread = torch.split(self.head(F.relu(self.trunk(x))), 3, dim=1)
        return mean, F.softplus(spread)


@stranger(VECTORS)
class DictOfOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.heads = nn.ModuleDict({"kind": nn.Linear(8, 3), "size": nn.Linear(8, 1)})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


@stranger(VECTORS)
class ListOfOutputs(nn.Module):
    """Every level is returned, as detectors and deeply supervised networks do."""

    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList([nn.Linear(6, 7), nn.Linear(7, 8)])
        self.heads = nn.ModuleList([nn.Linear(7, 2), nn.Linear(8, 2)])

    def forward(self, x):
        found = []
        for level, head in zip(self.levels, self.heads, strict=True):
            x = F.leaky_relu(level(x), 0.1)
            found.append(head(x))
        return found


class PolicyValue(NamedTuple):
    policy: Tensor
    value: Tensor


@stranger(VECTORS)
class NamedTupleOfOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 1)

    def forward(self, state):
        h = torch.tanh(self.body(state))
        return PolicyValue(self.actor(h).softmax(-1), self.critic(h).squeeze(-1))


@dataclass
class Output:
    logits: Tensor
    hidden: tuple[Tensor, ...]


@stranger(VECTORS)
class DataclassOfOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        h = torch.relu(self.body(x))
        return Output(self.head(h), (h.sum(-1),))


@stranger(VECTORS, read=lambda found: [found[0].logits, found[1]])
class ActorCritic(nn.Module):
    """A policy as reinforcement learning has it: a distribution over actions, and a value."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 7), nn.Tanh())
        self.pi, self.v = nn.Linear(7, 3), nn.Linear(7, 1)

    def forward(self, obs):
        h = self.shared(obs)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def categories() -> Tensor:
    """Rows of a table: three columns of categories, of which there are 5, 4 and 7."""
    return torch.tensor([[0, 3, 6], [4, 1, 2], [2, 0, 5], [1, 2, 3]])


@stranger(positional(categories, floats(4, 3)))
class TableOfCategories(nn.Module):
    """An embedding for each column of categories, numbers normalised, and a range for what comes out."""

    def __init__(self):
        super().__init__()
        self.embeds = nn.ModuleList(nn.Embedding(many, size) for many, size in ((5, 3), (4, 2), (7, 4)))
        self.bn_cont = nn.BatchNorm1d(3)
        self.layers = nn.Sequential(nn.Linear(12, 8), nn.ReLU(inplace=True), nn.BatchNorm1d(8), nn.Linear(8, 1))

    def forward(self, x_cat, x_cont=None):
        x = torch.cat([embed(x_cat[:, i]) for i, embed in enumerate(self.embeds)], 1)
        x = self.layers(torch.cat([x, self.bn_cont(x_cont)], 1))
        return 5 * torch.sigmoid(x)


@stranger(positional(tokens(11, 5, 3), lambda: torch.tensor([5, 4, 2])))
class SortedLengths(nn.Module):
    """Texts that stand by falling length, as packing wants them by default."""

    def __init__(self):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(11, 6), nn.LSTM(6, 5, bidirectional=True)
        self.fc = nn.Linear(10, 1)

    def forward(self, text, lengths):
        packed = pack_padded_sequence(self.embedding(text), lengths.to("cpu"))
        _, (hidden, _) = self.rnn(packed)
        return self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1))


@stranger(VECTORS)
class MaskedLayers(nn.Module):
    """An autoregressive network: masks in buffers say which weights there are. Units of one degree are alike."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 10), nn.Linear(10, 6)
        inputs, hidden = torch.arange(6), torch.arange(10) % 5
        self.register_buffer("mask1", (inputs <= hidden[:, None]).float())
        self.register_buffer("mask2", (hidden < inputs[:, None]).float())

    def forward(self, x):
        hidden = F.relu(F.linear(x, self.mask1 * self.first.weight, self.first.bias))
        return F.linear(hidden, self.mask2 * self.second.weight, self.second.bias)


@stranger(floats(6))
class OneState(nn.Module):
    """One state of an environment at a time, without an axis of samples."""

    def __init__(self):
        super().__init__()
        self.affine1, self.dropout, self.affine2 = nn.Linear(6, 8), nn.Dropout(p=0.6), nn.Linear(8, 2)
        self.saved_log_probs, self.rewards = [], []

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.dropout(self.affine1(x)))), dim=-1)


@stranger(VECTORS, read=lambda found: [found.mean, found.stddev])
class GaussianPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.mu = nn.Linear(6, 8), nn.Linear(8, 2)
        self.log_std = nn.Parameter(torch.zeros(2))

    def forward(self, obs):
        return torch.distributions.Normal(self.mu(F.relu(self.body(obs))), self.log_std.exp())


@stranger(keywords(user=floats(4, 6, seed=1), item=floats(4, 5, seed=2)))
class KeywordArguments(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Linear(6, 7), nn.Linear(5, 7)
        self.score = nn.Linear(14, 1)

    def forward(self, user=None, item=None, weights=None):
        pair = torch.cat([F.relu(self.user(user)), F.relu(self.item(item))], dim=1)
        score = self.score(pair).squeeze(1)
        return score if weights is None else score * weights


@stranger(positional(floats(4, 6, seed=1), floats(4, 6, seed=2)))
class SharedTwins(nn.Module):
    """Two inputs through the same layers, compared."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5))

    def forward(self, anchor, other):
        return F.cosine_similarity(self.encode(anchor), self.encode(other)), (anchor - other).pow(2).sum(1)


@stranger(VECTORS)
class AutoEncoder(nn.Module):
    """Returns more than the loss needs: the reconstruction, the mean and the logarithm of the variance."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(6, 9), nn.Linear(9, 2), nn.Linear(9, 2)
        self.fc3, self.fc4 = nn.Linear(2, 8), nn.Linear(8, 6)

    def reparameterize(self, mu, logvar):
        return mu + torch.randn_like(mu) * torch.exp(0.5 * logvar) if self.training else mu

    def forward(self, x):
        h1 = F.relu(self.fc1(x.view(-1, 6)))
        mu, logvar = self.fc21(h1), self.fc22(h1)
        z = self.reparameterize(mu, logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


@stranger(VECTORS)
class SampledCode(nn.Module):
    """An autoencoder that samples its code in evaluation mode too, as most examples of one do."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(6, 9), nn.Linear(9, 2), nn.Linear(9, 2)
        self.fc3, self.fc4 = nn.Linear(2, 8), nn.Linear(8, 6)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def forward(self, x):
        h1 = F.relu(self.fc1(x.view(-1, 6)))
        mu, logvar = self.fc21(h1), self.fc22(h1)
        z = self.reparameterize(mu, logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


@stranger(VECTORS)
class SampledAction(nn.Module):
    """A policy that samples its action, with the logarithm of its probability."""

    def __init__(self):
        super().__init__()
        self.body, self.mean, self.log_std = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 2)
        self.register_buffer("action_scale", torch.tensor([1.5, 2.0]))

    def forward(self, obs):
        h = F.relu(self.body(obs))
        mean, log_std = self.mean(h), torch.tanh(self.log_std(h))
        normal = torch.distributions.Normal(mean, log_std.exp())
        sample = normal.rsample()
        action = torch.tanh(sample)
        log_prob = normal.log_prob(sample) - torch.log(self.action_scale * (1 - action.pow(2)) + 1e-6)
        return action * self.action_scale, log_prob.sum(1, keepdim=True)


@stranger(VECTORS)
class Hooks(nn.Module):
    """Activations are kept by hooks, as for pictures of what a network sees; another hook changes one."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 3)
        self.kept = {}
        self.fc1.register_forward_hook(self.keep)
        self.fc2.register_forward_pre_hook(lambda module, args: (args[0] * 2,))

    def keep(self, module, args, output):
        self.kept["fc1"] = output.detach()

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


@stranger(VECTORS)
class CachedTensors(nn.Module):
    """A tensor that depends on sizes alone is made at the first call and kept."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 3)
        self.scale = None

    def forward(self, x):
        if self.scale is None or self.scale.shape[0] != x.shape[0]:
            self.scale = torch.linspace(1, 2, x.shape[0], dtype=x.dtype).unsqueeze(1)
        return self.fc2(F.relu(self.fc1(x * self.scale)))


@stranger(VECTORS)
class FunctionalState(nn.Module):
    """A network that is run by `functional_call`, as in meta-learning, with weights that are changed on the way."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        self.rate = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        fast = {name: weight * (1 - 0.1 * self.rate) for name, weight in self.net.named_parameters()}
        return torch.func.functional_call(self.net, fast, (x,))


@stranger(VECTORS)
class NormalisedByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 3)
        self.register_buffer("mean", torch.randn(6))
        self.register_buffer("std", torch.rand(6) + 0.5)

    def forward(self, x):
        x = (x - self.mean) / self.std
        x = self.fc1(x)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.fc2(torch.where(x > 0, x, 0.1 * x))


# ----------------------------------------------------------------------------------------------- sequences


@stranger(STEPS)
class StatesOfZeros(nn.Module):
    """The states of an LSTM are made in forward, by the size of the batch."""

    def __init__(self):
        super().__init__()
        self.hidden, self.layers = 5, 2
        self.lstm, self.fc = nn.LSTM(6, 5, num_layers=2, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        h0 = torch.zeros(self.layers, x.size(0), self.hidden, device=x.device, dtype=x.dtype)
        c0 = torch.zeros(self.layers, x.size(0), self.hidden, device=x.device, dtype=x.dtype)
        out, _ = self.lstm(x, (h0.detach(), c0.detach()))
        return self.fc(out[:, -1, :])


@stranger(STEPS)
class CellsInALoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(6, 5), nn.Linear(5, 2)

    def forward(self, x):
        h = x.new_zeros(x.size(0), 5)
        found = []
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
            found.append(self.out(h))
        return torch.stack(found, dim=1)


@stranger(positional(WORDS, lambda: torch.tensor([5, 3, 2])))
class PackedSequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 4)
        self.gru, self.fc = nn.GRU(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embed(words), lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed, hidden = self.gru(packed)
        out, _ = pad_packed_sequence(packed, batch_first=True)
        return self.fc(hidden[-1]), self.fc(out.sum(1))


@stranger(STEPS)
class BothDirections(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(6, 4, bidirectional=True, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        _, (hidden, _) = self.lstm(x)
        return self.fc(torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1))


class Attention(nn.Module):
    """Attention as written out in many repositories: permute, contiguous, view, a mask of a buffer."""

    def __init__(self, width=8, heads=2, length=6):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        batch, length, width = x.size()
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (each.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for each in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
        x = (F.softmax(scores, dim=-1) @ v).permute(0, 2, 1, 3).contiguous().view(batch, length, width)
        return self.proj(x)


@stranger(WORDS)
class MaskedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.norm, self.attention = nn.LayerNorm(8), Attention()
        self.head = nn.Linear(8, 11, bias=False)

    def forward(self, idx):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        x = x + self.attention(self.norm(x))
        return self.head(x)


@stranger(WORDS)
class PositionalBuffer(nn.Module):
    """Sines and cosines in a buffer, added to embeddings that are scaled by hand; batch second."""

    def __init__(self):
        super().__init__()
        position, rate = torch.arange(7).unsqueeze(1), torch.exp(torch.arange(0, 6, 2) * (-math.log(1e4) / 6))
        table = torch.zeros(7, 1, 6)
        table[:, 0, 0::2], table[:, 0, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        self.register_buffer("pe", table)
        self.embed = nn.Embedding(11, 6)
        self.encoder = nn.TransformerEncoderLayer(6, 2, 9, dropout=0.0)
        self.decoder = nn.Linear(6, 4)

    def forward(self, src):
        src = self.embed(src.transpose(0, 1)) * math.sqrt(6)
        src = src + self.pe[: src.size(0)]
        return self.decoder(self.encoder(src)).mean(0)


@stranger(STEPS)
class SumsByEinsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Parameter(torch.randn(2, 6, 4) / 2) for _ in range(3))
        self.out = nn.Parameter(torch.randn(2, 4, 6) / 2)

    def forward(self, x):
        q, k, v = (torch.einsum("bld,hde->bhle", x, each) for each in (self.query, self.key, self.value))
        weights = torch.einsum("bhle,bhme->bhlm", q, k).div(2).softmax(-1)
        return x + torch.einsum("bhlm,bhme,hed->bld", weights, v, self.out)


@stranger(keywords(input_ids=WORDS, attention_mask=lambda: torch.tensor([[1] * 5, [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])))
class MeanOverAMask(nn.Module):
    """Embeddings averaged over the words that count, with a returned dict as `transformers` does."""

    def __init__(self):
        super().__init__()
        self.embed, self.dense, self.head = nn.Embedding(11, 6, padding_idx=0), nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, input_ids, attention_mask=None, labels=None):
        hidden = torch.tanh(self.dense(self.embed(input_ids)))
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        logits = self.head(pooled)
        loss = None if labels is None else F.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits} if loss is not None else {"logits": logits}


@stranger(STEPS)
class ConvolutionsOverTime(nn.Module):
    """Causal convolutions: time is moved last and back, and what looks ahead is cut off."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(6, 7, 2, padding=1), nn.Conv1d(7, 7, 2, padding=2, dilation=2)])
        self.fc = nn.Linear(7, 3)

    def forward(self, x):
        x = x.permute(0, 2, 1)
        for number, conv in enumerate(self.convs):
            x = F.relu(conv(x)[:, :, : -(2**number)])
        return self.fc(x.transpose(1, 2).contiguous()[:, -1])


@stranger(positional(tokens(11, 12), lambda: torch.tensor([0, 4, 9])))
class BagsOfWords(nn.Module):
    """Texts one after another, and where each begins."""

    def __init__(self):
        super().__init__()
        self.embedding, self.fc = nn.EmbeddingBag(11, 6), nn.Linear(6, 4)

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


@stranger(tokens(11, 3, 7))
class TextConvolutions(nn.Module):
    """Convolutions over words as over an image: each kernel spans the whole embedding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.convs = nn.ModuleList([nn.Conv2d(1, 5, (size, 6)) for size in (2, 3)])
        self.fc = nn.Linear(10, 3)

    def forward(self, x):
        x = self.embed(x).unsqueeze(1)
        x = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        return self.fc(torch.cat([F.max_pool1d(i, i.size(2)).squeeze(2) for i in x], 1))


@stranger(floats(3, 4, 6))
class TokensAsChannels(nn.Module):
    """A mixer whose tokens are mixed by convolutions of one position, which leave features where they are."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Linear(6, 8), nn.LayerNorm(8)
        self.tokens = nn.Sequential(nn.Conv1d(4, 7, 1), nn.GELU(), nn.Conv1d(7, 4, kernel_size=1))
        self.features = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 9), nn.GELU(), nn.Linear(9, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.embed(x)
        x = x + self.tokens(self.norm(x))
        x = x + self.features(x)
        return self.head(x.mean(dim=1))


@stranger(floats(3, 3, 10))
class TransformOfPoints(nn.Module):
    """A network finds a matrix for its points, added to the identity, and is run again on the points moved by it."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8)
        self.conv2, self.bn2 = nn.Conv1d(8, 12, 1), nn.BatchNorm1d(12)
        self.transform, self.head = nn.Linear(12, 9), nn.Linear(12, 4)

    def features(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return torch.max(x, 2, keepdim=True)[0].view(-1, 12)

    def forward(self, x):
        matrix = self.transform(self.features(x)) + torch.eye(3, dtype=x.dtype).view(1, 9)
        x = torch.bmm(x.transpose(2, 1), matrix.view(-1, 3, 3)).transpose(2, 1)
        return F.log_softmax(self.head(self.features(x)), dim=1)


# ---------------------------------------------------------------------------------------- graphs and routes


def edges() -> Tensor:
    """Edges [2, edges] of a graph of seven nodes, from and to."""
    return torch.randint(7, (2, 15), generator=torch.Generator().manual_seed(0))


def adjacency() -> Tensor:
    """A graph as a sparse matrix [nodes, nodes], its rows summing to 1."""
    weights = torch.rand(7, 7, generator=torch.Generator().manual_seed(0)).round(decimals=0) + torch.eye(7)
    return (weights / weights.sum(1, keepdim=True)).to_sparse()


NODES = positional(floats(7, 6), edges)


@stranger(positional(floats(7, 6), adjacency))
class SparseAdjacency(nn.Module):
    """Neighbours by a product with a sparse matrix, weights that stand as [inputs, outputs]."""

    def __init__(self):
        super().__init__()
        self.first, self.bias = nn.Parameter(torch.randn(6, 8) / 2), nn.Parameter(torch.randn(8))
        self.second = nn.Parameter(torch.randn(8, 3) / 3)

    def forward(self, x, adj):
        x = F.relu(torch.spmm(adj, torch.mm(x, self.first)) + self.bias)
        return F.log_softmax(torch.spmm(adj, torch.mm(x, self.second)), dim=1)


@stranger(lambda: pack_sequence([floats(5, 6, seed=1)(), floats(3, 6, seed=2)()]))
class PackedInput(nn.Module):
    """A packed sequence is the argument itself."""

    def __init__(self):
        super().__init__()
        self.rnn, self.fc = nn.GRU(6, 8), nn.Linear(8, 2)

    def forward(self, packed):
        _, hidden = self.rnn(packed)
        return self.fc(hidden[-1])


@stranger(NODES)
class MeanOfNeighbours(nn.Module):
    """Messages of a graph, added up by `index_add_` and divided by the number of neighbours."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def propagate(self, x, edge_index):
        source, target = edge_index
        ones = torch.ones(target.numel(), dtype=x.dtype)
        degree = torch.zeros(x.size(0), dtype=x.dtype).index_add_(0, target, ones).clamp(min=1)
        return torch.zeros_like(x).index_add_(0, target, x[source]) / degree.unsqueeze(-1)

    def forward(self, x, edge_index):
        x = F.relu(self.propagate(self.first(x), edge_index))
        x = F.relu(self.second(x) + self.propagate(x, edge_index))
        return self.out(x)


@stranger(NODES)
class MessagesOfEdges(nn.Module):
    """A network on each edge, its results added up and maximised by `scatter`."""

    def __init__(self):
        super().__init__()
        self.node, self.out = nn.Linear(6, 7), nn.Linear(14, 3)
        self.edge = nn.Sequential(nn.Linear(14, 8), nn.ReLU(), nn.Linear(8, 7))

    def forward(self, x, edge_index):
        x = F.relu(self.node(x))
        source, target = edge_index
        message = self.edge(torch.cat([x[source], x[target]], dim=-1))
        where = target.unsqueeze(-1).expand_as(message)
        total = torch.zeros_like(x).scatter_add_(0, where, message)
        largest = torch.zeros_like(x).scatter_reduce(0, where, message, "amax", include_self=False)
        return self.out(torch.cat([x + total, largest], dim=-1))


@stranger(VECTORS)
class RoutedExperts(nn.Module):
    """Each row goes through the two experts that a gate chooses; what they give is written back to the row."""

    def __init__(self):
        super().__init__()
        self.gate, self.head = nn.Linear(6, 3), nn.Linear(5, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5)) for _ in range(3))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros(x.size(0), 5, dtype=x.dtype)
        for number, expert in enumerate(self.experts):
            row, rank = torch.where(chosen == number)
            out[row] += weights[row, rank, None] * expert(x[row])
        return self.head(out)


STRANGERS = tuple(_rows)


def named(name: str) -> Stranger:
    """The row with this name."""
    return next(row for row in STRANGERS if row.name == name)
