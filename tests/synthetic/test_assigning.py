"""Which class is for which network: found by what networks come to see, and told."""

import pytest
import torch
from torch import nn

import transfuse
from transfuse.modules import Arguments
from transfuse.synthetic import SyntheticInputs, drawn_inputs, inverted_inputs
from transfuse.synthetic.assigning import ANOTHERS, TOGETHER, Assigned

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
    return inverted_inputs(models, drawn_inputs(models, Arguments.of(X), samples=120))


def test_networks_are_asked_for_the_classes_that_they_know():
    first, second = knowing(0, 0, 1, 2), knowing(1, 2, 3, 4, 5)
    assert inverted([first, second]).assigned.own == ((0, 1, 2), (2, 3, 4, 5))
    assert inverted([second, first]).assigned.own == ((2, 3, 4, 5), (0, 1, 2))


def test_in_turn_each_network_sees_its_own_classes():
    models = [knowing(0, 0, 1, 2), knowing(1, 3, 4, 5)]
    found = inverted(models)
    for number, model in enumerate(models):
        seen = torch.cat([batch.run(model).argmax(1) for batch in found.batches])
        wanted = found.assigned.classes(number, torch.arange(len(seen)), CLASSES)
        mine = wanted != ANOTHERS
        assert mine.sum() == len(seen) // 2
        assert wanted[mine].unique().tolist() == list(found.assigned.own[number])
        assert float((seen == wanted)[mine].float().mean()) > 0.9


@pytest.mark.parametrize("known", [range(CLASSES), (1, 4)], ids=["all", "the same two"])
def test_networks_that_know_the_same_are_asked_together(known):
    assert inverted([knowing(0, *known), knowing(1, *known)]).assigned is TOGETHER


def test_one_network_is_asked_for_all_its_classes():
    assert inverted([knowing(0, 1, 2)]).assigned is TOGETHER


def test_classes_are_dealt_sample_by_sample():
    samples = torch.arange(12)
    for own in ((), ((), ()), ((0, 4), (1,), (2, 3, 5))):
        asked = torch.stack([Assigned(own).classes(n, samples, CLASSES) for n in range(len(own) or 2)])
        assert ((asked != ANOTHERS).sum(0) == (1 if own else 2)).all()
    assert Assigned().classes(1, samples, CLASSES).tolist() == [0, 1, 2, 3, 4, 5] * 2
    assert Assigned(((), ())).classes(1, samples, CLASSES)[1::2].tolist() == [0, 1, 2, 3, 4, 5]


def test_which_classes_are_shown_to_which_model_is_told():
    models = [knowing(0, 0, 1, 2), knowing(1, 0, 3, 4, 5)]
    told = "noise, inverted for one model at a time, since they know different classes: "
    told += "model 1 knows 0-2, model 2 knows 0, 3-5"
    assert SyntheticInputs.of(models, Arguments.of(X), plain=False, data=False, seed=0).chosen == told
    assert told in transfuse.fuse(models, X, correct="refit").correction.note
    assert (str(TOGETHER), str(Assigned(((), ())))) == ("", "")
    many = Assigned((tuple(range(0, 40, 2)), ()))
    assert str(many).endswith("model 1 knows 0, 2, 4, 6, 8, 10, ..., model 2 knows none of them")
