"""Noise is like the example inputs, and as the first weights want it."""

import pytest
import torch
from torch import nn

from transfuse.activations import Batches
from transfuse.modules import Arguments, undisturbed
from transfuse.synthetic import drawn_inputs
from zoo import ZOO, named


def drawn(models, example, **options):
    """All batches of noise, as (positional, keyword) arguments."""
    batches = drawn_inputs(models, Arguments.of(example), **options)
    assert isinstance(batches, Batches)
    return list(batches.data)


@pytest.mark.parametrize("name", [*[row.name for row in ZOO][1::8], "lstm_packed", "film_conditioning", "gpt"])
def test_noise_is_like_the_example_and_networks_run_on_it(name):
    torch.manual_seed(0)
    model, inputs = named(name).build(), named(name).inputs()
    example = Arguments.of(inputs)
    with undisturbed(model):
        batches = drawn_inputs([model], example, samples=30)
        for batch in batches:
            batch.run(model)
    for args, kwargs in batches.data:
        for one, other in zip([*args, *kwargs.values()], [*example.args, *example.kwargs.values()], strict=True):
            assert one.dtype == other.dtype
            assert one.dim() == other.dim()
            different = [a for a, b in zip(one.shape, other.shape, strict=True) if a != b]
            assert different in ([], [6])  # 30 samples in five batches


@pytest.mark.parametrize("batch_first", [True, False])
def test_the_axis_of_samples_is_found(batch_first):
    model = nn.RNN(3, 4, batch_first=batch_first)
    example = torch.randn((2, 5, 3) if batch_first else (5, 2, 3))
    ((noise,), _), *_ = drawn([model], example)
    assert noise.shape == ((100, 5, 3) if batch_first else (5, 100, 3))


class OneAtATime(nn.Module):
    """A batch of this size, and no other."""

    def __init__(self):
        super().__init__()
        self.read = nn.Linear(3, 2)

    def forward(self, x):
        return self.read(x.view(2, 3)).sum(0, keepdim=True)


def test_a_batch_that_cannot_grow_keeps_its_size():
    batches = drawn([OneAtATime()], torch.randn(2, 3))
    assert len(batches) == 5
    assert all(args[0].shape == (2, 3) for args, _ in batches)
    assert not torch.equal(batches[0][0][0], batches[1][0][0])


def test_tokens_are_below_the_vocabulary_and_all_of_it():
    model = nn.Sequential(nn.Embedding(17, 4), nn.Linear(4, 2))
    tokens = torch.cat([args[0] for args, _ in drawn([model], torch.tensor([[3, 1, 2]]))])
    assert tokens.dtype == torch.int64
    assert set(tokens.unique().tolist()) == set(range(17))


def test_whole_numbers_that_are_no_tokens_come_from_the_example():
    model = named("lstm_packed").build()
    lengths = torch.cat([args[1] for args, _ in drawn([model], named("lstm_packed").inputs())])
    assert set(lengths.unique().tolist()) <= {2, 3, 5}


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.read = nn.Linear(3, 2)

    def forward(self, x, mask, scale):
        return self.read(x.masked_fill(mask, 0.0)) * scale


def test_masks_are_repeated_and_numbers_stay():
    mask = torch.tensor([[True, False, False], [False, False, True]])
    batches = drawn_inputs([Masked()], Arguments((torch.randn(2, 3), mask, 3.0)), samples=15)
    (x, masks, scale), _ = batches.data[0]
    assert (x.shape, scale) == ((3, 3), 3.0)
    assert torch.equal(masks, mask[[0, 1, 0]])
    assert [batch.run(Masked()).shape for batch in batches] == [(3, 2)] * 5


