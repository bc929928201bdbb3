"""Recurrent layers taken apart give back what PyTorch computes."""

import pytest
import torch
from torch import nn

from transfuse.activations import observe
from transfuse.activations.recurrence import STEPS

KINDS = {
    "lstm": lambda **options: nn.LSTM(3, 4, **options),
    "gru": lambda **options: nn.GRU(3, 4, **options),
    "rnn_tanh": lambda **options: nn.RNN(3, 4, **options),
    "rnn_relu": lambda **options: nn.RNN(3, 4, nonlinearity="relu", **options),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, True)])
def test_pre_activations_drive_the_hidden_states_that_the_layer_gives(kind, bias, batch_first, layers, both):
    torch.manual_seed(0)
    net = KINDS[kind](bias=bias, batch_first=batch_first, num_layers=layers, bidirectional=both).eval()
    x = torch.randn(5, 2, 3)
    seen = observe(net, lambda model: model(x))
    assert [each.name for each in seen] == [name for name, _ in net.named_parameters() if "weight_hh" in name]
    for each in seen:
        layer = each.recurrence
        assert layer.kind == kind
        assert len(layer.names) == (4 if bias else 2)
        torch.testing.assert_close(layer.driven(each.pre_activations), each.output)
    last = [each.output.flip(0) if number else each.output for number, each in enumerate(seen[-1 - both :])]
    expected = net(x)[0].transpose(0, 1) if batch_first else net(x)[0]
    torch.testing.assert_close(torch.cat(last, -1), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_slopes_are_differences_of_the_states_after_a_step(kind):
    torch.manual_seed(0)
    net, x = KINDS[kind]().double(), torch.randn(5, 2, 3).double()
    (seen,) = observe(net, lambda model: model(x))
    layer, gates, tiny = seen.recurrence, seen.pre_activations.detach(), 1e-6
    found, states = layer.squared_slopes(gates), list(layer.start)
    for step, (gate, own) in enumerate(zip(gates, found, strict=True)):
        after = STEPS[kind](gate, states)
        for sample in range(2):
            for number in range(gate.shape[1]):
                moved = gate.clone()
                moved[sample, number] += tiny
                rise = [(a - b).sum() / tiny for a, b in zip(STEPS[kind](moved, states), after, strict=True)]
                expected = sum(float(each) ** 2 for each in rise)
                assert float(own[sample, number]) == pytest.approx(expected, rel=1e-3, abs=1e-8), step
        states = after


def test_a_given_start_counts():
    net, x = nn.LSTM(3, 4), torch.randn(5, 2, 3)
    start = (torch.randn(1, 2, 4), torch.randn(1, 2, 4))
    (seen,) = observe(net, lambda model: model(x, start))
    torch.testing.assert_close(seen.recurrence.driven(seen.pre_activations), net(x, start)[0])
    torch.testing.assert_close(seen.recurrence.previous(seen.output)[0], start[0][0])


def test_a_sequence_without_a_batch():
    net, x = nn.GRU(3, 4), torch.randn(5, 3)
    (seen,) = observe(net, lambda model: model(x))
    torch.testing.assert_close(seen.output[:, 0], net(x)[0])


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(
    ("net", "x"),
    [
        (nn.LSTM(3, 4, proj_size=2), torch.randn(5, 2, 3)),
        (nn.GRU(3, 4), nn.utils.rnn.pack_padded_sequence(torch.randn(5, 2, 3), [5, 3])),
    ],
)
def test_projections_and_packed_sequences_are_not_seen(net, x):
    assert observe(net, lambda model: model(x)) == []
