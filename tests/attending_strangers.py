"""Transformers as strangers write them: the most common styles, one small network for each, all outputs scores.

`attention.py` has the ways of writing attention, inside of one network; here whole networks are written as well-known
repositories and tutorials do: class tokens, positions, masks, tied heads, losses, shapes taken from the input.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo import floats, livened, tokens

WIDTH, HEADS, INNER, WORDS, PLACES, CLASSES = 12, 3, 10, 11, 6, 4
IMAGES = floats(3, 3, 8, 8)  # four patches of 4 x 4
TEXTS = tokens(WORDS, 3, PLACES)
STEPS = floats(3, PLACES, 5)


class Written(NamedTuple):
    """One row: makes the network, in evaluation mode; makes inputs."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], object]


WRITTEN: dict[str, Written] = {}


def written(name: str, inputs: Callable[[], object], **options: object):
    """Enter a network under a name, with options of its class."""

    def enter(make):
        WRITTEN[name] = Written(lambda: livened(make(**options)).eval(), inputs)
        return make

    return enter


# ---------------------------------------------------------------------------------------------------------- images


class Attention(nn.Module):
    """As in timm: one weight for queries, keys and values."""

    def __init__(self, dim=WIDTH, num_heads=HEADS, qkv_bias=True):
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, dim * 3, bias=qkv_bias), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class Scaled(nn.Module):
    """A vector that multiplies what a layer adds to the stream, as in DeiT III, CaiT and DINOv2."""

    def __init__(self, dim, init_values=0.1):
        super().__init__()
        self.gamma = nn.Parameter(init_values * torch.ones(dim))

    def forward(self, x):
        return x * self.gamma


class Block(nn.Module):
    def __init__(self, layer_scale=False):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(WIDTH, eps=1e-6), Attention()
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Dropout(0.1), nn.Linear(INNER, WIDTH))
        self.ls1 = Scaled(WIDTH) if layer_scale else nn.Identity()
        self.ls2 = Scaled(WIDTH) if layer_scale else nn.Identity()

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        x = x + self.ls2(self.mlp(self.norm2(x)))
        return x


