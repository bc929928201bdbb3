"""Images that are likened come nearer to what batch norms remember; without such norms they stay as drawn."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from transfuse.modules import Arguments
from transfuse.synthetic import SyntheticInputs
from transfuse.synthetic.images import Images
from transfuse.synthetic.leaves import dead_leaves
from transfuse.synthetic.likening import TIMES, herded, likened
from transfuse.synthetic.norms import seen_by_norms


def drawn(count, seed, like=None):
    example = torch.zeros(1, 3, 16, 16) if like is None else like
    return dead_leaves(count, example, torch.Generator().manual_seed(seed))


def remembering(data):
    """A network with batch norms that remember data."""
    torch.manual_seed(0)
    first, second = nn.BatchNorm2d(6, momentum=None), nn.BatchNorm1d(5, momentum=None)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3), first, nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 5), second,
        nn.Linear(5, 4),
    )  # fmt: skip
    with torch.no_grad():
        model.train()(data)
    return model.eval()


def distance(model, images):
    """How far images as a whole are from what the norms of a network remember."""
    return float(seen_by_norms([model], lambda each: each(images), len(images)).mean(0).square().sum())


def test_data_as_a_whole_are_what_norms_remember():
    data = drawn(200, 1)
    assert distance(remembering(data), data) < 1e-3
    assert distance(remembering(data), 2 * data + 1) > 0.1


def test_channels_that_the_example_tells_wrongly_are_moved_to_those_of_the_data():
    scale, shift = torch.tensor([1.5, 0.7, 1.2]).view(3, 1, 1), torch.tensor([0.4, -0.3, 0.2]).view(3, 1, 1)
    model, example = remembering(drawn(300, 1) * scale + shift), torch.randn(2, 3, 16, 16)
    images = Images(0, example, dead_leaves)
    nearer = likened([model], Arguments.of(example), images)
    found = nearer.generator(60, example, torch.Generator().manual_seed(3))
    assert distance(model, found) < 0.1 * distance(model, drawn(60, 3, example))
    channels = found.movedim(1, 0).flatten(1)
    torch.testing.assert_close(channels.mean(1), shift.flatten(), rtol=0, atol=0.15)
    assert float((channels.std(1) - scale.flatten()).abs().sum()) < 0.6 * float((1 - scale).abs().sum())


def test_several_times_as_many_are_drawn_and_each_is_taken_once():
    example, asked = torch.randn(2, 3, 16, 16), []
    images = Images(0, example, lambda count, like, random: asked.append(count) or dead_leaves(count, like, random))
    nearer = likened([remembering(drawn(100, 1))], Arguments.of(example), images)
    asked.clear()
    found = nearer.generator(10, example, torch.Generator().manual_seed(0))
    assert asked == [10 * TIMES]
    assert len(found.flatten(1).unique(dim=0)) == 10


@given(rows=st.integers(3, 12), size=st.integers(1, 4), share=st.floats(0.1, 1.0), seed=st.integers(0, 100))
def test_herding_takes_what_brings_the_sum_nearest_to_zero_each_time(rows, size, share, seed):
    far = torch.randn(rows, size, generator=torch.Generator().manual_seed(seed))
    count = max(1, int(share * rows))
    slowly: list[int] = []
    for _ in range(count):
        others = [row for row in range(rows) if row not in slowly]
        slowly.append(min(others, key=lambda row: float(far[[*slowly, row]].double().sum(0).square().sum())))
    assert herded(far, count).tolist() == slowly


class Masked(nn.Module):
    """Takes a mask beside images."""

    def __init__(self):
        super().__init__()
        self.net = remembering(drawn(50, 1))

    def forward(self, x, mask):
        return self.net(x) * mask


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(784, 3)), (torch.randn(2, 3, 16, 16),)),
        (nn.BatchNorm2d(3, track_running_stats=False), (torch.randn(2, 3, 16, 16),)),
        (Masked(), (torch.randn(2, 3, 16, 16), torch.ones(2, 1))),
    ],
    ids=["without norms", "norms that remember nothing", "other tensors"],
)
def test_others_get_images_as_they_are_drawn(model, inputs):
    images = Images(0, inputs[0], dead_leaves)
    assert likened([model.eval()], Arguments(inputs), images) is images


def test_a_fusion_says_that_images_were_likened():
    example = torch.randn(2, 3, 16, 16)
    models = [remembering(drawn(100, seed)) for seed in (1, 2)]
    made = SyntheticInputs.of(models, Arguments.of(example), plain=False, data=0, seed=0)
    assert f"of {TIMES} times as many" in made.chosen
