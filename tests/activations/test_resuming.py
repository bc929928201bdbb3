"""A run that goes on from where the last one came to shows what a run shows that is computed from the start."""

from functools import partial

import pytest
import torch
from torch import nn

from transfuse.activations import Replay, observe, replayed
from transfuse.activations.replaying import Memory
from transfuse.modules import tensors_in
from zoo import ZOO, livened, named
from zoo_runs import Convolutions, changed, run, shown


def fitted_through(model, inputs, replay):
    """Go through a network as a correction does: look at each site, from the first to the last, and change it."""
    names = list(dict.fromkeys(key.split()[1] for key in shown(model, inputs)))
    for name in names:
        for _ in range(2):
            one = shown(model, inputs, replay=replay, only=name, calls=1)
            torch.testing.assert_close(one, shown(model, inputs, only=name, calls=1), rtol=0, atol=0)
        changed(dict(model.named_parameters())[name])
        one, other = (tensors_in(replayed(model, partial(run, inputs), each)) for each in (replay, Replay()))
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    torch.testing.assert_close(shown(model, inputs, replay=replay), shown(model, inputs), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", [pytest.param(row.name, marks=[pytest.mark.long] * (number % 3 > 0)) for number, row in
                                  enumerate(ZOO)])  # fmt: skip
def test_networks_show_the_same_when_they_are_gone_through(name):
    torch.manual_seed(0)
    fitted_through(livened(named(name).build()).eval(), named(name).inputs(), Replay())


def test_what_comes_before_a_site_is_not_computed(monkeypatch):
    model, x, replay = livened(Convolutions()).eval(), torch.randn(5, 2, 4, 4), Replay()
    called = []
    plain = Replay.result
    monkeypatch.setattr(
        Replay, "result", lambda self, make: plain(self, lambda: called.append(make.func.__name__) or make())
    )
    for name, expected in (
        ("one.weight", ["conv2d"]),
        ("two.weight", ["conv2d", "conv2d"]),
        ("last.weight", ["conv2d", "pooled", "linear"]),
        ("last.weight", ["linear"]),
    ):
        called.clear()
        observe(model, lambda each: each(x.clone()), only=name, calls=1, replay=replay)
        assert called == expected


@pytest.mark.parametrize("room", [0, 1000, 2000])
def test_without_room_it_begins_from_the_start(room):
    model, x, memory = livened(Convolutions()).eval(), torch.randn(5, 2, 4, 4), Memory(room)
    replay = Replay(memory)
    fitted_through(model, x, replay)
    kept = sum(tensor.nbytes for tensor in replay.results)
    assert memory.left == room - kept - replay.resumption.bytes >= 0


class Layers(nn.Module):
    """Three layers, and what some networks do between them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.shift, self.runs = torch.linspace(0, 1, 4), 0

    def forward(self, x):
        for layer in self.layers:
            x = self.between(layer(x))
        return x


class Branching(Layers):
    def between(self, x):
        return x.relu() if x.mean() > 0 else x.tanh()


class Reading(Layers):
    def between(self, x):
        return x * float(x.abs().max())


class Outside(Layers):
    def between(self, x):
        return torch.from_numpy(x.numpy() + 1)


class Scripted(Layers):
    def __init__(self):
        super().__init__()
        self.script = torch.jit.script(nn.Tanh())

    def between(self, x):
        return self.script(x)


class ScriptedSkip(Scripted):
    def forward(self, x):
        x = self.layers[0](x)
        y = self.script(x)
        x = self.layers[2](self.layers[1](x.relu()).relu())
        return x + y


class ScriptedEnd(Scripted):
    def forward(self, x):
        return self.script(self.layers[0](x)) * self.layers[2](self.layers[1](x).relu()).relu().sum()


class Attribute(Layers):
    def between(self, x):
        return x.tanh() + self.shift


class Drawing(Layers):
    def between(self, x):
        return nn.functional.dropout(x, 0.5, training=True)


class Transposing(Layers):
    def between(self, x):
        return (x.T.relu() + 1).T


class HiddenWrite(Layers):
    def between(self, x):
        y = x.tanh()
        y.data += 1
        return y + x


class Skipping(nn.Module):
    """The first of what is given is used at the end, and written to on the way."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        first = self.layers[0](x)
        second = self.layers[1](first.relu())
        first += second
        third = self.layers[2](second).relu_()
        third[:, 0] = 1.0
        return {"out": self.layers[3](torch.cat([third[:, :2], first.chunk(2, 1)[1]], 1)).max(1).values}


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
@pytest.mark.parametrize(
    "build",
    [
        Branching,
        Reading,
        Outside,
        Scripted,
        ScriptedSkip,
        ScriptedEnd,
        Attribute,
        Drawing,
        Transposing,
        HiddenWrite,
        Skipping,
    ],
)
def test_numbers_that_mean_nothing_never_get_out(build):
    torch.manual_seed(0)
    model = livened(build()).eval()

    class Seeded(nn.Module):
        """Draws the same numbers in every run, as batches have networks do."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            torch.manual_seed(1)
            return self.model(x)

    fitted_through(Seeded(), torch.randn(5, 4), Replay())


def test_a_network_that_goes_another_way_the_next_time_is_run_from_the_start():
    class Counting(Layers):
        def between(self, x):
            self.runs += 1
            return x.relu() if self.runs <= 2 else x.tanh()

    torch.manual_seed(0)
    model, x, replay = Counting().eval(), torch.randn(5, 4), Replay()
    for _ in range(2):
        model.runs = 0
        observe(model, lambda each: each(x.clone()), only="layers.2.weight", calls=1, replay=replay)
    assert replay.resumption.possible
    model.runs = 2
    again = observe(model, lambda each: each(x.clone()), only="layers.2.weight", calls=1, replay=replay)
    model.runs = 4
    plain = observe(model, lambda each: each(x.clone()), only="layers.2.weight", calls=1)
    torch.testing.assert_close(again[0].inputs, plain[0].inputs, rtol=0, atol=0)
    assert not replay.resumption.possible
