"""Federations in a plain loop: shares are shares, and what the rows of the table say is what is done."""

import pytest
import torch
from experiments.data import Examples, load
from experiments.federated import SETTINGS
from experiments.profiles import PROFILES
from experiments.records import Clients, Training
from experiments.rounds import Client, clients_of
from experiments.skills import dealt

LABELS = torch.arange(1000) % 10


@pytest.mark.parametrize("shares", ["iid", "dirichlet", "disjoint"])
@pytest.mark.parametrize("count", [4, 16])
def test_every_example_falls_to_one_client(shares, count):
    parts = dealt(LABELS, Clients(count, shares, same_start=True), 0)
    assert len(parts) == count
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(1000))
    other = dealt(LABELS, Clients(count, shares, same_start=True), 1)
    assert shares == "disjoint" or any(not torch.equal(a, b) for a, b in zip(parts, other, strict=True))


def test_disjoint_clients_have_few_classes():
    classes = [set(LABELS[rows].tolist()) for rows in dealt(LABELS, Clients(5, "disjoint", same_start=True), 0)]
    assert [len(each) for each in classes] == [2] * 5
    assert set.union(*classes) == set(range(10))


def client():
    examples = Examples(torch.randn(64, 64, generator=torch.Generator().manual_seed(0)), LABELS[:64])
    return Client(0, PROFILES["smoke"].settings["federated-mlp"], examples, seed=3)


def distance(one, state):
    return sum(float((tensor - state[name]).square().sum()) for name, tensor in one.state_dict().items())


def test_training_is_the_same_again_and_leaves_what_it_began_with():
    own = client()
    state = own.start.state_dict()
    before = {name: tensor.clone() for name, tensor in state.items()}
    training = Training("sgd", 0.1, epochs=2, batch=16, momentum=0.0)
    one, other = (own.trained(state, 1, training, 0.0).state_dict() for _ in range(2))
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    torch.testing.assert_close(dict(state), before, rtol=0, atol=0)
    assert any(not torch.equal(one[name], tensor) for name, tensor in before.items())


def test_fedprox_stays_nearer_to_where_it_began():
    own = client()
    state = own.start.state_dict()
    training = Training("sgd", 0.1, epochs=3, batch=16, momentum=0.0)
    free, held = (distance(own.trained(state, 1, training, mu), state) for mu in (0.0, 1.0))
    assert 0 < held < 0.9 * free


def test_settings_go_round_among_clients_of_several_widths():
    settings = [PROFILES["smoke"].settings[name] for name in SETTINGS if name.startswith("federated-mlp")]
    members = clients_of(Clients(6, "iid", same_start=False), settings, load(settings[0].data), 0)
    assert [member.setting for member in members] == settings * 2
