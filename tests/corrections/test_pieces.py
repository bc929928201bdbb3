"""Which sequences of a recurrent layer a costly fit goes by."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from transfuse.activations import Batches, observe
from transfuse.corrections import pieces
from transfuse.corrections.pieces import cut, few_sequences
from transfuse.corrections.task import Sample

STEPS, UNITS, INPUTS = 5, 4, 3


def sample(batch, count=10, seed=0):
    """What a batch of sequences shows of an LSTM that starts anywhere."""
    torch.manual_seed(seed)
    net = nn.LSTM(INPUTS, UNITS).double().eval()
    x, start = (
        torch.randn(STEPS, count, INPUTS).double(),
        tuple(torch.randn(1, count, UNITS).double() for _ in range(2)),
    )
    (own,) = observe(net, lambda model: model(x, start))
    return Sample(own, own.pre_activations.detach(), batch)


def shown(*weights, count=10):
    """Samples of batches whose samples count so much; the last one judges."""
    first = next(iter(Batches.of([torch.zeros(1)])))
    judging = len(weights) - 1
    every = [sample(replace(first, fits=number != judging, judges=number == judging, weight=weight), count, seed=number)
             for number, weight in enumerate(weights)]  # fmt: skip
    return lambda *, which=lambda batch: True: (each for each in every if which(each.batch))


def weights_of(samples):
    return [each.batch.weight for each in samples]


def few(samples, **options):
    return few_sequences(samples)[0](**options)


def test_a_share_of_the_sequences_is_spread_over_the_batch_and_counts_for_all_of_it():
    (whole,) = shown(0.5)()
    assert cut(whole, 1.0) is whole
    some = cut(whole, 0.3)
    torch.testing.assert_close(some.own.inputs, whole.own.inputs[:, [0, 4, 9]])
    torch.testing.assert_close(some.own.recurrence.driven(some.target), whole.own.output[:, [0, 4, 9]])
    assert some.batch.weight * some.target.shape[1] == pytest.approx(0.5 * 10)


def test_what_counts_little_beside_data_is_left_out_where_it_would_fit_but_judges():
    many = shown(1.0, 1.0, 0.1, 0.1)
    assert weights_of(few(many)) == [1.0, 1.0, 0.1]
    assert weights_of(few(many, which=lambda batch: batch.fits)) == [1.0, 1.0]


def test_beside_little_data_everything_counts():
    assert weights_of(few(shown(1.0, 0.1, 0.1, 0.1))) == [1.0, 0.1, 0.1, 0.1]
    assert weights_of(few(shown(0.1, 0.1))) == [0.1, 0.1]


def test_no_more_products_are_made_than_can_be_afforded(monkeypatch):
    samples = shown(1.0, 1.0, 1.0, count=20)
    each = STEPS * 4 * UNITS * (2 * UNITS + INPUTS)  # of one sequence: gates with states before, inputs, and changes
    monkeypatch.setattr(pieces, "PRODUCTS", 16 * each)
    left = list(few(samples))
    assert [one.target.shape[1] for one in left] == [8, 8, 8]
    assert weights_of(left) == pytest.approx([2.5] * 3)


@pytest.mark.parametrize(("sequences", "expected"), [(16, False), (100, True)])
def test_a_part_of_the_sequences_says_whether_it_is_many_beside_the_features(sequences, expected, monkeypatch):
    samples = shown(1.0, 1.0, 1.0, count=100)
    assert few_sequences(samples)[1], "all of them are always worth while"
    monkeypatch.setattr(pieces, "PRODUCTS", sequences * STEPS * 4 * UNITS * (2 * UNITS + INPUTS))
    assert few_sequences(samples)[1] is expected
