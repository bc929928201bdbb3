"""Rotations: which spaces have them, why others do not, and that the proof sees what is wrong."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import transfuse
from transfuse import ProofError, Rotation, Symmetry
from transfuse.layout import Framed, folded, permute, random_elements

WIDTH, HEADS, INNER, WORDS, PLACES = 6, 2, 5, 9, 4


class Block(nn.Module):
    """Attention and two linear layers, each added to the stream, after norms or before."""

    def __init__(self, norm, *, after=False, bias=True, rotary=False, behind=""):
        super().__init__()
        self.behind = behind
        self.size = nn.Parameter(torch.ones(WIDTH)) if behind else None
        self.first, self.second = norm(WIDTH), norm(WIDTH)
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=bias), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.after, self.rotary = after, rotary

    def forward(self, x):
        if self.after:
            x = self.first(x + self.attended(x))
            return self.second(x + self.down(F.gelu(self.up(x))))
        if self.behind:
            return self.scaled(x)
        x = x + self.attended(self.first(x))
        return x + self.down(F.gelu(self.up(self.second(x))))

    def scaled(self, x):
        """What is added is multiplied by a vector; maybe it is also added as it is, or the vector is used twice."""
        read = self.attended(self.first(x))
        x = x + self.size * (read if self.behind != "summed" else read + x)
        x = x + read if self.behind == "raw" else x
        given = self.down(F.gelu(self.up(self.second(x))))
        return x + (given * self.size if self.behind == "twice" else given)

    def attended(self, x):
        batch, places, _ = x.shape
        query, key, value = self.mix(x).view(batch, places, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        if self.rotary:
            query, key = (turned(each) for each in (query, key))
        seen = F.scaled_dot_product_attention(query, key, value)
        return self.out(seen.transpose(1, 2).reshape(x.shape))


def turned(x):
    angle = torch.arange(x.shape[-2])[:, None] * torch.tensor([1.0, 0.3, 0.1])
    other = torch.stack([-x[..., 1], x[..., 0], x[..., 2]], -1)
    return x * angle.cos() + other * angle.sin()


class Words(nn.Module):
    """A language model: embeddings, positions, a block, a norm, scores of words."""

    def __init__(self, norm, *, tied=False, scaled=False, sliced=False, **options):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Parameter(torch.randn(PLACES, WIDTH))
        self.block, self.norm = Block(norm, **options), norm(WIDTH)
        self.scores = nn.Linear(WIDTH, WORDS, bias=False)
        self.size = nn.Parameter(torch.ones(WIDTH)) if scaled else None
        self.sliced = sliced
        if tied:
            self.scores.weight = self.words.weight

    def forward(self, x):
        x = self.words(x) + self.positions
        x = x if self.size is None else x * self.size
        if self.sliced:
            x = torch.cat([x[..., WIDTH // 2 :], x[..., : WIDTH // 2]], -1)
        return self.scores(self.norm(self.block(x)))


class Plain(nn.Module):
    """An RMS norm without a gain."""

    def __init__(self, width):
        super().__init__()

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


class OneGain(Plain):
    """An RMS norm with one gain for all units."""

    def __init__(self, width):
        super().__init__(width)
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.gain * super().forward(x)


class ByHand(Plain):
    """An RMS norm with a gain, written out."""

    def __init__(self, width):
        super().__init__(width)
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * super().forward(x.float())


class Deviation(nn.Module):
    """A layer norm with a gain and a bias, by the unbiased deviation, to which a small number is added."""

    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.bias


class Normalized(nn.Module):
    """An RMS norm by `F.normalize`, which repeats the length of each vector along it."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.normalize(x, dim=-1) * WIDTH**0.5 * self.weight


def built(norm, **options):
    torch.manual_seed(0)
    model = Words(norm, **options).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return model, torch.randint(WORDS, (2, PLACES))


