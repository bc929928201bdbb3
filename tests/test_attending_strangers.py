"""Transformers as strangers write them: the groups of streams and heads, the law of twins, and a default fuse."""

import functools

import pytest
import torch
from torch.utils import _pytree as pytree

import transfuse
from attending_strangers import WRITTEN, scores
from zoo import call
from zoo_problems import moved_twin

FIXING, ANY = "rotations fixing the mean", "rotations"
# By network: what the stream may be beyond permuted, or the beginning of why it is not more; how many spaces of heads
# there are, how many frames each of them has, and how many of these are planes.
GROUPS = {
    "timm, class token": (FIXING, 2, 2, 0),
    "timm, mean of patches": (FIXING, 2, 2, 0),
    "timm, layer scale": (FIXING, 2, 2, 0),
    "timm, two tokens": (FIXING, 2, 2, 0),
    "class token, no positions": (FIXING, 2, 2, 0),
    "class token, positions before": (FIXING, 2, 2, 0),
    "lucidrains": ("has the gain to_patch_embedding.2.weight where it is put beside others", 2, 2, 0),
    "by nn.TransformerEncoder": (FIXING, 2, 2, 0),
    "by nn.TransformerEncoder, norms after": ("has the gain encoder.layers.0.norm1.weight where it meets", 2, 2, 0),
    "by nn.MultiheadAttention": ("meets what does not rotate", 1, 2, 0),
    "nanoGPT": ("the gain transformer.ln_f.weight cannot go into transformer.wte.weight", 2, 2, 0),
    "nanoGPT, without biases": ("the gain transformer.ln_f.weight cannot go into transformer.wte.weight", 2, 2, 0),
    "minGPT": (FIXING, 2, 2, 0),
    "llama.c": (ANY, 2, 2, 1),
    "llama.c, tied": ("the gain norm.weight cannot go into tok_embeddings.weight", 2, 2, 1),
    "RMS norms by F.normalize": (ANY, 2, 2, 1),
    "T5": (ANY, 1, 4, 0),  # a table of positions that both layers share makes their heads one space
    "lecture": (FIXING, 0, 0, 0),  # heads are modules of their own, which do not change places
    "annotated": (FIXING, 1, 2, 0),  # it has one layer
    "series": (FIXING, 2, 2, 0),
}
QUICK = ("class token, no positions", "timm, layer scale", "nanoGPT", "annotated")
EVERY = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.long]) for name in GROUPS]
)


def network(name, seed):
    torch.manual_seed(seed)
    return WRITTEN[name].build().double()


def inputs_of(name):
    return pytree.tree_map(lambda x: x.double() if x.is_floating_point() else x, WRITTEN[name].inputs())


@functools.cache
def layout_of(name):
    """The layout, proved."""
    return transfuse.trace(network(name, 0), inputs_of(name))


def stream_of(layout):
    """The space that most tensors have."""
    spaces = [axis.alone for axes in layout.tensors.values() for axis in axes if axis.alone]
    return max(sorted(set(spaces)), key=spaces.count)


def test_every_style_has_its_groups():
    assert set(GROUPS) == set(WRITTEN)


@EVERY
def test_the_groups_that_are_found(name):
    layout = layout_of(name)
    stream, count, frames, planes = GROUPS[name]
    space = stream_of(layout)
    found = " ".join(layout[space].symmetry.words) if layout[space].rotations else layout.unrotated[space]
    assert found == stream if layout[space].rotations else found.startswith(stream)
    heads = [each.name for each in layout.spaces if layout.frames_of(each.name)]
    assert len(heads) == count
    for each in heads:
        inside = layout.frames_of(each)
        assert (len(inside), sum(frame.planes > 0 for frame in inside)) == (frames, planes)


@EVERY
def test_a_twin_that_is_rotated_shuffled_and_mixed_changes_nothing(name):
    model, layout, inputs = network(name, 1), layout_of(name), inputs_of(name)
    fusion = transfuse.fuse([model, moved_twin(model, layout, 0)], inputs, layout=layout, correct="none")
    with torch.no_grad():
        wanted = scores(call(model, inputs))
        for each in (fusion.model, *fusion.aligned):
            torch.testing.assert_close(scores(call(each, inputs)), wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("name", GROUPS)
def test_a_default_fuse_is_nearer_to_the_parents_than_their_average(name):
    models, inputs = [network(name, seed) for seed in (1, 2)], inputs_of(name)
    fusion = transfuse.fuse(models, inputs, layout=layout_of(name), data=[inputs])
    plain = transfuse.fuse(models, inputs, layout=layout_of(name), method="vanilla", correct="none").model
    with torch.no_grad():
        mean = sum(scores(call(model, inputs)) for model in models) / 2
        distances = [float((scores(call(each, inputs)) - mean).square().mean()) for each in (fusion.model, plain)]
    assert distances[0] < 0.5 * distances[1]