def test_the_same_seed_gives_the_same_noise_and_random_states_stay():
    model, example = nn.Linear(3, 4), torch.randn(2, 3)
    before = torch.get_rng_state()
    one, same, other = (drawn([model], example, seed=seed)[0][0][0] for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def covariance(rows):
    rows = rows.double()
    return rows.T @ rows / len(rows)


def test_noise_has_the_covariance_that_first_weights_betray_and_the_size_of_the_example():
    torch.manual_seed(0)
    models, example = [nn.Linear(4, 9), nn.Linear(4, 9)], 3 * torch.randn(6, 4)
    rows = torch.cat([args[0] for args, _ in drawn(models, example, samples=20_000)])
    wanted = sum(model.weight.detach().double().T @ model.weight.detach().double() for model in models)
    wanted = wanted / wanted.diagonal().mean() * example.double().square().mean()
    torch.testing.assert_close(covariance(rows), wanted, rtol=0.05, atol=0.05 * float(wanted.max()))


def test_a_flattened_image_has_it_too():
    torch.manual_seed(0)
    model, example = nn.Sequential(nn.Flatten(), nn.Linear(6, 9)), torch.randn(6, 2, 3)
    rows = torch.cat([args[0] for args, _ in drawn([model], example, samples=20_000)]).flatten(1)
    weight = model[1].weight.detach().double()
    wanted = weight.T @ weight
    wanted = wanted / wanted.diagonal().mean() * example.double().square().mean()
    torch.testing.assert_close(covariance(rows), wanted, rtol=0.05, atol=0.05 * float(wanted.max()))


@pytest.mark.parametrize(
    ("model", "example", "axis"),
    [
        (nn.Conv2d(2, 8, 3), torch.randn(3, 2, 20, 20), 3),
        (nn.Conv2d(4, 8, 3, groups=2), torch.randn(3, 4, 20, 20), 2),
        (nn.LSTM(3, 8), torch.randn(20, 3, 3), 0),
    ],
)
def test_neighbours_are_alike_in_space_and_time(model, example, axis):
    torch.manual_seed(0)
    noise = torch.cat([args[0].movedim(axis, -1).flatten(0, -2) for args, _ in drawn([model], example)])
    near = (noise[:, 1:] * noise[:, :-1]).mean() / noise.square().mean()
    far = (noise[:, 10:] * noise[:, :-10]).mean() / noise.square().mean()
    assert near > 0.9
    assert far < 0.1
    assert abs(float(noise.square().mean() / example.square().mean()) - 1) < 0.1


def test_an_example_of_zeros_gives_noise_of_size_one():
    noise = torch.cat([args[0] for args, _ in drawn([nn.Linear(3, 4)], torch.zeros(2, 3), samples=5000)])
    assert 0.9 < float(noise.square().mean()) < 1.1


def test_float64_stays_float64():
    model = nn.Linear(3, 4).double()
    assert drawn([model], torch.randn(2, 3).double())[0][0][0].dtype == torch.float64


class Lengths(nn.Module):
    """Reads words one after another, and counts only the first ones of each sample."""

    def __init__(self):
        super().__init__()
        self.embed, self.read = nn.Embedding(50, 3), nn.Linear(3, 2)

    def forward(self, words, lengths, mask):
        assert int(lengths.min()) >= 2
        assert int(lengths.max()) <= words.shape[1]
        assert set(mask.unique().tolist()) <= {0, 1}
        return sum(self.read(self.embed(words[:, step])) for step in range(words.shape[1]))


def test_only_what_an_embedding_reads_is_drawn_from_its_vocabulary():
    words, lengths, mask = torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([2, 3]), torch.tensor([[1, 1], [1, 0]])
    batches = drawn_inputs([Lengths()], Arguments.of((words, lengths, mask)), samples=100)
    drawn = torch.cat([args[0] for args, _ in batches.data])
    assert drawn.unique().numel() > 40
    for batch in batches:
        batch.run(Lengths())


@pytest.mark.parametrize("channels_last", [False, True])
def test_images_lie_in_memory_as_the_example_does(channels_last):
    example = torch.randn(2, 3, 8, 8)
    example = example.to(memory_format=torch.channels_last) if channels_last else example
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    for (image,), _ in drawn([model], example):
        assert image.is_contiguous() is not channels_last
        assert image.is_contiguous(memory_format=torch.channels_last) is channels_last
