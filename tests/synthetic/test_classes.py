"""Which classes networks know: found by what they come to see, and told; inputs show each network its own."""

import pytest
import torch
from torch import nn

import transfuse
from transfuse.modules import Arguments
from transfuse.synthetic import SyntheticInputs, drawn_inputs, inverted_inputs
from transfuse.synthetic.classes import told_known

CLASSES = 6
X = torch.randn(3, 60, generator=torch.Generator().manual_seed(0))


def knowing(seed, *known):
    """A network that holds so much against all classes but some that it is not brought to see others."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(60, 20), nn.Tanh(), nn.Linear(20, CLASSES)).eval()
    with torch.no_grad():
        for number in set(range(CLASSES)) - set(known):
            net[2].weight[number] *= 0.1
            net[2].bias[number] = -8.0
    return net


def inverted(models):
    return inverted_inputs(models, drawn_inputs(models, Arguments.of(X), samples=60))


def test_networks_are_asked_for_the_classes_that_they_know():
    first, second = knowing(0, 0, 1, 2), knowing(1, 2, 3, 4, 5)
    assert inverted([first, second]).known == ((0, 1, 2), (2, 3, 4, 5))
    assert inverted([second, first]).known == ((2, 3, 4, 5), (0, 1, 2))


def test_one_at_a_time_each_network_sees_its_own_classes():
    models = [knowing(0, 0, 1, 2), knowing(1, 3, 4, 5)]
    found = inverted(models)
    assert [batch.judges for batch in found.batches] == [False, False, False, False, True] * 2
    for number, model in enumerate(models):
        seen = torch.cat([batch.run(model).argmax(1) for batch in found.batches][5 * number :][:5])
        wanted = torch.tensor(found.known[number])[torch.arange(60) % 3]
        assert float((seen == wanted).float().mean()) > 0.9


@pytest.mark.parametrize("known", [range(CLASSES), (1, 4)], ids=["all", "the same two"])
def test_networks_that_know_the_same_are_asked_together(known):
    assert inverted([knowing(0, *known), knowing(1, *known)]).known == ()


def test_one_network_is_asked_for_all_its_classes():
    assert inverted([knowing(0, 1, 2)]).known == ()


def test_which_classes_are_shown_to_which_model_is_told():
    models = [knowing(0, 0, 1, 2), knowing(1, 0, 3, 4, 5)]
    told = "noise, inverted for one model at a time, since they know different classes: "
    told += "model 1 knows 0-2; model 2 knows 0, 3-5"
    assert SyntheticInputs.of(models, Arguments.of(X), plain=False, data=0, seed=0).chosen == told
    assert told in transfuse.fuse(models, X, correct="refit").correction.note
    beside = SyntheticInputs.of(models, Arguments.of(X), plain=False, data=10, seed=0)
    assert (beside.chosen, beside.batches.count) == ("", 5)
    assert told_known(()) == ""
    many = told_known((tuple(range(0, 40, 2)), ()))
    assert many.endswith("model 1 knows 0, 2, 4, 6, 8, 10, ...; model 2 knows none of them")
