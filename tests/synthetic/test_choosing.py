"""Which images networks get: by the example, and by what their batch norms remember."""

import pytest
import torch
from torch import nn

from transfuse.modules import Arguments
from transfuse.synthetic import drawn_inputs, inverted_inputs
from transfuse.synthetic.choosing import chosen_images
from transfuse.synthetic.images import Images
from transfuse.synthetic.leaves import dead_leaves
from transfuse.synthetic.norms import distance_to_norms
from transfuse.synthetic.strokes import pen_strokes


def reader(channels=1, *, norm=False):
    torch.manual_seed(0)
    between = nn.BatchNorm2d(6) if norm else nn.Identity()
    return nn.Sequential(
        nn.Conv2d(channels, 6, 3), between, nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 4)
    ).eval()


def chosen(model, example, **options):
    return chosen_images([model], Arguments.of(example), **options)


def writing():
    images = torch.zeros(3, 1, 16, 16)
    images[:, :, 3:13, 7:9] = 1.0
    return images


@pytest.mark.parametrize(
    ("example", "told"),
    [
        (writing(), "strokes, since the example is grey and 92% of it is background"),
        (torch.randn(2, 1, 16, 16), "leaves, since the example is grey, and not mostly background"),
        (torch.randn(1, 3, 16, 16), "leaves, since the example is an image of 3 channels"),
    ],
)
def test_without_norms_the_example_decides(example, told):
    assert str(chosen(reader(example.shape[1]), example)) == told


def test_networks_that_read_images_patch_by_patch_get_images():
    cut = nn.Sequential(nn.Unfold(4, stride=4), nn.Flatten(2), Swapped(), nn.Linear(16, 5))
    assert chosen(cut, writing()).kind == "strokes"


class Swapped(nn.Module):
    """Features last."""

    def forward(self, x):
        return x.transpose(1, 2)


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_an_example_of_one_value_is_told(value):
    assert "the example has one value only" in chosen(reader(3), torch.full((1, 3, 16, 16), value)).why


@pytest.mark.parametrize(
    ("model", "example"),
    [
        (nn.Linear(4, 3), torch.randn(2, 4)),
        (nn.Conv1d(1, 3, 3), torch.randn(2, 1, 20)),
        (nn.Sequential(nn.Flatten(), nn.Linear(256, 3)), torch.randn(2, 1, 16, 16)),
        (nn.Conv2d(1, 3, 3), torch.randn(2, 1, 6, 40)),
        (nn.Sequential(nn.Embedding(9, 4), nn.Flatten()), torch.tensor([[1, 2]])),
    ],
)
def test_what_is_no_image_stays_noise(model, example):
    assert chosen(model, example) is None


class Normalised(nn.Module):
    """Scales its images before it reads them, and takes a number beside them."""

    def __init__(self):
        super().__init__()
        self.read = nn.Conv2d(3, 4, 3)

    def forward(self, scale, images):
        return self.read((images - 0.5) / scale).mean((2, 3))


def test_images_are_found_among_other_inputs_and_before_they_are_normalised():
    given = Arguments.of((2.0, torch.rand(2, 3, 16, 16)))
    found = chosen_images([Normalised()], given)
    assert (found.kind, found.images.place) == ("leaves", 1)
    batches = drawn_inputs([Normalised()], given, samples=20, images=found.images)
    assert [args[1].shape for args, _ in batches.data] == [(4, 3, 16, 16)] * 5
    for batch in batches:
        batch.run(Normalised())


def remembering(model, images):
    """A network whose batch norm has seen some images."""
    norm = model[1]
    norm.reset_running_stats()
    norm.momentum = None
    norm.train()
    with torch.no_grad():
        model(images)
    return model.eval()


def test_norms_choose_what_is_nearest_to_what_they_remember():
    example, random = torch.rand(4, 1, 16, 16), torch.Generator().manual_seed(1)
    sets = {
        "leaves": dead_leaves(500, example, random),
        "strokes": pen_strokes(500, example, random),
    }
    for kind, images in sets.items():
        found = chosen(remembering(reader(norm=True), images), example)
        assert found.kind == kind
        assert "nearest to what the batch norms of the networks remember of data (leaves" in found.why
        assert "inverted noise" not in found.why, "images that are so near are not compared with it"


def test_noise_is_inverted_where_no_images_are_near_and_it_may_be():
    example = torch.rand(4, 1, 16, 16)
    model = remembering(reader(norm=True), 5 + 3 * torch.randn(500, 1, 16, 16))
    assert "inverted noise" in chosen(model, example).why
    assert "inverted" not in chosen(model, example, invertible=False).why


def test_inverted_noise_counts_where_it_is_nearest():
    example, model = torch.rand(4, 3, 16, 16), reader(3, norm=True)
    given = Arguments.of(example)
    drawn = drawn_inputs([model], given, samples=50)
    remembering(model, torch.cat([args[0] for args, _ in inverted_inputs([model], drawn).batches.data]))
    found = chosen(model, example)
    assert (found.kind, found.images) == ("inverted noise", None)


def test_the_distance_is_zero_on_the_data_and_nothing_without_norms():
    example = torch.rand(4, 1, 16, 16)
    images = Images(0, example, dead_leaves)
    model = reader(norm=True)
    batches = drawn_inputs([model], Arguments.of(example), samples=100, images=images)
    data = torch.cat([args[0] for args, _ in batches.data])
    assert distance_to_norms([remembering(model, data)], batches) < 1e-3
    assert distance_to_norms([remembering(model, 3 * data)], batches) > 0.1
    assert distance_to_norms([reader()], batches) is None


def test_batches_are_small_enough_for_memory_and_every_fifth_judges():
    numbers = {
        side: Images(0, torch.zeros(1, 3, side, side), dead_leaves).batches(500, least=5) for side in (16, 90, 999)
    }
    assert numbers == {16: 10, 90: 25, 999: 500}
    model, example = nn.Conv2d(3, 2, 3), torch.rand(1, 3, 16, 16)
    batches = drawn_inputs([model], Arguments.of(example), samples=600, images=Images(0, example, dead_leaves))
    assert [len(args[0]) for args, _ in batches.data] == [40] * 15
    assert [batch.judges for batch in batches] == [number % 5 == 4 for number in range(15)]
