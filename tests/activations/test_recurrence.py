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
def test_projections_are_not_seen():
    assert observe(nn.LSTM(3, 4, proj_size=2), lambda model: model(torch.randn(5, 2, 3))) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "both"), [(1, False), (1, True), (2, True)])
def test_packed_sequences_show_what_each_of_them_shows_alone(kind, layers, both):
    torch.manual_seed(0)
    net, lengths = KINDS[kind](num_layers=layers, bidirectional=both).eval(), [2, 5, 3]
    sequences = [torch.randn(length, 3) for length in lengths]
    packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    found = observe(net, lambda model: model(packed))
    alone = [observe(net, lambda model, x=x: model(x)) for x in sequences]
    assert len(found) == layers * (1 + both)
    for number, each in enumerate(found):
        layer, gates = each.recurrence, each.pre_activations
        torch.testing.assert_close(layer.driven(gates), each.output)
        assert len(gates) == sum(lengths)
        order = gates.sum(1).argsort()  # packed rows stand step by step, others sample by sample
        beside = torch.cat([one[number].pre_activations.flatten(0, 1) for one in alone]).sum(1).argsort()
        for show in (lambda one: one.inputs, lambda one: one.output, lambda one: one.pre_activations, _slopes):
            expected = torch.cat([show(one[number]).flatten(0, 1) for one in alone])
            torch.testing.assert_close(show(each)[order], expected[beside])


def _slopes(seen):
    return seen.recurrence.squared_slopes(seen.pre_activations)


CELLS = {
    "lstm": lambda: nn.LSTMCell(3, 4),
    "gru": lambda: nn.GRUCell(3, 4),
    "rnn_tanh": lambda: nn.RNNCell(3, 4, bias=False),
    "rnn_relu": lambda: nn.RNNCell(3, 4, nonlinearity="relu"),
}


class Loop(nn.Module):
    """Goes through sequences [sample, step, features] step by step, two cells at a time, and reads the last state."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.first, self.second = kind, CELLS[kind](), CELLS[kind]()
        self.between, self.last = nn.Linear(4, 3), nn.Linear(4, 2)

    def forward(self, x):
        zeros = x.new_zeros(len(x), 4)
        states = [(zeros, zeros), (zeros, zeros)] if self.kind == "lstm" else [zeros, zeros]
        for step in x.unbind(1):
            states[0] = self.first(step, states[0])
            states[1] = self.second(self.between(self._hidden(states[0])), states[1])
        return self.last(self._hidden(states[1]))

    def _hidden(self, state):
        return state[0] if self.kind == "lstm" else state


@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_in_a_loop_is_seen_as_the_layer_that_it_makes(kind):
    torch.manual_seed(0)
    net, x = Loop(kind).eval(), torch.randn(2, 5, 3)
    found = observe(net, lambda model: model(x))
    assert list(dict.fromkeys(each.name for each in found)) == [
        "first.weight_hh", "between.weight", "second.weight_hh", "last.weight"
    ]  # fmt: skip
    layer = KINDS[kind](bias=net.first.bias, batch_first=True)
    layer.load_state_dict({f"{name}_l0": tensor for name, tensor in net.first.state_dict().items()})
    (expected,) = observe(layer, lambda model: model(x))
    for name in ("inputs", "output", "pre_activations"):
        torch.testing.assert_close(getattr(found[0], name), getattr(expected, name))


def test_each_sequence_that_a_cell_goes_through_is_a_site_of_its_own():
    torch.manual_seed(0)
    cell, x = nn.GRUCell(3, 4), torch.randn(2, 5, 3)

    def run(model):
        for start in (torch.zeros(2, 4), torch.ones(2, 4)):
            state = start
            for step in x.unbind(1):
                state = model(step, state)

    first, second = observe(cell, run)
    assert first.output.shape == second.output.shape == (5, 2, 4)
    torch.testing.assert_close(second.recurrence.start[0], torch.ones(2, 4))
    (one,) = observe(cell, run, only="weight_hh", calls=2)[1:]
    torch.testing.assert_close(one.output, second.output)
