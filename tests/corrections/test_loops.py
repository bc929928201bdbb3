"""A recurrent layer is fitted alike however it is written: as a layer, packed, as a cell or a matrix in a loop."""

import pytest
import torch
from torch import nn

import transfuse
from transfuse.activations import observe

UNITS, FEATURES, STEPS = 12, 5, 7
X = torch.randn(120, STEPS, FEATURES, generator=torch.Generator().manual_seed(0)).double()


class Layer(nn.Module):
    """The layer of PyTorch, of which the last state is read."""

    def __init__(self, kind="LSTM"):
        super().__init__()
        self.rnn = getattr(nn, kind)(FEATURES, UNITS, batch_first=True)
        self.last = nn.Linear(UNITS, 3)

    def forward(self, x):
        return self.last(self.rnn(x)[0][:, -1])


class Packed(Layer):
    """The same, given sequences that are packed, all of one length."""

    def forward(self, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.full((len(x),), x.shape[1]), batch_first=True)
        state = self.rnn(packed)[1]
        return self.last((state[0] if isinstance(state, tuple) else state)[-1])


class Cell(nn.Module):
    """A cell of PyTorch in a loop."""

    def __init__(self, kind="LSTM"):
        super().__init__()
        self.rnn = getattr(nn, f"{kind}Cell")(FEATURES, UNITS)
        self.last = nn.Linear(UNITS, 3)

    def forward(self, x):
        state = None
        for step in x.unbind(1):
            state = self.rnn(step, state)
        return self.last(state[0] if isinstance(state, tuple) else state)


class Matrix(nn.Module):
    """One matrix for input and state in a loop, as in the tutorials of PyTorch."""

    def __init__(self):
        super().__init__()
        self.hidden_size = UNITS
        self.i2h = nn.Linear(FEATURES + UNITS, UNITS)
        self.last = nn.Linear(UNITS, 3)

    def forward(self, x):
        hidden = x.new_zeros(x.size(0), self.hidden_size)
        for step in range(x.size(1)):
            hidden = torch.tanh(self.i2h(torch.cat((x[:, step], hidden), 1)))
        return self.last(hidden)


class TwoMatrices(nn.Module):
    """An LSTM by hand: what two matrices give is added."""

    def __init__(self):
        super().__init__()
        self.wx, self.wh = nn.Linear(FEATURES, 4 * UNITS), nn.Linear(UNITS, 4 * UNITS, bias=False)
        self.last = nn.Linear(UNITS, 3)

    def forward(self, x):
        hidden = cell = x.new_zeros(len(x), UNITS)
        for step in x.unbind(1):
            into, forget, new, out = (self.wx(step) + self.wh(hidden)).chunk(4, 1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(into) * torch.tanh(new)
            hidden = torch.sigmoid(out) * torch.tanh(cell)
        return self.last(hidden)


def layer(seed, kind="LSTM"):
    torch.manual_seed(seed)
    model = Layer(kind).double().eval()
    with torch.no_grad():
        for tensor in model.rnn.parameters():
            tensor.mul_(2.0)
    return model


def packed(model, kind="LSTM"):
    found = Packed(kind).double().eval()
    found.load_state_dict(model.state_dict())
    return found


def cell(model, kind="LSTM"):
    found = Cell(kind).double().eval()
    found.load_state_dict({name.removesuffix("_l0"): tensor for name, tensor in model.state_dict().items()})
    return found


def matrix(model, kind="RNN"):
    found, rnn = Matrix().double().eval(), model.rnn
    with torch.no_grad():
        found.i2h.weight.copy_(torch.cat([rnn.weight_ih_l0, rnn.weight_hh_l0], 1))
        found.i2h.bias.copy_(rnn.bias_ih_l0 + rnn.bias_hh_l0)
    found.last.load_state_dict(model.last.state_dict())
    return found


def two_matrices(model, kind="LSTM"):
    found, rnn = TwoMatrices().double().eval(), model.rnn
    with torch.no_grad():
        found.wx.weight.copy_(rnn.weight_ih_l0)
        found.wx.bias.copy_(rnn.bias_ih_l0 + rnn.bias_hh_l0)
        found.wh.weight.copy_(rnn.weight_hh_l0)
    found.last.load_state_dict(model.last.state_dict())
    return found


def corrected(models, method):
    return transfuse.fuse(models, X[:3], data=X, terms="weights", correct=method)


def distance(model, models):
    with torch.no_grad():
        mean = torch.stack([each(X) for each in models]).mean(0)
        return float((model(X) - mean).square().sum() / mean.square().sum())


WRITTEN = [("RNN", matrix)]
MORE = [("LSTM", cell), ("LSTM", packed), ("GRU", packed), ("GRU", cell), ("RNN", cell)]
SLOW = [pytest.param(*each, marks=pytest.mark.long) for each in MORE]


@pytest.mark.parametrize("method", ["selection", pytest.param("refit", marks=pytest.mark.long)])
@pytest.mark.parametrize(("kind", "written"), [*WRITTEN, *SLOW])
def test_the_layer_is_fitted_as_one_of_pytorch_is(kind, written, method):
    models = [layer(0, kind), layer(1, kind)]
    others = [written(each, kind) for each in models]
    with torch.no_grad():
        torch.testing.assert_close(others[0](X), models[0](X))
    expected, found = corrected(models, method), corrected(others, method)
    # Not the same: which couplings are found first, and which samples are looked at, go by names and the order of rows.
    assert distance(found.model, models) < 1.5 * distance(expected.model, models)
    assert distance(found.model, models) < 0.5 * distance(corrected(others, "none").model, models)
    assert list(found.correction.kept.values()) == list(expected.correction.kept.values())


def test_what_two_matrices_give_together_is_no_stream():
    models = [two_matrices(layer(0)), two_matrices(layer(1))]
    found, before = corrected(models, "selection"), corrected(models, "none")
    assert sum(found.correction.kept["wx.out"]) == UNITS
    assert distance(found.model, models) < 0.5 * distance(before.model, models)
    with torch.no_grad():
        sites = {seen.name: seen for seen in observe(models[0], lambda model: model(X[:2]))}
    assert sites["wh.weight"].joint


def test_what_is_forced_is_what_the_loop_goes_on_with():
    model, forced = matrix(layer(0, "RNN")), torch.randn(STEPS, 2, UNITS).double()
    seen = observe(model, lambda each: each(X[:2]), only="i2h.weight", calls=STEPS, forced=list(forced))
    torch.testing.assert_close(torch.stack([each.output for each in seen]), forced)
    read = torch.stack([each.inputs[:, FEATURES:] for each in seen])
    torch.testing.assert_close(read, torch.cat([torch.zeros_like(forced[:1]), forced[:-1].tanh()]))