FIXING, ANY = ("rotations fixing the mean",), ("rotations",)
GROUPS = {  # by network: the group of the stream, and what the reason says where it does not rotate
    "layer norm": (nn.LayerNorm, {}, FIXING, ""),
    "layer norm, a reader without bias": (nn.LayerNorm, {"bias": False}, FIXING, ""),
    "RMS norm": (nn.RMSNorm, {}, ANY, ""),
    "RMS norm by hand": (ByHand, {}, ANY, ""),
    "RMS norm, tied, without gains": (Plain, {"tied": True}, ANY, ""),
    "RMS norm, tied, one gain for all": (OneGain, {"tied": True}, ANY, ""),
    "rotary positions": (nn.RMSNorm, {"rotary": True}, ANY, ""),
    "post-norm": (nn.LayerNorm, {"after": True}, None, "has the gain block.first.weight where it meets units"),
    "tied": (nn.LayerNorm, {"tied": True}, None, "the gain norm.weight cannot go into words.weight"),
    "scaled": (nn.LayerNorm, {"scaled": True}, None, "has the gain size where it"),
    "sliced": (nn.RMSNorm, {"sliced": True}, None, "has not just one slot for each of its units"),
    "scaled behind a layer": (nn.LayerNorm, {"behind": "once"}, FIXING, ""),
    "scaled behind two layers": (nn.LayerNorm, {"behind": "twice"}, FIXING, ""),
    "scaled, and as it is": (nn.LayerNorm, {"behind": "raw"}, None, "the gain block.size cannot go into block.out."),
    "scaled with the stream": (nn.LayerNorm, {"behind": "summed"}, None, "the gain block.size"),
    "deviation by torch.std": (Deviation, {}, FIXING, ""),
    "RMS norm by F.normalize": (Normalized, {}, ANY, ""),
    "functions": (lambda width: nn.Sequential(nn.LayerNorm(width), nn.Tanh()), {}, None, "function of single units"),
}


@pytest.mark.parametrize("name", GROUPS)
def test_the_group_of_a_stream(name):
    norm, options, words, reason = GROUPS[name]
    model, x = built(norm, **options)
    layout = transfuse.trace(model, x)  # which proves it
    stream = layout.tensors["positions"][1].spaces[0]
    if words:
        assert layout[stream].symmetry.words == words
        assert stream not in layout.unrotated
    else:
        assert not layout[stream].rotations
        assert reason in layout.unrotated[stream]
    assert transfuse.parse(str(layout)) == layout


def test_norms_fold_into_all_that_reads_them_and_a_bias_stays_where_a_reader_has_none():
    layout = transfuse.trace(*built(nn.LayerNorm))
    folds = {fold.gain: [(each.weight, each.bias) for each in fold.readers] for fold in layout.folds}
    assert folds == {
        "block.first.weight": [("block.mix.weight", "block.mix.bias")],
        "block.second.weight": [("block.up.weight", "block.up.bias")],
        "norm.weight": [("scores.weight", "")],
    }
    assert [fold.keeps_bias for fold in layout.folds] == [False, False, True]


def test_folding_alone_changes_nothing_a_network_computes():
    model, x = built(nn.LayerNorm, bias=False)
    model = model.double()
    layout = transfuse.trace(model, x)
    before = model(x)
    model.load_state_dict(folded(model.state_dict(), layout))
    torch.testing.assert_close(model(x), before)
    assert all(bool((model.state_dict()[fold.gain] == 1).all()) for fold in layout.folds)


class Twice(Words):
    """A block that is there under two names, and two layers that read the last norm, one of them after a sum."""

    def __init__(self):
        super().__init__(nn.LayerNorm)
        self.again, self.whole = self.block, nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = self.norm(self.again(self.block(self.words(x) + self.positions)))
        return self.scores(x), self.whole(x.sum(1))


