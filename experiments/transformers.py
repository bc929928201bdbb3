"""Small transformers that minutes are enough to train: of images, and of characters.

In: sizes. Out: modules with random weights. All have their norms before attention and before the inner layer
(pre-norm), so that what is added up from layer to layer, the residual stream, goes through nothing but norms.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .text import CHARACTERS

ROTARY_BASE = 10000.0  # the longest wavelength of rotary positions, in steps over 2 pi, as published


class Attention(nn.Module):
    """Self-attention with one weight for queries, keys and values."""

    def __init__(self, width: int, heads: int, *, causal: bool, rotary: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.causal, self.rotary = heads, causal, rotary
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """What the heads read, [batch, places, width]."""
        count, places, width = x.shape
        queries, keys, values = (
            self.qkv(x).view(count, places, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        )
        if self.rotary:
            queries, keys = rotated(queries), rotated(keys)
        read = F.scaled_dot_product_attention(queries, keys, values, is_causal=self.causal)
        result: Tensor = self.out(read.transpose(1, 2).reshape(count, places, width))
        return result


def rotated(heads: Tensor) -> Tensor:
    """Queries or keys [batch, heads, places, width], each plane turned by an angle that grows with the place."""
    half = heads.shape[-1] // 2
    speeds = ROTARY_BASE ** (-torch.arange(half, device=heads.device) / half)
    angles = torch.arange(heads.shape[-2], device=heads.device)[:, None] * speeds
    first, second = heads[..., :half], heads[..., half:]
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], -1)


class Inner(nn.Module):
    """Two linear layers with a GELU between them."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """What is added to the stream."""
        result: Tensor = self.down(F.gelu(self.up(x)))
        return result


class Gated(nn.Module):
    """SwiGLU: a linear layer multiplied by a gate, then another one; no biases."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.gate = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """What is added to the stream."""
        result: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return result


class Layer(nn.Module):
    """Attention and an inner layer, each reading the stream through a norm and adding to it."""

    def __init__(self, norm: Callable[[], nn.Module], attention: nn.Module, inner: nn.Module) -> None:
        super().__init__()
        self.before, self.between = norm(), norm()
        self.attention, self.inner = attention, inner

    def forward(self, x: Tensor) -> Tensor:
        """The stream, [batch, places, width]."""
        x = x + self.attention(self.before(x))
        result: Tensor = x + self.inner(self.between(x))
        return result


class ViT(nn.Module):
    """A vision transformer: patches, learned positions, layers; a linear layer on the norm of the mean.

    Args:
        width: Of the residual stream.
        heads: Of attention, in each layer.
        hidden: Units between the two linear layers of each layer.
        layers: How many there are.
        patch: Pixels of a patch, in height and width.
        image: Channels of an image, and its pixels in height and width.
        classes: How many scores there are.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self, width: int = 48, heads: int = 4, hidden: int = 128, layers: int = 4, patch: int = 7,
        image: tuple[int, int] = (1, 28), classes: int = 10,
    ) -> None:  # fmt: skip
        super().__init__()
        channels, size = image
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.positions = nn.Parameter(0.02 * torch.randn((size // patch) ** 2, width))
        self.layers = nn.ModuleList(
            Layer(lambda: nn.LayerNorm(width), Attention(width, heads, causal=False), Inner(width, hidden))
            for _ in range(layers)
        )
        self.norm, self.read = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Scores [batch, classes] of images [batch, channels, height, width]."""
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        for layer in self.layers:
            x = layer(x)
        scores: Tensor = self.read(self.norm(x.mean(1)))
        return scores


class Characters(nn.Module):
    """A causal language model of characters: scores [batch, places, tokens] of what comes next."""

    def __init__(
        self, width: int = 64, heads: int = 4, hidden: int = 256, layers: int = 4, places: int = 64,
        tokens: int = len(CHARACTERS),
    ) -> None:  # fmt: skip
        super().__init__()
        self.embed, self.positions = nn.Embedding(tokens, width), nn.Embedding(places, width)
        self.layers = nn.ModuleList(
            Layer(lambda: nn.LayerNorm(width), Attention(width, heads, causal=True), Inner(width, hidden))
            for _ in range(layers)
        )
        self.norm, self.read = nn.LayerNorm(width), nn.Linear(width, tokens)
        _started_small(self, layers)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of the next token at every place, of tokens [batch, places]."""
        x = self.embed(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        scores: Tensor = self.read(self.norm(x))
        return scores


class Llama(nn.Module):
    """A causal language model of characters as Llama is made: RMSNorm, rotary positions, SwiGLU, no biases."""

    def __init__(
        self, width: int = 64, heads: int = 4, hidden: int = 176, layers: int = 4, tokens: int = len(CHARACTERS)
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(
            Layer(
                lambda: nn.RMSNorm(width, eps=1e-5),
                Attention(width, heads, causal=True, rotary=True, bias=False),
                Gated(width, hidden),
            )
            for _ in range(layers)
        )
        self.norm, self.read = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, tokens, bias=False)
        _started_small(self, layers)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of the next token at every place, of tokens [batch, places]."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        scores: Tensor = self.read(self.norm(x))
        return scores


def _started_small(model: nn.Module, layers: int) -> None:
    """Small embeddings, and what is added to the stream smaller the more layers add to it: as GPT-2 is started."""
    for name, tensor in model.named_parameters():
        if tensor.dim() > 1:
            spread = 0.02 if name.startswith(("embed", "positions")) else 0.6 / math.sqrt(tensor.shape[1])
            nn.init.normal_(
                tensor, std=spread / (math.sqrt(2 * layers) if name.endswith(("out.weight", "down.weight")) else 1)
            )
