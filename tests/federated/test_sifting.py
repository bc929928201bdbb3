"""Broken and hostile replies: each is left out, named, and the round stands."""

import numpy as np
import pytest
import torch
from torch import nn

from federations import LAYOUT, federation, network, trained
from transfuse import Federation, Reply

START = network(seed=7).state_dict()


def honest(count=4):
    return [Reply(number, trained(START, number), 10) for number in range(count)]


def changed(name="0.weight", change=lambda tensor: tensor):
    state = trained(START, 9)
    state[name] = change(state[name].clone())
    return state


def spoiled(value):
    def spoil(tensor):
        tensor.view(-1)[0] = value
        return tensor

    return changed(change=spoil)


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))


HOSTILE = {
    "NaN": (spoiled(float("nan")), "tensor 0.weight holds NaN or infinity"),
    "infinity": (spoiled(float("inf")), "tensor 0.weight holds NaN or infinity"),
    "wrong shape": (changed(change=lambda tensor: tensor[:, :, :2]), "tensor 0.weight axis 2 has length 2, expected 3"),
    "another rank": (changed(change=torch.flatten), "tensor 0.weight has shape"),
    "a missing tensor": ({k: v for k, v in START.items() if k != "3.bias"}, "tensor 3.bias is missing"),
    "another architecture": (Other().state_dict(), "tensor weight is not in the layout"),
    "nothing": ({}, "tensor 0.weight is missing"),
    "weights scaled by a million": ({k: 1e6 * v for k, v in START.items()}, "its weights have a norm of"),
    "one tensor scaled by a million": (changed(change=lambda tensor: 1e6 * tensor), "its weights have a norm of"),
    "a wider network": (network(width=9).state_dict(), "the server's model must be the widest"),
    "whole numbers": (changed(change=lambda tensor: tensor.long()), "holds torch.int64, the server's torch.float32"),
    "words": (changed(change=lambda tensor: np.full(tensor.shape, "a")), "it holds <U1; expected numbers"),
    "objects": ({**START, "0.bias": np.array([None] * 8)}, "it holds object; expected numbers"),
    "a list that is too short": ([np.zeros(3)], "it is a list of 1 arrays"),
}


@pytest.mark.parametrize(("state", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_client_is_left_out_and_the_round_is_that_of_the_others(state, reason):
    start = federation().begun_with(START)
    expected, _ = start.joined(honest())
    for place in (0, 2):
        replies = honest()
        replies.insert(place, Reply("hostile", state, 10))
        after, told = start.joined(replies)
        assert [each.client for each in told.left_out] == ["hostile"]
        line = str(told.left_out[0])
        assert line.startswith("client hostile is left out: ")
        assert reason in line
        assert "\n" not in line
        torch.testing.assert_close(dict(after.state), dict(expected.state), rtol=0, atol=0)


@pytest.mark.parametrize("examples", [0, -3, float("nan"), float("inf"), "many", None])
def test_a_client_with_no_number_of_examples_is_left_out(examples):
    _, told = federation().begun_with(START).joined([*honest(), Reply("odd", START, examples)])
    assert "expected a positive number" in told.left_out[0].reason


def test_a_narrower_client_whose_units_cannot_be_repeated_is_left_out():
    def normed(width):
        return nn.Sequential(nn.Linear(4, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 2))

    start = Federation.of(normed(8), torch.zeros(2, 4))
    replies = [Reply("six", normed(6).state_dict()), Reply("four", normed(4).state_dict())]
    _, told = start.joined(replies)
    assert told.clients == ("four",)
    assert "cannot grow from 6 to 8 units" in told.left_out[0].reason


def test_a_second_reply_of_a_client_is_left_out():
    _, told = federation().begun_with(START).joined([*honest(2), Reply(1, START)])
    assert told.clients == (0, 1)
    assert "replied twice" in told.left_out[0].reason


@pytest.mark.parametrize("replies", [[], [Reply(0, {"a": torch.ones(1)})]])
def test_without_replies_that_count_the_state_stays_and_the_next_round_goes_on(replies):
    start = federation().begun_with(START)
    after, told = start.joined(replies)
    assert after.state is start.state
    assert "0 replies count, fewer than 1; the state stays" in told.status
    assert after.joined(honest())[1].number == 2


def test_fewer_replies_than_asked_for_leave_the_state():
    start = federation(least=3).begun_with(START)
    assert start.joined(honest(2))[0].state is start.state
    assert start.joined(honest(3))[0].state is not start.state


def test_names_of_clients_cannot_write_to_a_terminal():
    _, told = federation().joined([Reply("\x1b[31m\n", {})])
    assert "\x1b" not in str(told)
    assert str(told.left_out[0]).count("\n") == 0


def test_an_outlier_is_left_out_only_if_that_is_wanted():
    far = {name: tensor + 2 * torch.randn(tensor.shape) for name, tensor in START.items()}
    replies = [*honest(), Reply("far", far, 10)]
    assert federation().begun_with(START).joined(replies)[1].left_out == ()
    after, told = federation(beyond=5.0).begun_with(START).joined(replies)
    assert [each.client for each in told.left_out] == ["far"]
    assert "from the median of all" in told.left_out[0].reason
    expected, _ = federation(beyond=5.0).begun_with(START).joined(honest())
    torch.testing.assert_close(dict(after.state), dict(expected.state))


def test_honest_clients_that_differ_alike_are_all_kept():
    _, told = federation(beyond=5.0).joined([Reply(seed, network(seed=seed).state_dict()) for seed in range(5)])
    assert told.left_out == ()


def test_the_layout_is_that_of_the_network():
    assert federation().layout is LAYOUT