def test_shared_modules_and_several_readers_fold():
    torch.manual_seed(0)
    model, x = Twice().eval(), torch.randint(WORDS, (2, PLACES))
    layout = transfuse.trace(model, x)
    folds = {fold.gain: [(each.weight, each.bias) for each in fold.readers] for fold in layout.folds}
    assert folds["again.first.weight"] == [("again.mix.weight", "again.mix.bias")]
    assert folds["norm.weight"] == [("scores.weight", ""), ("whole.weight", "")]


def test_a_layer_norm_network_is_refuted_by_a_rotation_that_moves_the_mean():
    model, x = built(nn.LayerNorm)
    layout = transfuse.trace(model, x)
    stream = layout.rotating[0]
    wrong = replace(layout, spaces=tuple(
        replace(space, symmetry=Symmetry(rotations=True)) if space.name == stream else space for space in layout.spaces
    ))  # fmt: skip
    transfuse.prove(model, x, layout)
    with pytest.raises(ProofError, match=f"space {stream}: .*when its units are rotated"):
        transfuse.prove(model, x, wrong)


def test_a_rotation_of_a_space_that_allows_none_is_refused():
    model, x = built(nn.LayerNorm, tied=True)
    layout = transfuse.trace(model, x)
    turn = Rotation(torch.eye(WIDTH).flip(0))
    with pytest.raises(transfuse.LayoutError, match=r"the rotation of space positions\.out: .* not rotated"):
        permute(model.state_dict(), layout, {"positions.out": turn})


# -- one sign for a whole stream ---------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
def test_a_post_norm_stream_may_be_negated_as_a_whole_which_the_layout_does_not_say(whole):
    """A stated limit: networks that were trained apart have no sign in common, so a matching gains nothing from it."""
    model, x = built(nn.LayerNorm, after=True)
    layout = transfuse.trace(model, x)
    assert layout["positions.out"].symmetry == Symmetry()
    chosen = slice(None) if whole else slice(0, 1)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    gains = {"block.first.weight", "block.second.weight", "norm.weight"}
    for block in (each for each in layout.blocks() if each.space == "positions.out" and each.tensor not in gains):
        state[block.tensor].movedim(block.axis, 0)[block.positions[chosen].ravel()] *= -1
    twin = copy.deepcopy(model)
    twin.load_state_dict(state)
    assert torch.allclose(twin(x), model(x), atol=1e-5) == whole


# -- inside of heads ---------------------------------------------------------------------------------------------


def sides(frame):
    return [{(part.tensor, part.axis, part.slots) for part in side} for side in (frame.one, frame.other)]


def test_queries_meet_keys_and_values_meet_what_reads_them():
    layout = transfuse.trace(*built(nn.LayerNorm))
    query, key, value = ({("block.mix.weight", 0, s), ("block.mix.bias", 0, s)} for s in SLOTS)
    assert [sides(frame) for frame in layout.frames] == [[query, key], [value, {("block.out.weight", 1, SLOTS[0])}]]


SLOTS = ((0, 1, 2), (3, 4, 5), (6, 7, 8))


def test_rotary_positions_leave_values_only():
    layout = transfuse.trace(*built(nn.RMSNorm, rotary=True))
    assert [sides(frame)[1] for frame in layout.frames] == [{("block.out.weight", 1, SLOTS[0])}]


def test_wrong_frames_are_refuted():
    model, x = built(nn.RMSNorm, rotary=True)
    layout = transfuse.trace(model, x)
    plain = transfuse.trace(*built(nn.RMSNorm))
    with pytest.raises(ProofError, match=r"space block\.mix\.out: .*mixed inside"):
        transfuse.prove(model, x, replace(layout, frames=plain.frames))


@pytest.mark.parametrize("seed", range(3))
def test_random_elements_keep_the_function(seed):
    model, x = built(nn.LayerNorm)
    model = model.double()
    layout = transfuse.trace(model, x)
    elements = random_elements(layout, layout.units, np.random.default_rng(seed))
    assert any(isinstance(element, Framed) for element in elements.values())
    before = model(x)
    model.load_state_dict(permute(model.state_dict(), layout, elements))
    torch.testing.assert_close(model(x), before)
