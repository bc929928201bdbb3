"""The ensemble: the mean of probabilities of class scores, the mean of outputs of everything else."""

import pytest
import torch
from torch import nn

from transfuse import evaluator
from transfuse.modules import Ensemble

X = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
Y = torch.arange(7) % 3


def networks(outputs):
    torch.manual_seed(1)
    return [nn.Linear(5, outputs) for _ in range(3)]


def test_class_scores_are_the_logarithm_of_the_mean_probabilities():
    members, weights = networks(3), [0.5, 0.3, 0.2]
    with torch.no_grad():
        found = Ensemble(members, weights)(X)
        expected = sum(weight * member(X).softmax(1) for member, weight in zip(members, weights, strict=True))
    torch.testing.assert_close(found.exp(), expected)


def test_an_evaluator_measures_the_mean_probabilities():
    members = networks(3)
    with torch.no_grad():
        shares = sum(member(X).softmax(1) for member in members) / 3
    values = evaluator([(X, Y)])(Ensemble(members))
    assert values["loss"] == pytest.approx(float(nn.functional.nll_loss(shares.log(), Y)))
    assert values["error"] == pytest.approx(100 * float((shares.argmax(1) != Y).float().mean()))


def test_one_that_is_sure_and_wrong_outvotes_no_more_than_its_share():
    sure, two = nn.Linear(5, 2), [nn.Linear(5, 2) for _ in range(2)]
    for layer, bias in ((sure, [1e4, 0.0]), *((each, [0.0, 2.0]) for each in two)):
        nn.init.zeros_(layer.weight)
        layer.bias.data = torch.tensor(bias)
    assert Ensemble([sure, *two])(X).argmax(1).unique().tolist() == [1]


def test_probabilities_that_vanish_in_float32_stay_in_order():
    layer = nn.Linear(5, 3)
    nn.init.zeros_(layer.weight)
    layer.bias.data = torch.tensor([0.0, -300.0, -200.0])
    assert Ensemble([layer, layer])(X)[0].tolist() == pytest.approx([0.0, -300.0, -200.0])


@pytest.mark.parametrize(("outputs", "classes"), [(1, True), (3, False)])
def test_other_outputs_are_averaged(outputs, classes):
    members = networks(outputs)
    with torch.no_grad():
        expected = sum(member(X) for member in members) / 3
    torch.testing.assert_close(Ensemble(members, classes=classes)(X).detach(), expected)


class Told(nn.Module):
    """Scores, a sequence and something that holds no numbers, by name."""

    def __init__(self):
        super().__init__()
        self.read = nn.Linear(5, 2)

    def forward(self, *, x):
        return {"scores": self.read(x), "sequence": x[:, None], "count": len(x), "places": torch.arange(3)}


def test_outputs_in_containers_are_each_averaged_as_what_they_are():
    members = [Told(), Told()]
    found = Ensemble(members)(x=X)
    torch.testing.assert_close(found["scores"], sum(m(x=X)["scores"].softmax(1) for m in members).div(2).log())
    torch.testing.assert_close(found["sequence"], X[:, None])
    assert found["count"] == 7
    assert found["places"].tolist() == [0, 1, 2]
