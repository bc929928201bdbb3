"""Networks of two depths as strangers write them: what repeats stands in attributes, sequences or lists of modules."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import livened


class Tutorial(nn.Module):
    """Layers as attributes with numbers, as nearly every tutorial has them."""

    def __init__(self, deep):
        super().__init__()
        self.deep = deep
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 5, 3, padding=1)
        if deep:
            self.conv3 = nn.Conv2d(5, 5, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(80, 7), nn.Linear(7, 7 if deep else 3)
        if deep:
            self.fc3 = nn.Linear(7, 3)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        if self.deep:
            x = F.relu(self.conv3(x))
        x = F.max_pool2d(x, 2).view(-1, 80)
        x = self.fc2(F.relu(self.fc1(x)))
        return self.fc3(F.relu(x)) if self.deep else x


class Perceptron(nn.Module):
    """Three or five linear layers, the last of which has a name of its own."""

    def __init__(self, deep):
        super().__init__()
        self.hidden = nn.ModuleList(nn.Linear(6, 6) for _ in range(4 if deep else 2))
        self.out = nn.Linear(6, 3)

    def forward(self, x):
        for layer in self.hidden:
            x = layer(x).relu()
        return self.out(x)


def vgg(deep):
    """Convolutions with batch norm and ReLU in place, in one sequence with max pooling."""
    layers = []
    inputs = 1
    for width in (4, 4, "M", 6, 6, "M") if deep else (4, "M", 6, "M"):
        if width == "M":
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(inputs, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        inputs = width
    features = nn.Sequential(*layers)
    return nn.Sequential(features, nn.Flatten(), nn.Linear(24, 7), nn.ReLU(), nn.Dropout(), nn.Linear(7, 3))


class BasicBlock(nn.Module):
    """A residual block as torchvision writes it."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """Stages as attributes with numbers, each a sequence of blocks."""

    def __init__(self, blocks, width=4):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.layer1 = self._make_layer(width, width, blocks[0], 1)
        self.layer2 = self._make_layer(width, 2 * width, blocks[1], 2)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(2 * width, 3)

    def _make_layer(self, inputs, outputs, count, stride):
        rest = (BasicBlock(outputs, outputs, 1) for _ in range(count - 1))
        return nn.Sequential(BasicBlock(inputs, outputs, stride), *rest)

    def forward(self, x):
        x = self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Encoder(nn.Module):
    """PyTorch's own transformer, with norms first, a class token, and positions."""

    def __init__(self, layers):
        super().__init__()
        one = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=True, activation="gelu")
        self.embed, self.cls = nn.Linear(5, 8), nn.Parameter(torch.randn(1, 1, 8))
        self.encoder = nn.TransformerEncoder(one, layers, norm=nn.LayerNorm(8), enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.cat([self.cls.expand(len(x), -1, -1), self.embed(x)], 1)
        return self.head(self.encoder(x)[:, 0])


class Posts(nn.Module):
    """PyTorch's own transformer as it comes, with norms behind sums."""

    def __init__(self, layers):
        super().__init__()
        one = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, layer_norm_eps=1e-12)
        self.embed, self.norm = nn.Linear(5, 8), nn.LayerNorm(8, eps=1e-12)
        self.encoder = nn.TransformerEncoder(one, layers, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(self.norm(self.embed(x))).mean(1))


class Attention(nn.Module):
    """Causal self-attention with one weight for queries, keys and values."""

    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = (each.view(*x.shape[:2], 2, 4).transpose(1, 2) for each in self.c_attn(x).split(8, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(x.shape))


class Block(nn.Module):
    """A block of a language model, which is given a mask that it does not need."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(8), Attention(), nn.LayerNorm(8)
        self.mlp = nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 8))

    def forward(self, x, mask=None):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Language(nn.Module):
    """A language model whose blocks stand in a dictionary of modules."""

    def __init__(self, layers):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(11, 8),
                "wpe": nn.Embedding(6, 8),
                "h": nn.ModuleList(Block() for _ in range(layers)),
                "ln_f": nn.LayerNorm(8),
            }
        )
        self.lm_head = nn.Linear(8, 11, bias=False)

    def forward(self, tokens):
        x = self.transformer.wte(tokens) + self.transformer.wpe(torch.arange(tokens.shape[1]))
        for block in self.transformer.h:
            x = block(x, mask=None)
        return self.lm_head(self.transformer.ln_f(x))


class Mixer(nn.Module):
    """Branches in a list, which the network itself adds to what they read."""

    def __init__(self, layers):
        super().__init__()
        self.stem = nn.Linear(6, 8)
        self.branches = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 12), nn.SiLU(), nn.Linear(12, 8)) for _ in range(layers)
        )
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.stem(x)
        for branch in self.branches:
            x = x + branch(x)
        return self.head(x)


@dataclass(frozen=True)
class TwoDepths:
    """A network in two depths.

    Args:
        shallow: Makes the network of fewer layers.
        deep: Makes the network of more layers.
        inputs: Makes inputs of both.
        grown: How many layers the shallower one lacks.
    """

    shallow: Callable[[], nn.Module]
    deep: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]
    grown: int


def _images(count):
    return torch.randn(count, 1, 8, 8)


TWO_DEPTHS = {
    "tutorial": TwoDepths(lambda: Tutorial(False), lambda: Tutorial(True), _images, 2),
    "perceptron": TwoDepths(lambda: Perceptron(False), lambda: Perceptron(True), lambda n: torch.randn(n, 6), 2),
    "vgg": TwoDepths(lambda: vgg(False), lambda: vgg(True), _images, 2),
    "resnet": TwoDepths(lambda: ResNet((1, 1)), lambda: ResNet((2, 3)), _images, 3),
    "encoder": TwoDepths(lambda: Encoder(2), lambda: Encoder(4), lambda n: torch.randn(n, 6, 5), 2),
    "posts": TwoDepths(lambda: Posts(2), lambda: Posts(3), lambda n: torch.randn(n, 6, 5), 1),
    "language": TwoDepths(lambda: Language(2), lambda: Language(3), lambda n: torch.randint(11, (n, 6)), 1),
    "mixer": TwoDepths(lambda: Mixer(2), lambda: Mixer(4), lambda n: torch.randn(n, 6), 2),
}


def built(make, seed):
    """A network in float64 whose norms are not those of a start."""
    torch.manual_seed(seed)
    return livened(make()).double().eval().requires_grad_(False)


@functools.cache
def inputs_of(name, count=40):
    """Inputs of a row, in float64 where they are numbers."""
    torch.manual_seed(0)
    inputs = TWO_DEPTHS[name].inputs(count)
    return inputs.double() if inputs.is_floating_point() else inputs
