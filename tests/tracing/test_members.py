"""Members: heads of queries that share keys and values change places inside of their group, however it is written."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import transfuse
from zoo_problems import moved_twin

WIDTH, GROUPS, SHARED, SIZE = 12, 2, 3, 4
HEADS = GROUPS * SHARED


class Attention(nn.Module):
    """Causal attention in which three heads of queries share one of keys and values."""

    def __init__(self, style):
        super().__init__()
        self.style = style
        counts = (HEADS + 2 * GROUPS,) if style == "packed" else (HEADS, GROUPS, GROUPS)
        self.projections = nn.ModuleList(nn.Linear(WIDTH, count * SIZE) for count in counts)
        self.out = nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        slopes = torch.arange(1.0, 1.0 + SHARED) if style == "told apart" else torch.ones(SHARED)
        self.slopes = slopes.repeat(GROUPS)[:, None, None]  # a plain attribute: a constant of the network

    def heads(self, x):
        """Queries, keys and values [batch, heads, places, size]."""
        batch, places = x.shape[:2]
        if self.style == "packed":  # as Falcon has them: queries, keys and values of a group beside one another
            mixed = self.projections[0](x).view(batch, places, GROUPS, SHARED + 2, SIZE)
            parts = mixed[..., :-2, :].flatten(2, 3), mixed[..., -2, :], mixed[..., -1, :]
        else:
            parts = [each(x).view(batch, places, -1, SIZE) for each in self.projections]
        return [part.transpose(1, 2) for part in parts]

    def forward(self, x):
        q, k, v = self.heads(x)
        batch, _, places, _ = q.shape
        if self.style == "enable_gqa":
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return self.out(mixed.transpose(1, 2).flatten(2))
        if self.style == "expand":
            k, v = (
                each[:, :, None].expand(batch, GROUPS, SHARED, places, SIZE).reshape(batch, HEADS, places, SIZE)
                for each in (k, v)
            )
        else:
            k, v = (each.repeat_interleave(SHARED, dim=1) for each in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(SIZE) * self.slopes.to(q)
        masked = scores.masked_fill(torch.ones(places, places).triu(1).bool(), -1e9)
        return self.out((masked.softmax(-1) @ v).transpose(1, 2).reshape(batch, places, -1))


class Model(nn.Module):
    """One block before a head, with a norm before each."""

    def __init__(self, style, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.words, self.norm, self.attention = nn.Embedding(11, WIDTH), nn.LayerNorm(WIDTH), Attention(style)
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 11)

    def forward(self, tokens):
        x = self.words(tokens)
        return self.head(self.last(x + self.attention(self.norm(x))))


STYLES = ("repeat_interleave", "expand", "enable_gqa", "packed")
TOKENS = torch.randint(11, (20, 6), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("style", STYLES)
def test_heads_of_a_group_are_found_and_a_shuffled_twin_changes_nothing(style):
    model = Model(style).double().eval()
    layout = transfuse.trace(model, TOKENS[:2])
    (members,) = layout.members
    assert (layout[members.space].units, members.count) == (GROUPS, SHARED)
    assert transfuse.parse(str(layout)) == layout
    twin = moved_twin(model, layout, 1)
    wanted = model(TOKENS)
    torch.testing.assert_close(twin(TOKENS), wanted)
    for data in (None, TOKENS):
        fusion = transfuse.fuse([model, twin], TOKENS[:2], layout=layout, data=data, correct="none")
        for each in (fusion.model, *fusion.aligned):
            torch.testing.assert_close(each(TOKENS), wanted, rtol=1e-5, atol=1e-7)


def test_heads_that_something_tells_apart_stay_where_they_are_in_their_group():
    layout = transfuse.trace(Model("told apart").double().eval(), TOKENS[:2])
    assert not layout.members
    (space,) = {frame.space for frame in layout.frames}
    assert layout[space].units == GROUPS


class NormedHeads(nn.Module):
    """Attention whose queries and keys are normed head by head, with gains that all heads share."""

    def __init__(self):
        super().__init__()
        self.read = nn.ModuleList(nn.Linear(WIDTH, HEADS * SIZE, bias=False) for _ in range(3))
        self.gain, self.bias = nn.Parameter(torch.rand(SIZE) + 0.5), nn.Parameter(torch.rand(SIZE))
        self.out = nn.Linear(HEADS * SIZE, 3)

    def forward(self, x):
        q, k, v = (each(x).view(*x.shape[:2], HEADS, SIZE).transpose(1, 2) for each in self.read)
        q, k = (F.layer_norm(each, (SIZE,), self.gain, self.bias) for each in (q, k))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def test_gains_that_all_heads_share_stay_and_leave_the_heads_free():
    torch.manual_seed(0)
    model, x = NormedHeads().double(), torch.randn(4, 5, WIDTH).double()
    layout = transfuse.trace(model, x)
    (space,) = layout.spaces
    assert space.units == HEADS
    assert {"gain", "bias"} <= layout.fixed.keys()
    torch.testing.assert_close(moved_twin(model, layout, 0)(x), model(x))


def test_without_a_proof_there_are_no_members():
    assert not transfuse.trace(Model("expand").eval(), TOKENS[:2], proof=False).members


@pytest.mark.parametrize("method", ["activation", "procrustes"])
def test_heads_of_a_group_are_matched_by_what_they_do(method):
    """Of a network and its twin, shuffled inside of groups alone, every head finds itself."""
    model = Model("expand").double().eval()
    layout = transfuse.trace(model, TOKENS[:2])
    (members,) = layout.members
    plain = transfuse.layout.Framed.of(transfuse.Permutation([1, 0]), layout.frames_of(members.space))
    orders = torch.tensor([[2, 0, 1], [1, 0, 2]])
    moved = transfuse.layout.Framed(plain.permutation, plain.frames, plain.matrices, (), members, orders)
    twin = Model("expand").double().eval()
    twin.load_state_dict(transfuse.permute(model.state_dict(), layout, {members.space: moved}))
    options = {"data": TOKENS} if method == "activation" else {}
    fusion = transfuse.fuse([model, twin], TOKENS[:2], layout=layout, method=method, correct="none", **options)
    found = fusion.couplings[1].couplings[members.space]
    first = fusion.couplings[0].couplings[members.space]
    assert found.relative_to(first).orders.tolist() == moved.inverse().orders.tolist()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["mistral", "qwen2", "qwen3"])
def test_shuffled_twins_of_real_definitions_are_recognised(name):
    transformers_zoo = pytest.importorskip("transformers_zoo", reason="needs the extra transformers")
    row = next(each for each in transformers_zoo.MODELS if each.name == name)
    model, inputs = row.build().double(), row.inputs()
    layout = transfuse.trace(model, inputs, outputs=lambda result: result.logits)
    assert [each.count for each in layout.members] == [2, 2]  # layers, each with four heads of queries in two groups
    twin = moved_twin(model, layout, 1)
    generator = torch.Generator().manual_seed(0)
    data = [{"input_ids": torch.randint(transformers_zoo.VOCABULARY, (20, 8), generator=generator)}]
    with torch.no_grad():
        wanted = model(**inputs).logits
        for given in (None, data):
            fusion = transfuse.fuse([model, twin], inputs, layout=layout, data=given, correct="none")
            error = (fusion.model(**inputs).logits - wanted).norm() / wanted.norm()
            assert float(error) < 1e-5
