"""Leaves: a power law of sizes, occlusion, the statistics of the example; and strokes beside them."""

import pytest
import torch

from transfuse.synthetic.images import Look, shows_something
from transfuse.synthetic.leaves import RADII, _fallen, _Shape, dead_leaves, radii
from transfuse.synthetic.strokes import pen_strokes

SIZES = [(1, 28, 28), (3, 32, 32), (3, 20, 50), (5, 9, 8), (2, 40, 12), (3, 96, 96)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_number_of_shapes_falls_with_the_cube_of_their_radius():
    found = radii(200_000, seeded())
    least, most = RADII
    assert (found >= least - 1e-6).all()
    assert (found <= most + 1e-6).all()
    for radius in (0.4, 0.5, 0.7, 1.0):  # of a density r^-3 this share lies below a radius
        share = (least**-2 - radius**-2) / (least**-2 - most**-2)
        assert abs(float((found < radius).float().mean()) - share) < 0.005


@pytest.mark.parametrize("size", SIZES)
def test_every_channel_has_the_mean_and_the_deviation_of_many_examples(size):
    shift, factor = torch.linspace(-1, 2, size[0]).view(-1, 1, 1), torch.linspace(0.5, 3, size[0]).view(-1, 1, 1)
    example = (shift + factor * torch.randn(1, *size, generator=seeded())).repeat(500, 1, 1, 1)  # so many: no chance
    images = dead_leaves(30, example, seeded())
    assert images.shape == (30, *size)
    assert images.is_contiguous()
    for statistic in (torch.mean, torch.std):
        found, wanted = (statistic(each.movedim(1, 0).flatten(1), 1) for each in (images, example))
        torch.testing.assert_close(found, wanted, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("generator", [dead_leaves, pen_strokes])
def test_the_same_seed_gives_the_same_images_in_the_type_of_the_example(generator):
    example = torch.rand(2, 1, 16, 16, dtype=torch.float64)
    before = torch.get_rng_state()
    one, same, other = (generator(5, example, seeded(seed)) for seed in (1, 1, 2))
    assert one.dtype == torch.float64
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_images_lie_in_memory_as_the_example_does():
    example = torch.randn(2, 3, 16, 16).to(memory_format=torch.channels_last)
    images = dead_leaves(5, example, seeded())
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert not images.is_contiguous()


def test_a_shape_hides_what_lies_below_it_and_nothing_else():
    for number in range(3):  # ellipses, rectangles, triangles take turns
        covered = _Shape.fallen(300, (32, 32), seeded()).covered(number)
        inside, outside = (covered == 1).float().mean(), (covered == 0).float().mean()
        assert inside > 0.03
        assert outside > 0.5
        assert 1 - inside - outside < 0.15  # an edge of about a pixel
        assert covered.min() == 0
        assert covered.max() == 1


def test_images_have_surfaces_and_edges():
    """Neighbours are alike, and where they are not they differ much: normal numbers of one spectrum have kurtosis 3."""
    images = _fallen(200, (1, 32, 32), seeded())
    steps = (images[..., 1:] - images[..., :-1]).flatten()
    assert float(steps.std() / images.std()) < 0.6
    kurtosis = float((steps - steps.mean()).pow(4).mean() / steps.var() ** 2)
    assert kurtosis > 8


def test_brightness_varies_more_than_hue():
    images = _fallen(200, (3, 32, 32), seeded())
    bright, hue = images.mean(1), images[:, 0] - images[:, 2]
    assert bright.std() > hue.std()


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 255.0])
def test_an_example_of_one_value_gives_images_of_mean_0_and_deviation_1(value):
    for generator in (dead_leaves, pen_strokes):
        images = generator(50, torch.full((1, 1, 16, 16), value), seeded())
        torch.testing.assert_close(images.mean(), torch.tensor(0.0), atol=1e-4, rtol=0)
        torch.testing.assert_close(images.std(correction=0), torch.tensor(1.0), atol=1e-4, rtol=0)


def of_colours(colours, spread=1.0):
    """For each colour [channels] an image of it, with grey shapes on it."""
    return colours[:, :, None, None] + spread * torch.randn(len(colours), 1, 16, 16, generator=seeded(1))


def test_images_that_all_have_one_colour_keep_it():
    example = of_colours(torch.tensor([[2.0, 0.0, -1.0]] * 3))
    found, wanted = Look.of_many(example), Look.of(example)
    torch.testing.assert_close(found.mean, wanted.mean)
    torch.testing.assert_close(found.deviation, wanted.deviation)


def test_images_of_any_colour_tell_the_colour_of_all_by_their_number():
    """Colours of images are chance here: in all they are grey, which one or two of them do not show."""
    for count, gain in ((2, 4), (4, 4), (64, 4)):
        seen, told = 0.0, 0.0
        for seed in range(50):
            colours = (
                torch.randn(count, 3, 2, 2, generator=seeded(seed)).repeat_interleave(8, 2).repeat_interleave(8, 3)
            )
            example = colours + of_colours(torch.zeros(count, 3))
            seen += float(Look.of(example).mean.var())
            told += float(Look.of_many(example).mean.var())
        assert told < seen / gain


def test_what_is_told_of_colours_does_not_depend_on_scale_and_brightness():
    example = of_colours(torch.randn(4, 3, generator=seeded()))
    look, other = Look.of_many(example), Look.of_many(7 * example - 3)
    torch.testing.assert_close(other.mean, 7 * look.mean - 3)
    torch.testing.assert_close(other.deviation, 7 * look.deviation)


def test_photographs_and_scans_show_something_and_noise_does_not():
    assert shows_something(dead_leaves(5, torch.randn(2, 3, 32, 32), seeded()))
    assert shows_something(writing(-0.42, 2.82))
    assert not shows_something(torch.randn(2, 3, 32, 32))
    assert not shows_something(torch.rand(1, 1, 28, 28))
    assert not shows_something(torch.full((1, 3, 8, 8), 0.3))


def test_a_channel_of_one_value_keeps_it():
    example = torch.randn(2, 4, 16, 16)
    example[:, 3] = 1.0
    torch.testing.assert_close(dead_leaves(5, example, seeded())[:, 3], torch.ones(5, 16, 16))


def writing(background, ink):
    images = torch.full((3, 1, 28, 28), background)
    images[:, :, 5:22, 12:15] = ink
    return images


@pytest.mark.parametrize(("background", "ink"), [(0.0, 1.0), (-0.42, 2.82), (1.0, 0.0)])
def test_strokes_have_the_background_and_the_ink_of_a_sparse_example(background, ink):
    example = writing(background, ink)
    assert Look.of(example).sparse
    images = pen_strokes(100, example, seeded())
    assert float((images - background).abs().median()) < 1e-6
    assert abs(float(images.min()) - min(background, ink)) < 1e-5
    assert abs(float(images.max()) - max(background, ink)) < 1e-5
    share = float(((images - background).abs() < 0.01).float().mean())
    assert 0.6 < share < 0.95


def test_photographs_noise_and_colours_are_not_sparse():
    for example in (torch.rand(3, 1, 28, 28), torch.randn(1, 3, 8, 8), writing(0.0, 1.0).expand(3, 3, 28, 28)):
        assert not Look.of(example).sparse
