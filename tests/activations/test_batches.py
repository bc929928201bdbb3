"""Every kind of data gives the same batches again and again, or a clear error."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from transfuse.activations import Batches
from transfuse.errors import InputError

X = torch.randn(23, 3, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(23)
NET = nn.Linear(3, 2)


class Named(nn.Module):
    def forward(self, x, scale):
        return x * scale


def ran(batches, model=NET):
    return [batch.run(model).detach() for batch in batches]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (X, 5),
        ((X, LABELS), 5),
        ([X[:10], X[10:]], 2),
        ([(X[:10], LABELS[:10]), (X[10:], LABELS[10:])], 2),
        ([[X[:10]], [X[10:]]], 2),
        (DataLoader(TensorDataset(X, LABELS), batch_size=6), 4),
        ((batch for batch in X.split(8)), 3),
        (iter([X]), 1),
        (X[:3], 1),
        (X[:1], 1),
    ],
)
def test_all_samples_come_each_time(data, count):
    batches = Batches.of(data)
    once, again = ran(batches), ran(batches)
    assert len(once) == batches.count == count
    torch.testing.assert_close(torch.cat(once), torch.cat(again), rtol=0, atol=0)
    samples = sum(map(len, once))
    torch.testing.assert_close(torch.cat(once), NET(X[:samples]).detach())
    assert samples in (1, 3, 23)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (torch.zeros(1000, 3), 10),
        (torch.zeros(1000, 3, 4), 10),
        (torch.zeros(1000, 1, 2, 2), 20),
        (torch.zeros(1000, 1, 2, 2, 2), 20),
        ({"rows": torch.zeros(1000, 3), "images": torch.zeros(1000, 1, 2, 2)}, 20),
    ],
)
def test_images_come_in_smaller_batches(data, count):
    assert (Batches.of(data).count, Batches.of(data, size=500).count) == (count, 5)


def test_a_dict_holds_keyword_arguments():
    batches = Batches.of({"x": X, "scale": 2 * torch.ones(23, 1)}, size=4)
    assert batches.count == 6
    torch.testing.assert_close(torch.cat(ran(batches, Named())), 2 * X)
    listed = Batches.of([{"x": X, "scale": 3.0}])
    torch.testing.assert_close(ran(listed, Named())[0], 3 * X)


def test_forward_runs_what_is_odd():
    batches = Batches.of([{"image": X, "name": "a"}], forward=lambda model, batch: model(batch["image"]))
    torch.testing.assert_close(ran(batches)[0], NET(X).detach())


def test_batches_are_batches():
    batches = Batches.of(X)
    assert Batches.of(batches) is batches


def test_a_loader_that_shuffles_gives_the_same_each_time_and_leaves_random_states_alone():
    loader = DataLoader(TensorDataset(X), batch_size=5, shuffle=True)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    batches = Batches.of(loader)
    one, other = torch.cat(ran(batches)), torch.cat(ran(batches))
    assert torch.equal(one, other)
    assert not torch.equal(one, NET(X))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.array_equal(np.random.get_state()[1], before[2])


@pytest.mark.parametrize(("count", "judges"), [(1, [0]), (2, [1]), (4, [3]), (5, [4]), (12, [4, 9])])
def test_some_batches_judge_and_the_others_fit(count, judges):
    batches = list(Batches.of([X] * count))
    assert [number for number, batch in enumerate(batches) if batch.judges] == judges
    assert all(batch.fits != batch.judges for batch in batches) or count == 1
    assert batches[0].fits


def test_one_more_judges_as_much_as_all_that_do_and_nothing_is_learnt_from_it():
    own = Batches.of(torch.zeros(500, 3))
    *before, judge = own.judged_by(torch.ones(4, 3))
    assert [(each.fits, each.judges, each.weight) for each in before] == [(each.fits, each.judges, 1.0) for each in own]
    assert (judge.fits, judge.judges) == (False, True)
    assert judge.weight * judge.samples == sum(each.samples for each in own if each.judges)
    assert torch.equal(judge.run(nn.Identity()), torch.ones(4, 3))


def test_a_network_that_writes_to_its_inputs_does_not_change_the_data():
    data = X.clone()
    ran(Batches.of([data]), nn.ReLU(inplace=True))
    assert torch.equal(data, X)


class Once:
    """Can be gone through once, and does not say so."""

    def __init__(self):
        self.batches = iter([X, X])

    def __iter__(self):
        return self.batches


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([], "no batches"),
        (iter([]), "exhausted"),
        ((), "no batches"),
        (X[:0], "no samples: it is Tensor of shape (0, 3)"),
        (torch.tensor(1.0), "no samples"),
        (3, "data is 3; expected tensors, an iterable"),
        (TensorDataset(X), "data is a TensorDataset"),
        ({"x": X, "scale": X[:2]}, "different numbers of samples: {'x': 23, 'scale': 2}"),
        ({"x": X, "scale": 2.0}, "no samples in {'scale': 'float'}"),
        (("text",), "it is str"),
    ],
)
def test_what_is_no_data_is_refused(data, text):
    with pytest.raises(InputError) as error:
        Batches.of(data)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([X, X[:, :2]], "Linear does not run on batch 2 of the data (RuntimeError"),
        ([object()], "a batch of data is object"),
        (["text"], "a batch of data is str"),
        ([{"x": X}], "does not run on batch 1 of the data (TypeError"),
        (Once(), "2 batches the first time and 0 now"),
    ],
)
def test_what_a_network_does_not_run_on_is_refused(data, text):
    with pytest.raises(InputError) as error:
        ran(Batches.of(data))
    assert text in str(error.value)


@pytest.mark.parametrize("made", [iter, lambda data: data], ids=["iterator", "loader"])
def test_an_error_of_the_users_own_loader_keeps_its_type_and_says_where_it_came_from(made):
    class Loader:
        def __iter__(self):
            yield X
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        Batches.of(made(Loader()))
    assert "raised by the data that were passed" in caught.value.__notes__[0]


def test_inputs_of_a_batch_are_varied_and_nothing_else():
    x, labels = torch.randn(4, 3), torch.arange(4)
    for content, inputs in (
        (x, lambda content: content),
        ((x, labels), lambda content: content[0]),
        ([x, labels], lambda content: content[0]),
        ({"x": x, "mask": labels}, lambda content: content["x"]),
    ):
        (batch,) = Batches.of([content])
        found = batch.varied(lambda values: values + 1)
        assert type(found.content) is type(content)
        torch.testing.assert_close(inputs(found.content), x + 1)
        assert inputs(batch.content) is x
        assert isinstance(content, torch.Tensor) or len(found.content) == 2


def test_a_batch_whose_input_is_not_known_is_not_varied():
    two = {"x": torch.randn(2, 3), "y": torch.randn(2, 3)}
    tokens = {"ids": torch.zeros(2, 3, dtype=torch.long)}
    for content in (two, tokens, "text"):
        (batch,) = Batches.of([content], forward=lambda model, batch: batch)
        assert batch.varied(lambda values: values + 1) is batch


def test_a_second_input_that_is_not_passed_on_is_told_with_what_to_do():
    pair = nn.Bilinear(4, 4, 2)
    batches = Batches.of([(torch.randn(5, 4), torch.randn(5, 4))])
    with pytest.raises(InputError, match=r"of a tuple or list the first element.*a dict of keyword arguments"):
        next(iter(batches)).run(pair)
    x = torch.randn(1, 4)
    torch.testing.assert_close(next(iter(Batches.of({"input1": x, "input2": x}))).run(pair), pair(x, x))