@written("timm, class token", IMAGES)
@written("timm, mean of patches", IMAGES, pool="avg")
@written("timm, layer scale", IMAGES, layer_scale=True)
@written("timm, two tokens", IMAGES, tokens=2)
@written("class token, no positions", IMAGES, positions="none")
@written("class token, positions before", IMAGES, positions="before")
class VisionTransformer(nn.Module):
    def __init__(self, pool="token", layer_scale=False, tokens=1, positions="after"):
        super().__init__()
        self.positions = positions
        self.patch_embed = nn.Conv2d(3, WIDTH, kernel_size=4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.dist_token = nn.Parameter(torch.zeros(1, 1, WIDTH)) if tokens == 2 else None
        self.pos_embed = nn.Parameter(torch.randn(1, 4 + tokens, WIDTH) * 0.02) if positions != "none" else None
        self.pos_drop = nn.Dropout(p=0.1)
        self.blocks = nn.Sequential(*[Block(layer_scale) for _ in range(2)])
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.pool, self.head = pool, nn.Linear(WIDTH, CLASSES)
        self.head_dist = nn.Linear(WIDTH, CLASSES) if tokens == 2 else None

    def forward(self, x):
        B = x.shape[0]
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        cls_token = self.cls_token
        if self.positions == "before":  # as in masked autoencoders
            x, cls_token = x + self.pos_embed[:, 1:, :], self.cls_token + self.pos_embed[:, :1, :]
        cls_tokens = cls_token.expand(B, -1, -1)
        if self.dist_token is None:
            x = torch.cat((cls_tokens, x), dim=1)
        else:
            x = torch.cat((cls_tokens, self.dist_token.expand(B, -1, -1), x), dim=1)
        x = self.pos_drop(x + self.pos_embed if self.positions == "after" else x)
        x = self.norm(self.blocks(x))
        if self.head_dist is not None:
            return (self.head(x[:, 0]) + self.head_dist(x[:, 1])) / 2
        return self.head(x[:, 0] if self.pool == "token" else x[:, 1:].mean(dim=1))


class Lucid(nn.Module):
    """Attention with its own norm, and queries, keys and values by chunk, without biases."""

    def __init__(self):
        super().__init__()
        self.norm, self.attend = nn.LayerNorm(WIDTH), nn.Softmax(dim=-1)
        self.to_qkv = nn.Linear(WIDTH, 3 * HEADS * 5, bias=False)  # heads of 5 dimensions, not WIDTH / HEADS
        self.to_out = nn.Sequential(nn.Linear(HEADS * 5, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        x = self.norm(x)
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, HEADS, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        out = torch.matmul(self.attend(torch.matmul(q, k.transpose(-1, -2)) * 5**-0.5), v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, HEADS * 5))


@written("lucidrains", IMAGES)
class LucidViT(nn.Module):
    """Patches cut by hand, normed before and after their embedding; a token that is repeated."""

    def __init__(self):
        super().__init__()
        self.to_patch_embedding = nn.Sequential(nn.LayerNorm(48), nn.Linear(48, WIDTH), nn.LayerNorm(WIDTH))
        self.pos_embedding = nn.Parameter(torch.randn(1, 5, WIDTH))
        self.cls_token = nn.Parameter(torch.randn(1, 1, WIDTH))
        inner = lambda: nn.Sequential(  # noqa: E731
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH)
        )
        self.layers = nn.ModuleList([nn.ModuleList([Lucid(), inner()]) for _ in range(2)])
        self.norm, self.to_latent = nn.LayerNorm(WIDTH), nn.Identity()
        self.mlp_head = nn.Linear(WIDTH, CLASSES)

    def forward(self, img):
        b, c, h, w = img.shape
        x = img.view(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(b, -1, 16 * c)
        x = self.to_patch_embedding(x)
        x = torch.cat((self.cls_token.repeat(b, 1, 1), x), dim=1)
        x += self.pos_embedding[:, : x.shape[1]]
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return self.mlp_head(self.to_latent(self.norm(x)[:, 0]))


@written("by nn.TransformerEncoder", IMAGES)
@written("by nn.TransformerEncoder, norms after", IMAGES, norm_first=False)
class EncoderViT(nn.Module):
    """The layers of PyTorch, batch first or not, with a class token stacked by `torch.cat`."""

    def __init__(self, norm_first=True):
        super().__init__()
        self.embed = nn.Linear(48, WIDTH)
        self.token = nn.Parameter(torch.randn(WIDTH))
        self.pos = nn.Parameter(torch.randn(1, 5, WIDTH))
        layer = nn.TransformerEncoderLayer(
            d_model=WIDTH, nhead=HEADS, dim_feedforward=INNER, dropout=0.1, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(
            layer, num_layers=2, norm=nn.LayerNorm(WIDTH) if norm_first else None, enable_nested_tensor=False
        )
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = F.unfold(x, 4, stride=4).transpose(1, 2)
        x = self.embed(x)
        x = torch.cat([self.token.expand(len(x), 1, -1), x], 1) + self.pos
        return self.fc(self.encoder(x.permute(1, 0, 2))[0])


@written("by nn.MultiheadAttention", IMAGES)
class MultiheadViT(nn.Module):
    """The attention of PyTorch with its weights asked for, a token put in front as a buffer would be."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, WIDTH, 4, 4)
        self.class_embedding = nn.Parameter(torch.randn(WIDTH))
        self.positional_embedding = nn.Parameter(torch.randn(5, WIDTH))
        self.ln_pre, self.ln_1, self.ln_2, self.ln_post = (nn.LayerNorm(WIDTH) for _ in range(4))
        self.attn = nn.MultiheadAttention(WIDTH, HEADS)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))
        self.proj = nn.Parameter(torch.randn(WIDTH, CLASSES))

    def forward(self, x):
        x = self.conv(x)
        x = x.reshape(x.shape[0], x.shape[1], -1).permute(0, 2, 1)
        zeros = torch.zeros(x.shape[0], 1, x.shape[-1], dtype=x.dtype, device=x.device)
        x = torch.cat([self.class_embedding.to(x.dtype) + zeros, x], dim=1)
        x = x + self.positional_embedding.to(x.dtype)
        x = self.ln_pre(x).permute(1, 0, 2)
        h = self.ln_1(x)
        x = x + self.attn(h, h, h)[0]
        x = x + self.mlp(self.ln_2(x))
        return self.ln_post(x.permute(1, 0, 2)[:, 0, :]) @ self.proj


# ----------------------------------------------------------------------------------------------------------- texts


class CausalSelfAttention(nn.Module):
    """As in nanoGPT: a mask that is a buffer, queries, keys and values by `split`."""

    def __init__(self, bias=True):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH, bias=bias), nn.Linear(WIDTH, WIDTH, bias=bias)
        self.register_buffer("bias", torch.tril(torch.ones(PLACES, PLACES)).view(1, 1, PLACES, PLACES))
        self.n_head, self.n_embd = HEADS, WIDTH

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class LayerNorm(nn.Module):
    """A layer norm with an optional bias, as in nanoGPT."""

    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


class NanoBlock(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = LayerNorm(WIDTH, bias), CausalSelfAttention(bias), LayerNorm(WIDTH, bias)
        self.mlp = nn.ModuleDict(
            dict(c_fc=nn.Linear(WIDTH, INNER, bias=bias), c_proj=nn.Linear(INNER, WIDTH, bias=bias), act=nn.GELU())
        )
        m = self.mlp
        self.mlpf = lambda x: m.c_proj(m.act(m.c_fc(x)))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp.c_proj(self.mlp.act(self.mlp.c_fc(self.ln_2(x))))


@written("nanoGPT", TEXTS)
@written("nanoGPT, without biases", TEXTS, bias=False)
@written("minGPT", TEXTS, tied=False)
class GPT(nn.Module):
    """Returns scores and a loss; the head is tied in nanoGPT, not in minGPT."""

    def __init__(self, bias=True, tied=True):
        super().__init__()
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(WORDS, WIDTH),
                wpe=nn.Embedding(PLACES, WIDTH),
                drop=nn.Dropout(0.1),
                h=nn.ModuleList([NanoBlock(bias) for _ in range(2)]),
                ln_f=LayerNorm(WIDTH, bias=bias),
            )
        )
        self.lm_head = nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        device = idx.device
        _, t = idx.size()
        assert t <= PLACES, f"Cannot forward sequence of length {t}, block size is only {PLACES}"
        pos = torch.arange(0, t, dtype=torch.long, device=device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


class RMSNorm(nn.Module):
    """As in Llama: a gain, no bias, written out."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


class Grouped(nn.Module):
    """Four heads of queries, two of keys and values, rotary positions by complex numbers or by halves."""

    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(WIDTH, heads * 4, bias=False) for heads in (4, 2, 2))
        self.wo = nn.Linear(16, WIDTH, bias=False)

    @staticmethod
    def rotated(x):
        T, half = x.shape[1], x.shape[-1] // 2
        angle = torch.arange(T, device=x.device)[:, None] * 10000 ** (-torch.arange(half) / half)
        cos, sin = angle.cos()[None, :, None].to(x), angle.sin()[None, :, None].to(x)
        x1, x2 = x[..., :half], x[..., half:]
        return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)

    def forward(self, x, mask):
        B, T, _ = x.shape
        xq, xk, xv = self.wq(x).view(B, T, 4, 4), self.wk(x).view(B, T, 2, 4), self.wv(x).view(B, T, 2, 4)
        xq, xk = self.rotated(xq), self.rotated(xk)
        xk, xv = (each[:, :, :, None, :].expand(B, T, 2, 2, 4).reshape(B, T, 4, 4) for each in (xk, xv))
        xq, xk, xv = xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2)
        scores = torch.matmul(xq, xk.transpose(2, 3)) / math.sqrt(4) + mask
        output = torch.matmul(F.softmax(scores.float(), dim=-1).type_as(xq), xv)
        return self.wo(output.transpose(1, 2).contiguous().view(B, T, -1))


