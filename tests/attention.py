"""Small transformers in the ways in which people write them: one table of functions that take no arguments.

Attention is written with one weight for queries, keys and values, with three, by `nn.MultiheadAttention`, by
`nn.TransformerEncoderLayer`, or by einsum; norms are layer norms or RMS norms, and come before a layer.
"""

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, HIDDEN, PLACES, CLASSES = 12, 3, 10, 8, 10
INPUTS = 8


class Fused(nn.Module):
    """Attention with one weight for queries, keys and values."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = self.qkv(x).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


class Einsum(nn.Module):
    """Attention with three weights and a softmax of its own."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = (part(x).unflatten(2, (HEADS, -1)) for part in (self.query, self.key, self.value))
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / (WIDTH // HEADS) ** 0.5
        return self.out(torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value).flatten(2))


class Multihead(nn.Module):
    """The attention of PyTorch."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class Gated(nn.Module):
    """The inner layer of Llama, without biases."""

    def __init__(self):
        super().__init__()
        self.up, self.gate = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class PreNorm(nn.Module):
    """A layer whose norms come before attention and before the inner layer."""

    def __init__(self, attention, norm=nn.LayerNorm, gated=False):
        super().__init__()
        self.before, self.between = norm(WIDTH), norm(WIDTH)
        self.attention, self.drop = attention(), nn.Dropout(0.1)
        plain = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH))
        self.inner = Gated() if gated else plain

    def forward(self, x):
        x = x + self.drop(self.attention(self.before(x)))
        return x + self.drop(self.inner(self.between(x)))


class LayerScale(PreNorm):
    """A layer that multiplies what it adds to the stream by vectors, in the two ways of writing it."""

    def __init__(self, attention):
        super().__init__(attention)
        self.first, self.second = (nn.Parameter(0.5 + torch.rand(shape)) for shape in (WIDTH, (1, 1, WIDTH)))

    def forward(self, x):
        x = x + self.drop(self.attention(self.before(x)) * self.first)
        return x + self.drop(self.second * self.inner(self.between(x)))


class Transformer(nn.Module):
    """Features of each place, positions, layers, and classes from the mean over places."""

    def __init__(self, layer, norm=nn.LayerNorm):
        super().__init__()
        self.embed, self.positions = nn.Linear(INPUTS, WIDTH), nn.Parameter(torch.randn(PLACES, WIDTH))
        self.layers = nn.ModuleList([layer() for _ in range(2)])
        self.norm, self.read = norm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = self.embed(x) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.read(self.norm(x.mean(1)))


def _encoder(first):
    return nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0.1, "gelu", batch_first=True, norm_first=first)


PRE_NORM = {
    "fused": lambda: Transformer(lambda: PreNorm(Fused)),
    "einsum": lambda: Transformer(lambda: PreNorm(Einsum)),
    "multihead": lambda: Transformer(lambda: PreNorm(Multihead)),
    "encoder": lambda: Transformer(lambda: _encoder(True)),
    "layer scale": lambda: Transformer(lambda: LayerScale(Fused)),
    "rms": lambda: Transformer(lambda: PreNorm(Fused, nn.RMSNorm, gated=True), nn.RMSNorm),
}


def post_norm():
    """The same with norms after the sums, under which the stream is not linear."""
    return Transformer(lambda: _encoder(False))
