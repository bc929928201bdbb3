"""A federation: rounds, warm starts, clients of other widths, and what the server does with broken replies."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import transfuse
from federations import LAYOUT, X, federation, network, normed, trained
from transfuse import Federation, InputError, Reply
from transfuse.layout import random_elements
from zoo_problems import another, layout_of, states_of

STATISTICS = ("running_mean", "running_var")


def outputs(state, width=8):
    net = network(width)
    net.load_state_dict(dict(state))
    return net(X).detach()


def shuffled(state, seed):
    elements = random_elements(LAYOUT, LAYOUT.widths(state), np.random.default_rng(seed), symmetries=False)
    return transfuse.permute(state, LAYOUT, elements)


def test_vanilla_is_the_average_by_examples():
    start = federation(method="vanilla")
    states = [network(seed=seed).state_dict() for seed in (1, 2)]
    after, told = start.joined([Reply(0, states[0], 30), Reply(1, states[1], 10)])
    expected = {name: 0.75 * states[0][name] + 0.25 * states[1][name] for name in states[0]}
    torch.testing.assert_close(dict(after.state), expected)
    assert told.clients == (0, 1)
    assert "2 of 2 clients fused by vanilla" in told.status


def test_clients_in_other_orders_give_the_network_back():
    own = network(seed=1).state_dict()
    after, _ = federation().joined([Reply(seed, shuffled(own, seed)) for seed in range(4)])
    torch.testing.assert_close(outputs(after.state), outputs(own), rtol=1e-4, atol=1e-5)


def test_the_first_round_matches_different_initialisations_as_fuse_states_does():
    states = [network(seed=seed).state_dict() for seed in (1, 2, 3)]
    after, told = federation().joined([Reply(seed, state) for seed, state in enumerate(states)])
    expected = transfuse.fuse_states(states, LAYOUT)
    torch.testing.assert_close(dict(after.state), dict(expected.state))
    assert told.details["objective"] == pytest.approx(expected.history[-1].objective)
    assert told.details["moved"] > 0.3


def test_later_rounds_start_where_the_clients_are_and_keep_the_order_of_the_server():
    first, _ = federation().joined([Reply(seed, network(seed=seed).state_dict()) for seed in (1, 2, 3)])
    replies = [Reply(seed, trained(first.sent_to(seed), seed, size=1e-3)) for seed in (1, 2, 3)]
    second, told = first.joined(replies)
    assert told.details["moved"] == 0
    torch.testing.assert_close(outputs(second.state), outputs(first.state), rtol=0, atol=0.02)
    assert told.fused.weights[0] == 0


def test_a_client_that_goes_on_with_its_own_order_is_matched_from_its_last_reply():
    own = network(seed=1).state_dict()
    moved = shuffled(own, 5)
    first, _ = federation().joined([Reply(0, own), Reply(1, moved)])
    second, told = first.joined([Reply(0, trained(own, 1, size=1e-3)), Reply(1, trained(moved, 2, size=1e-3))])
    torch.testing.assert_close(outputs(second.state), outputs(own), rtol=0, atol=0.05)
    assert told.details["moved"] == pytest.approx(first.joined([Reply(0, own), Reply(1, moved)])[1].details["moved"])


def test_a_late_joiner_in_another_order_is_matched():
    own = network(seed=1).state_dict()
    first, _ = federation().joined([Reply(seed, own) for seed in range(2)])
    second, _ = first.joined(
        [*(Reply(seed, first.sent_to(seed)) for seed in range(2)), Reply("late", shuffled(own, 3))]
    )
    torch.testing.assert_close(outputs(second.state), outputs(own), rtol=1e-3, atol=1e-4)


def test_a_narrower_client_gets_its_width_and_its_units_keep_their_meaning():
    narrow = network(width=4, seed=1).state_dict()
    start = federation()
    first, told = start.joined([Reply("narrow", narrow), Reply("wide", network(seed=2).state_dict())])
    assert told.details["narrower"] == 1
    sent = first.sent_to("narrow")
    assert {name: tensor.shape for name, tensor in sent.items()} == {k: v.shape for k, v in narrow.items()}
    second, _ = first.joined([Reply("narrow", sent), Reply("wide", first.sent_to("wide"))])
    before, after = (each.clients["narrow"].sent for each in (first, second))
    assert before is after
    assert first.sent_to("wide") is first.state


def test_a_narrow_client_alone_is_carried_up_and_down_without_loss():
    narrow = network(width=4, seed=1).state_dict()
    after, _ = federation().joined([Reply("narrow", narrow)])
    torch.testing.assert_close(outputs(after.state), outputs(narrow, 4), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(outputs(after.sent_to("narrow"), 4), outputs(narrow, 4), rtol=1e-4, atol=1e-5)


def test_with_rematch_a_narrow_client_follows_its_last_reply():
    narrow = network(width=4, seed=1).state_dict()
    first, _ = federation(rematch=True).joined([Reply("narrow", narrow), Reply("wide", network(seed=2).state_dict())])
    again = trained(narrow, 1, size=1.0)
    second, _ = first.joined([Reply("narrow", again), Reply("wide", first.state)])
    assert second.clients["narrow"].sent is second.clients["narrow"].found


def test_clients_that_keep_their_statistics_leave_the_servers_alone():
    start = Federation.of(normed(), X, may_lack=STATISTICS)
    replies = [
        Reply(seed, {name: each for name, each in normed(seed).state_dict().items() if not name.endswith(STATISTICS)})
        for seed in (1, 2)
    ]
    after, told = start.joined(replies)
    assert told.clients == (1, 2)
    assert after.state.keys() == start.state.keys()
    torch.testing.assert_close(after.state["1.running_var"], start.state["1.running_var"])
    again, told = after.joined(replies)
    assert told.clients == (1, 2)
    assert not torch.equal(again.state["0.weight"], start.state["0.weight"])


def test_a_correction_on_the_server_brings_outputs_nearer_to_the_clients_mean():
    states = [network(seed=seed).state_dict() for seed in (1, 2)]
    replies = [Reply(seed, state) for seed, state in enumerate(states)]
    mean = sum(outputs(state) for state in states) / 2
    plain, told = federation(correct="refit", data=X).joined(replies)
    assert "correction: refit" in told.status
    bare, _ = federation().joined(replies)
    assert (outputs(plain.state) - mean).norm() < (outputs(bare.state) - mean).norm()


def test_a_correction_is_made_until_some_round():
    start = federation(correct="refit", correct_until=1, data=X)
    replies = [Reply(seed, network(seed=seed).state_dict()) for seed in (1, 2)]
    after, first = start.joined(replies)
    _, second = after.joined(replies)
    assert "correction: refit" in first.status
    assert "correction" not in second.status


def test_what_cannot_be_corrected_stands_uncorrected_and_says_so():
    _, told = federation(correct="refit").joined([Reply(0, network(seed=1).state_dict())])
    assert "not corrected: one client has no mean" in told.status


def test_a_network_in_which_nothing_moves_is_averaged():
    net = nn.Linear(64, 3)
    start = Federation.of(net, torch.zeros(2, 64))
    other = {name: tensor + 1 for name, tensor in net.state_dict().items()}
    after, told = start.joined([Reply(0, net.state_dict()), Reply(1, other)])
    torch.testing.assert_close(after.state["weight"], net.weight.detach() + 0.5)
    assert "no unit of this network can move" in told.status


def test_a_method_that_fails_leaves_the_plain_average():
    replies = [Reply(0, network(width=4, seed=1).state_dict()), Reply(1, network(seed=2).state_dict())]
    after, told = federation(method="fedma").joined(replies)
    assert "plain average, for fedma failed" in told.status
    assert all(bool(tensor.isfinite().all()) for tensor in after.state.values())


def test_inputs_are_not_changed():
    net, replies = network(), [Reply(seed, network(seed=seed).state_dict()) for seed in (1, 2)]
    before = copy.deepcopy([net.state_dict(), *(reply.state for reply in replies)])
    start = Federation.of(net, X, layout=LAYOUT)
    start.joined(replies)[0].joined(replies)
    after = [net.state_dict(), *(reply.state for reply in replies)]
    torch.testing.assert_close([dict(each) for each in after], [dict(each) for each in before], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(method="average"), "no method is called 'average'"),
        (dict(method="activation"), "clients send weights alone"),
        (dict(options={"restart": 1}), "no option is called 'restart'"),
        (dict(correct="perfect"), "correct is 'perfect'"),
        (dict(correct="batchnorm"), "no batch norm"),
        (dict(least=0), "least is 0"),
        (dict(beyond=-1.0), "beyond is -1.0"),
        (dict(may_lack="bias"), "may_lack is 'bias'"),
    ],
)
def test_what_cannot_be_is_refused_before_the_first_round(wrong, message):
    with pytest.raises(InputError, match=message):
        federation(**wrong)


def test_a_state_of_other_widths_cannot_be_begun_with():
    with pytest.raises(InputError, match="other widths"):
        federation().begun_with(network(width=4).state_dict())


def test_rounds_of_networks_whose_streams_rotate():
    layout, states = layout_of("transformer_pre_norm"), states_of("transformer_pre_norm", 3)
    start = Federation.of(another("transformer_pre_norm", 5), layout=layout)
    first, told = start.joined([Reply(number, state) for number, state in enumerate(states)])
    assert "plain average" not in told.status
    second, told = first.joined([Reply(number, first.sent_to(number)) for number in range(3)])
    assert "plain average" not in told.status
    _, told = second.joined([Reply(0, second.sent_to(0)), Reply(1, states[1]), Reply("late", states[2])])
    assert "plain average" not in told.status
    assert told.left_out == ()