class NormalizedNorm(nn.Module):
    """An RMS norm by `F.normalize`."""

    def __init__(self, dim):
        super().__init__()
        self.scale, self.g = dim**0.5, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return F.normalize(x, dim=-1) * self.scale * self.g


@written("llama.c", TEXTS)
@written("llama.c, tied", TEXTS, tied=True)
@written("RMS norms by F.normalize", TEXTS, norm=NormalizedNorm)
class Llama(nn.Module):
    def __init__(self, tied=False, norm=RMSNorm):
        super().__init__()
        self.tok_embeddings = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "attention": Grouped(),
                    "attention_norm": norm(WIDTH),
                    "ffn_norm": norm(WIDTH),
                    "w1": nn.Linear(WIDTH, INNER, bias=False),
                    "w2": nn.Linear(INNER, WIDTH, bias=False),
                    "w3": nn.Linear(WIDTH, INNER, bias=False),
                }
            )
            for _ in range(2)
        )
        self.norm, self.output = norm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.tok_embeddings.weight = self.output.weight

    def forward(self, tokens):
        T = tokens.shape[1]
        h = self.tok_embeddings(tokens)
        mask = torch.triu(torch.full((T, T), float("-inf"), device=tokens.device), diagonal=1)
        for layer in self.layers:
            h = h + layer["attention"](layer["attention_norm"](h), mask)
            x = layer["ffn_norm"](h)
            h = h + layer["w2"](F.silu(layer["w1"](x)) * layer["w3"](x))
        return self.output(self.norm(h))


