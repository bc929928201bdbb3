"""Parents that know different things see what their skills say, and a fine-tuned one goes on from where it should."""

from dataclasses import replace

import pytest
import torch
from experiments.data import load
from experiments.different import CELLS, CONDITIONS, KINDS, SETTINGS
from experiments.profiles import PROFILES
from experiments.records import Classes, Dirichlet, OwnClasses, Skill
from experiments.skills import seen
from experiments.training import Place, base_network, kept_at, train

LABELS = torch.randint(0, 10, (5000,), generator=torch.Generator().manual_seed(0))
SMOKE = PROFILES["smoke"].settings


def both(condition, seed=0, kind="mnist-mlpnet"):
    """What the two parents of a pair see, as numbers of examples."""
    settings = [SETTINGS[f"{kind}-{condition}-{which}"] for which in "ab"]
    return [seen(LABELS, each.seen_by(seed + n).skill) for n, each in enumerate(settings)]


@pytest.mark.parametrize("condition", ["halves", "dirichlet", "common", "own"])
def test_two_parents_share_no_example_and_leave_none_out(condition):
    one, other = both(condition)
    assert torch.equal(torch.cat([one, other]).sort().values, torch.arange(len(LABELS)))


def test_halves_of_the_classes_are_disjoint():
    one, other = (set(LABELS[rows].tolist()) for rows in both("halves"))
    assert (one, other) == (set(range(5)), set(range(5, 10)))


def test_a_network_with_outputs_for_some_classes_learns_these_by_its_own_numbers():
    data = SMOKE["mnist-mlpnet-joined-b"].data
    own, whole = load(data), load(replace(data, skill=None))
    assert data.skill == OwnClasses((5, 6, 7, 8, 9))
    kept = whole.train.labels >= 5
    assert torch.equal(own.train.labels, whole.train.labels[kept] - 5)
    assert torch.equal(own.train.inputs, whole.train.inputs[kept])
    assert torch.equal(own.test.labels, whole.test.labels)


def test_one_class_is_known_to_the_first_parent_only():
    one, other = both("one")
    assert set(LABELS[one].tolist()) - set(LABELS[other].tolist()) == {4}
    assert not set(one.tolist()) & set(other.tolist())


def test_shares_are_uneven_and_every_pair_has_its_own():
    first, second = both("dirichlet", seed=0), both("dirichlet", seed=2)
    assert not torch.equal(first[0], second[0])
    assert torch.equal(torch.cat(second).sort().values, torch.arange(len(LABELS)))
    shares = [(LABELS[first[0]] == number).sum() / (number == LABELS).sum() for number in range(10)]
    assert sum(share < 0.2 or share > 0.8 for share in shares) >= 4  # 65 % of draws from Beta(0.3, 0.3)


def test_large_concentrations_share_out_evenly():
    rows = seen(LABELS, Dirichlet(1e6, 1, parts=4))
    assert len(rows) == pytest.approx(len(LABELS) / 4, rel=0.02)


def test_validation_and_test_examples_stay_whole():
    whole = load(SMOKE["mnist-mlpnet-different"].data)
    for skill in (Classes((1,)), Skill(4, True, 0.5), Dirichlet(0.3, 0)):
        own = load(replace(SMOKE["mnist-mlpnet-different"].data, skill=skill))
        assert own.test is whole.test
        assert own.validation is whole.validation
        assert len(own.train) < len(whole.train)


@pytest.mark.parametrize(("condition", "shared"), [("common", True), ("own", False)])
def test_a_fine_tuned_network_goes_on_from_its_start(tmp_path, condition, shared):
    place, states = Place(tmp_path), []
    for seed in (0, 1):
        setting = SMOKE[f"mnist-mlpnet-{condition}-{'ab'[seed]}"]
        untouched = replace(setting, training=replace(setting.training, epochs=0))
        states.append(base_network("x", untouched, seed, place).model.state_dict())
    start = base_network("x", SMOKE["mnist-mlpnet-different"], 0, place).model.state_dict()
    assert all(torch.equal(states[0][name], start[name]) for name in start)
    assert all(torch.equal(states[0][name], states[1][name]) for name in start) is shared


def test_networks_of_different_starts_are_kept_apart(tmp_path):
    names = {kept_at(SMOKE[f"mnist-mlpnet-{each}-a"], 0, tmp_path) for each in ("halves", "common", "own")}
    assert len(names) == 3


def test_every_pair_of_shares_can_be_trained(tmp_path):
    for which in "ab":
        settings = SMOKE[f"mnist-mlpnet-dirichlet-{which}"]
        train(settings, 0, Place(tmp_path))
        assert kept_at(settings, 0, tmp_path).exists()


def test_every_network_and_condition_has_a_cell_of_both_widths():
    titles = {cell.title for cell in CELLS}
    expected = {f"{kind.title}, {condition}" for kind in KINDS.values() for condition in CONDITIONS}
    assert titles == expected | {f"{title}, 1.5 wide" for title in expected}
