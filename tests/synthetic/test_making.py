"""Synthetic inputs of a fusion: which they are is told, why there are none, and what others raise."""

import pytest
import torch
from torch import nn

import transfuse
from transfuse.modules import Arguments
from transfuse.synthetic import SyntheticInputs
from transfuse.synthetic.budget import SAMPLES
from transfuse.synthetic.making import ENOUGH
from transfuse.synthetic.noise import drawn_inputs

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def made(models, example=X, **options):
    given = Arguments.of(example)
    return SyntheticInputs.of(models, given, **{"plain": False, "data": 0, "seed": 0, **options})


def test_networks_that_see_classes_get_inverted_inputs():
    found = made([network(0), network(1)])
    assert found.batches.count == 5
    assert (found.why_not, found.matching, found.chosen) == ("", None, "")


class Fails(nn.Module):
    """Raises what is no error of the package, on any inputs but the example's size."""

    def __init__(self):
        super().__init__()
        self.read = nn.Linear(4, 3)

    def forward(self, x):
        if len(x) > 6:
            raise LookupError("no such batch")
        return self.read(x)


def test_the_cause_is_told_with_its_type():
    found = made([Fails()])
    assert found.batches is None
    assert "no correction by synthetic inputs: Fails does not run on batch 1" in found.why_not
    assert "LookupError: no such batch" in found.why_not


def test_half_precision_gets_none():
    assert made([network(0).half()]).batches is None


class Sounds(nn.Module):
    """Convolutions along time, and no classes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(1, 2, 3, padding=1), nn.Conv1d(2, 1, 3, padding=1)

    def forward(self, x):
        return self.second(self.first(x).relu())


def test_plain_noise_is_given_to_convolutions_only_if_asked_for():
    sounds, example = Sounds(), torch.randn(2, 1, 36)
    found = made([sounds], example)
    assert found.batches is None
    assert "no classes to see: what they give is of shape [40, 1, 36], not [samples, classes]" in found.why_not
    assert made([sounds], example, plain=True).batches is not None
    assert made([sounds], example, data=10).batches is None


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.read = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.read(self.cell(x)[0][:, -1])


@pytest.mark.parametrize(
    ("reads", "example", "count", "kept"),
    [(Remembers, (2, 5, 3), ENOUGH, True), (Remembers, (2, 5, 3), ENOUGH - 1, False),
     (lambda: nn.Linear(3, 2), (2, 3), ENOUGH, False)],
)  # fmt: skip
def test_noise_beside_much_data_is_not_inverted_for_recurrent_networks(reads, example, count, kept):
    torch.manual_seed(0)
    net, shown = reads(), torch.randn(example)
    found = made([net], shown, data=count).batches
    drawn = drawn_inputs([net], Arguments.of(shown), samples=SAMPLES[False])
    same = [torch.equal(*(args[0] for args, _ in both)) for both in zip(found.data, drawn.data, strict=True)]
    assert same == [kept] * drawn.count


def pictures():
    """Reads images, and tells no classes."""
    return nn.Sequential(nn.Conv2d(3, 2, 3, padding=1), nn.ReLU(), nn.Conv2d(2, 1, 3, padding=1))


def test_networks_that_read_images_get_leaves_though_there_are_no_classes():
    found = made([pictures()], torch.randn(2, 3, 12, 9))
    assert (found.batches.count, found.matching.count, found.why_not) == (20, 10, "")
    assert {tuple(args[0].shape) for args, _ in found.batches.data} == {(50, 3, 12, 9)}
    assert str(found.chosen) == "leaves, since the example is an image of 3 channels"
    assert made([pictures()], torch.randn(2, 3, 12, 9), data=10).batches is None


def test_too_many_operations_are_told(monkeypatch):
    monkeypatch.setattr("transfuse.synthetic.budget.EFFORT", {"cpu": 1.0})
    for example in (torch.randn(2, 3, 12, 9), torch.randn(2, 3, 6, 6)):
        found = made([pictures()], example)
        assert found.batches is None
        assert "it would take too long to go by as few as 50 samples (more than 1e+00 floating-point" in found.why_not
        assert made([pictures()], example, plain=True).batches is not None
        assert transfuse.synthetic_inputs([pictures()], example, samples=10).count == 5


def test_what_the_users_own_watcher_raises_goes_through():
    def watch(stage, done, total):
        raise TimeoutError(stage)

    with pytest.raises(TimeoutError, match="inverting inputs"):
        made([network(0)], progress=watch)


@pytest.mark.parametrize(("seen", "data", "judges"), [(True, 0, True), (False, 0, False), (True, 200, False)])
def test_an_example_that_shows_something_judges_in_place_of_data(seen, data, judges):
    """Noise says nothing of images; and where there is data, that judges."""
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(784, 5)) for _ in range(2)]
    noise = torch.randn(2, 3, 16, 16)
    example = noise.cumsum(2).cumsum(3) if seen else noise
    found = SyntheticInputs.of(models, Arguments.of(example), plain=True, data=data, seed=0, streams=True)
    last = list(found.batches)[-1]
    assert (not last.fits and last.weight > 1) == judges
    assert ("the example judges" in found.chosen) == judges
    assert not found.matching.support
    if judges:
        torch.testing.assert_close(last.run(models[0]), models[0](example))
