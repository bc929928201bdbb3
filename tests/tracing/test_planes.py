"""Planes inside of heads: what positions turn may be turned and scaled, whichever way rotary embeddings are written."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import transfuse
from transfuse import ProofError
from transfuse.layout import Framed, permute, random_elements

WIDTH, HEADS, GROUPS, SIZE, PLACES, WORDS = 8, 4, 2, 4, 5, 9


def angles(places, count):
    return torch.arange(places)[:, None] * torch.tensor([1.0, 0.3])[:count]


def halves(x):
    """As Llama does: the first half of the directions with the second."""
    whole = torch.cat([angles(x.shape[-2], 2)] * 2, -1)
    first, second = x.chunk(2, -1)
    return x * whole.cos() + torch.cat([-second, first], -1) * whole.sin()


def neighbours(x):
    """As GPT-J does: every direction with the next."""
    whole = angles(x.shape[-2], 2).repeat_interleave(2, -1)
    other = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    return x * whole.cos() + other * whole.sin()


def written_out(x):
    """Both halves by a formula of their own."""
    cosine, sine = angles(x.shape[-2], 2).cos(), angles(x.shape[-2], 2).sin()
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], -1)


def partial(x):
    """As GPT-NeoX does: some directions are not turned."""
    cosine, sine = angles(x.shape[-2], 1).cos(), angles(x.shape[-2], 1).sin()
    first, second, rest = x[..., :1], x[..., 1:2], x[..., 2:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine, rest], -1)


def skewed(x):
    """No rotation: the second half has the wrong sign, so that no plane may be turned."""
    cosine, sine = angles(x.shape[-2], 2).cos(), angles(x.shape[-2], 2).sin()
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine - first * sine], -1)


class Reader(nn.Module):
    """A language model of one layer of attention, whose queries share keys and values in groups."""

    def __init__(self, rotary, groups=GROUPS):
        super().__init__()
        self.rotary, self.groups = rotary, groups
        self.words, self.norm = nn.Embedding(WORDS, WIDTH), nn.RMSNorm(WIDTH)
        self.query, self.key = nn.Linear(WIDTH, HEADS * SIZE), nn.Linear(WIDTH, groups * SIZE)
        self.value, self.out = nn.Linear(WIDTH, groups * SIZE), nn.Linear(HEADS * SIZE, WIDTH)
        self.last, self.read = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.words(tokens)
        seen = self.norm(x)
        query, key, value = (each(seen).unflatten(-1, (-1, SIZE)).transpose(1, 2) for each in self.parts)
        key, value = (each.repeat_interleave(HEADS // self.groups, 1) for each in (self.rotary(key), value))
        heads = F.scaled_dot_product_attention(self.rotary(query), key, value, is_causal=True)
        return self.read(self.last(x + self.out(heads.transpose(1, 2).flatten(2))))

    @property
    def parts(self):
        return self.query, self.key, self.value


def built(rotary, seed=0, **options):
    torch.manual_seed(seed)
    return Reader(rotary, **options).eval(), torch.randint(WORDS, (3, PLACES))


def planes(layout):
    return [(frame.size, frame.planes, len(frame.one)) for frame in layout.frames if frame.planes]


FOUND = {halves: (4, 2), neighbours: (4, 1), written_out: (4, 2), partial: (2, 1)}  # directions, and how far apart


@pytest.mark.parametrize("rotary", FOUND)
@pytest.mark.parametrize("groups", [GROUPS, pytest.param(HEADS, marks=pytest.mark.long)])
def test_planes_are_found_and_proved(rotary, groups):
    layout = transfuse.trace(*built(rotary, groups=groups))
    queries = 2 * HEADS // groups  # weight and bias of each query of a group
    assert planes(layout) == [(*FOUND[rotary], queries)]
    assert transfuse.parse(str(layout)) == layout


def test_directions_that_are_not_turned_may_still_be_mixed():
    layout = transfuse.trace(*built(partial))
    assert sorted((frame.size, frame.planes) for frame in layout.frames) == [(2, 0), (2, 1), (4, 0)]


def test_planes_that_are_no_planes_are_refuted_and_the_rest_is_proved():
    layout = transfuse.trace(*built(skewed))
    assert [(frame.size, frame.planes) for frame in layout.frames] == [(4, 0)]  # values, and what reads them


def test_what_is_not_proved_is_not_said_to_be_a_plane():
    assert planes(transfuse.trace(*built(halves), proof=False)) == []


@pytest.mark.long
@pytest.mark.parametrize("wrong", [0, 1])
def test_wrong_planes_are_refuted(wrong):
    model, x = built(halves)
    layout = transfuse.trace(model, x)
    frames = tuple(replace(frame, planes=wrong) if frame.planes else frame for frame in layout.frames)
    with pytest.raises(ProofError, match="mixed inside"):
        transfuse.prove(model, x, replace(layout, frames=frames))


@pytest.mark.parametrize("method", [pytest.param("auto", marks=pytest.mark.long), "procrustes"])
@pytest.mark.parametrize("rotary", [halves, neighbours, partial])
def test_a_copy_with_its_planes_turned_and_scaled_comes_back(rotary, method):
    model, x = built(rotary)
    layout = transfuse.trace(model, x)
    elements = random_elements(layout, layout.units, np.random.default_rng(1))
    assert any(isinstance(each, Framed) for each in elements.values())
    twin = copy.deepcopy(model)
    twin.load_state_dict(permute(model.state_dict(), layout, elements))
    fusion = transfuse.fuse([model, twin], x, layout=layout, method=method, correct="none")
    with torch.no_grad():
        for each in (fusion.model, *fusion.aligned):
            assert float((each(x) - model(x)).norm() / model(x).norm()) < 1e-5
