"""A run that is replayed shows what a run shows that is computed, whatever has changed in between."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from transfuse.activations import Replay, observe, replayed
from transfuse.activations.replaying import Memory
from zoo import ZOO, livened, named
from zoo_runs import Convolutions, changed, run, shown


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", [row.name for row in ZOO][1::4])
def test_a_replay_shows_what_the_network_computes_after_each_change(name):
    torch.manual_seed(0)
    model, inputs = livened(named(name).build()).eval(), named(name).inputs()
    replay = Replay()
    sites = shown(model, inputs)
    torch.testing.assert_close(shown(model, inputs, replay=replay), sites, rtol=0, atol=0)
    torch.testing.assert_close(shown(model, inputs, replay=replay), sites, rtol=0, atol=0)
    names = [key.split()[1] for key in sites]
    for number, tensor in enumerate(each for each in model.parameters() if each.is_floating_point()):
        changed(tensor)
        only = {"only": names[number % len(names)], "calls": 1} if number % 2 and names else {}
        torch.testing.assert_close(
            shown(model, inputs, replay=replay, **only), shown(model, inputs, **only), rtol=0, atol=0
        )


def test_only_what_comes_after_a_change_is_computed_again(monkeypatch):
    model, x, replay = livened(Convolutions()).eval(), torch.randn(5, 2, 4, 4), Replay()
    computed = []
    result = Replay.result
    monkeypatch.setattr(
        Replay, "result", lambda self, make: result(self, lambda: computed.append(make.func.__name__) or make())
    )
    for change, expected in (
        # Twice, for it writes to what it gets: there are copies from then on.
        (None, 2 * ["conv2d", "conv2d", "pooled", "linear"]),
        (None, []),
        (model.last.bias, ["linear"]),
        (model.norm.running_mean, ["pooled", "linear"]),
        (model.two.weight, ["conv2d", "pooled", "linear"]),
        (model.one.bias, ["conv2d", "conv2d", "pooled", "linear"]),
    ):
        if change is not None:
            changed(change)
        computed.clear()
        torch.testing.assert_close(shown(model, x, replay=replay), shown(model, x), rtol=0, atol=0)
        assert computed == expected


@pytest.mark.parametrize("room", [0, 400, 2000])
def test_what_there_is_no_room_for_is_computed_again(room):
    model, x, memory = livened(Convolutions()).eval(), torch.randn(5, 2, 4, 4), Memory(room)
    replays = [Replay(memory), Replay(memory)]
    for change in (model.last.bias, model.two.weight):
        changed(change)
        for replay in replays:
            torch.testing.assert_close(shown(model, x, replay=replay), shown(model, x), rtol=0, atol=0)
            kept = sum(tensor.nbytes for each in replays for tensor in each.results)
            assert memory.left == room - kept >= 0


def test_what_nobody_writes_to_is_not_copied():
    model, x, replay = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), torch.randn(5, 3), Replay()
    first, second = observe(model, partial(run, x), replay=replay), observe(model, partial(run, x), replay=replay)
    assert all(kept.result is one.output is other.output
               for kept, one, other in zip(replay.results, first, second, strict=True))  # fmt: skip
    assert not replay.memory.written


def through_data(x):
    x.data.mul_(0.5)
    return x


def through_an_array(x):
    x.numpy()[:] *= 0.5
    return x


def through_new_memory(x):
    x.data = 0.5 * x
    return x


@pytest.mark.parametrize("write", [through_data, through_an_array, through_new_memory])
def test_writes_that_are_not_counted_do_not_spoil_what_is_kept(write):
    class Writing(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(3, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.two(write(self.one(x)))

    model, x = Writing(), torch.randn(5, 3)
    expected, replay, other = shown(model, x), Replay(), Replay()
    for _ in range(3):
        torch.testing.assert_close(shown(model, x, replay=replay), expected, rtol=0, atol=0)
        for kept in (replay, other):
            found = replayed(model, partial(run, x), kept)
            torch.testing.assert_close(found, expected["1 two.weight out"], rtol=0, atol=0)


@pytest.mark.parametrize("where", ["first", "second", "both"])
def test_what_is_written_to_at_times_only_is_right_each_time(where):
    class Moody(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.calls = nn.Linear(3, 4), nn.Linear(4, 4), 0

        def forward(self, x):
            self.calls += 1
            x, odd = self.one(x), self.calls % 2
            x = x.relu_() if odd or where == "both" else x.relu()
            x = self.two(x)
            return x.mul_(2.0) if not odd or where != "first" else x * 2.0

    model, x, replay = Moody(), torch.randn(5, 3), Replay()
    expected = shown(model, x)
    for _ in range(5):
        torch.testing.assert_close(shown(model, x, replay=replay), expected, rtol=0, atol=0)
    assert replay.memory.written


def test_tensors_whose_writes_are_not_counted_are_taken_for_changed():
    with torch.inference_mode():
        model, x, replay = copy.deepcopy(livened(Convolutions()).eval()), torch.randn(5, 2, 4, 4), Replay()
        for tensor in (model.last.bias, model.two.weight, model.one.weight):
            tensor += 1.0
            torch.testing.assert_close(shown(model, x, replay=replay), shown(model, x), rtol=0, atol=0)


def test_a_layer_that_is_replaced_is_computed_again():
    model, x, replay = livened(Convolutions()).eval(), torch.randn(5, 2, 4, 4), Replay()
    shown(model, x, replay=replay)
    model.two.bias = nn.Parameter(torch.ones(4))
    torch.testing.assert_close(shown(model, x, replay=replay), shown(model, x), rtol=0, atol=0)