@written("T5", TEXTS)
class T5Encoder(nn.Module):
    """Norms before layers, no biases, a table of relative positions that all layers share; an encoder with classes."""

    def __init__(self):
        super().__init__()
        self.shared, self.relative = nn.Embedding(WORDS, WIDTH), nn.Embedding(2 * PLACES, HEADS)
        self.q, self.k, self.v, self.o = (
            nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2)) for _ in range(4)
        )
        self.wi, self.wo = (
            nn.ModuleList(nn.Linear(a, b, bias=False) for _ in range(2)) for a, b in ((WIDTH, INNER), (INNER, WIDTH))
        )
        self.norms, self.classes = nn.ModuleList(RMSNorm(WIDTH) for _ in range(5)), nn.Linear(WIDTH, CLASSES)

    def forward(self, ids):
        x = self.shared(ids)
        place = torch.arange(ids.shape[1])
        bias = self.relative(place[None, :] - place[:, None] + PLACES).permute(2, 0, 1).unsqueeze(0)
        for i in range(2):
            h = self.norms[2 * i](x)
            q, k, v = (w(h).view(*ids.shape, HEADS, -1).transpose(1, 2) for w in (self.q[i], self.k[i], self.v[i]))
            seen = torch.softmax(q @ k.transpose(3, 2) + bias, -1) @ v
            x = x + self.o[i](seen.transpose(1, 2).reshape(*ids.shape, WIDTH))
            x = x + self.wo[i](F.relu(self.wi[i](self.norms[2 * i + 1](x))))
        return self.classes(self.norms[4](x).mean(1))


class Head(nn.Module):
    """One head of self-attention, as in the lecture that nanoGPT comes from."""

    def __init__(self, size):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(WIDTH, size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(PLACES, PLACES)))

    def forward(self, x):
        _, T, _ = x.shape
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return F.softmax(wei, dim=-1) @ self.value(x)


class LectureBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.proj = nn.ModuleList([Head(WIDTH // HEADS) for _ in range(HEADS)]), nn.Linear(WIDTH, WIDTH)
        self.net = nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, WIDTH), nn.Dropout(0.1))
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        h = self.ln1(x)
        x = x + self.proj(torch.cat([head(h) for head in self.heads], dim=-1))
        return x + self.net(self.ln2(x))


@written("lecture", TEXTS)
class BigramLanguageModel(nn.Module):
    """Heads as modules of their own, put beside each other."""

    def __init__(self):
        super().__init__()
        self.token_embedding_table = nn.Embedding(WORDS, WIDTH)
        self.position_embedding_table = nn.Embedding(PLACES, WIDTH)
        self.blocks = nn.Sequential(LectureBlock(), LectureBlock())
        self.ln_f, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, idx, targets=None):
        _, T = idx.shape
        x = self.token_embedding_table(idx) + self.position_embedding_table(torch.arange(T, device=idx.device))
        logits = self.lm_head(self.ln_f(self.blocks(x)))
        loss = None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss


@written("annotated", TEXTS)
class Annotated(nn.Module):
    """Embeddings times the root of the width, sines as positions, norms before layers, a norm of one's own."""

    class Norm(nn.Module):
        def __init__(self, features, eps=1e-6):
            super().__init__()
            self.a_2, self.b_2 = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
            self.eps = eps

        def forward(self, x):
            mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
            return self.a_2 * (x - mean) / (std + self.eps) + self.b_2

    def __init__(self):
        super().__init__()
        self.lut = nn.Embedding(WORDS, WIDTH)
        place, step = torch.arange(PLACES).unsqueeze(1), torch.arange(0, WIDTH, 2)
        pe = torch.zeros(PLACES, WIDTH)
        pe[:, 0::2] = torch.sin(place * torch.exp(step * -(math.log(10000.0) / WIDTH)))
        pe[:, 1::2] = torch.cos(place * torch.exp(step * -(math.log(10000.0) / WIDTH)))
        self.register_buffer("pe", pe.unsqueeze(0))
        self.linears = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.w_1, self.w_2 = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.norms, self.generator = nn.ModuleList(self.Norm(WIDTH) for _ in range(3)), nn.Linear(WIDTH, CLASSES)

    def forward(self, src):
        x = self.lut(src) * math.sqrt(WIDTH)
        x = x + self.pe[:, : x.size(1)].requires_grad_(False)
        h = self.norms[0](x)
        query, key, value = (
            lin(h).view(len(src), -1, HEADS, WIDTH // HEADS).transpose(1, 2) for lin in self.linears[:3]
        )
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(WIDTH // HEADS)
        x = x + self.linears[3](
            torch.matmul(scores.softmax(dim=-1), value).transpose(1, 2).contiguous().view(len(src), -1, WIDTH)
        )
        x = x + self.w_2(F.relu(self.w_1(self.norms[1](x))))
        return F.log_softmax(self.generator(self.norms[2](x)[:, -1]), dim=-1)


@written("series", STEPS)
class Series(nn.Module):
    """Steps of a series through layers of PyTorch; a mask made on the way; the last step is read."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(5, WIDTH)
        self.pos = nn.Embedding(PLACES, WIDTH)
        self.layers = nn.ModuleList(
            [nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.1, batch_first=True, norm_first=True) for _ in range(2)]
        )
        self.out = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1), device=x.device, dtype=x.dtype)
        h = self.proj(x) + self.pos.weight[: x.size(1)]
        for layer in self.layers:
            h = layer(h, src_mask=mask)
        return self.out(h[:, -1])


def scores(result: object) -> Tensor:
    """The scores in what a network returns, alone or before a loss."""
    return result[0] if isinstance(result, tuple) else result
