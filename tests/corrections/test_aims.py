"""Aims: evidence where parents are sure and know different things, else the mean; always told, always to be had."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import transfuse
from transfuse.corrections.aims import AIMS, answers, evidence

CENTRES = 4 * torch.eye(6)


def samples(classes, count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.tensor(classes)[torch.randint(len(classes), (count,), generator=generator)]
    return CENTRES[labels] + torch.randn(count, 6, generator=generator), labels


def trained(classes, seed):
    """A classifier of six classes that has seen some of them."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 6))
    x, y = samples(classes, 600, seed)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net


@pytest.fixture(scope="module")
def halves():
    return [trained([0, 1, 2], 0), trained([3, 4, 5], 1)]


X, LABELS = samples(list(range(6)), 500, 7)


def accuracy(model):
    with torch.no_grad():
        return float((model(X).argmax(1) == LABELS).float().mean())


def test_evidence_keeps_order_knows_no_level_and_grows_with_the_scale():
    scores = torch.randn(5, 4, dtype=torch.float64)
    found = evidence(scores, 1.0)
    torch.testing.assert_close(found.sum(1), torch.zeros(5, dtype=torch.float64))
    assert torch.equal(found.argsort(1), scores.argsort(1))
    torch.testing.assert_close(evidence(scores + 3, 1.0), found)
    torch.testing.assert_close(evidence(2 * scores, 2.0), 2 * found)


def test_evidence_of_scores_that_are_small_beside_the_temperature_is_their_distance_to_their_mean():
    scores = torch.randn(5, 4, dtype=torch.float64)
    torch.testing.assert_close(evidence(scores, 1e6), scores - scores.mean(1, keepdim=True), rtol=1e-4, atol=1e-4)


def test_what_is_held_against_a_class_does_not_outweigh_what_another_holds_for_it():
    against, favour = torch.tensor([[3.0, 0.0, -50.0]]), torch.tensor([[-9.0, -8.0, 7.0]])
    assert int((against + favour).argmax()) == 0
    assert int((evidence(against, 3.0) + evidence(favour, 3.0)).argmax()) == 2


def test_reach_is_how_far_scores_are_above_their_mean():
    first, second = torch.tensor([[3.0, -3.0]]), torch.tensor([[0.0, 0.0]])
    found = answers([[[first], [second]]])
    assert found.reach == pytest.approx((3.0**2 / 4) ** 0.5)
    assert answers([[[second], [second]]]).reach == 1.0


@pytest.mark.parametrize("order", [1.0, 1.3, 2.0])
def test_small_scores_keep_their_distances_to_their_mean_whatever_the_order(order):
    scores = torch.randn(5, 4, dtype=torch.float64)
    torch.testing.assert_close(
        evidence(scores, 1e6, order), scores - scores.mean(1, keepdim=True), rtol=1e-4, atol=1e-4
    )


def test_of_order_two_scores_that_are_evidence_already_stay_as_they_are():
    shares = torch.randn(5, 4, dtype=torch.float64).softmax(1)
    scores = 3.0 * (4 * shares - 1)
    torch.testing.assert_close(evidence(scores, 3.0, 2.0), scores)


def test_the_fewer_classes_all_parents_know_the_softer_is_their_evidence_and_the_straighter_is_it_read():
    sure = 20.0 * torch.eye(4)
    same, other = sure.repeat(10, 1), sure[[1, 0, 0, 1]].repeat(10, 1)
    together, apart = answers([[[same], [same]]]), answers([[[same], [other]]])
    assert together.temperature / together.reach == pytest.approx(0.8)
    assert together.order == 1.0
    assert apart.known_to_some == 2
    assert apart.temperature / apart.reach == pytest.approx(1.0)
    assert apart.order == pytest.approx(1.25)


def test_parents_that_know_different_things_are_fused_by_evidence(halves):
    fusion = transfuse.fuse(halves, X[:3], data=X)
    assert fusion.correction.aim == "evidence"
    assert "6 of 6 classes are named by some models only" in str(fusion.correction)
    by_mean = transfuse.fuse(halves, X[:3], data=X, aim="mean")
    assert by_mean.correction.aim == "mean"
    assert "evidence" not in str(by_mean.correction)
    assert accuracy(fusion.model) > 0.9
    assert max(map(accuracy, halves)) < 0.55


def test_one_class_that_one_parent_has_never_seen_is_enough():
    models = [trained(list(range(6)), 0), trained(list(range(5)), 1)]
    fusion = transfuse.fuse(models, X[:3], data=X)
    assert "1 of 6 classes are named by some models only" in str(fusion.correction)
    assert accuracy(fusion.model) > accuracy(transfuse.fuse(models, X[:3], data=X, aim="mean").model)


def test_parents_that_know_the_same_are_fused_by_their_mean():
    models = [trained(list(range(6)), seed) for seed in (0, 1)]
    assert transfuse.fuse(models, X[:3], data=X).correction.aim == "mean"


def test_networks_that_are_not_sure_are_fused_by_their_mean():
    models = [nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5)) for _ in range(2)]
    found = answers([[[model(X).detach()] for model in models]])
    assert found.sure < 0.6
    assert transfuse.fuse(models, X[:3], data=X).correction.aim == "mean"


class Odd(nn.Module):
    """Gives something else than the scores of its last layer."""

    def __init__(self, how):
        super().__init__()
        self.up, self.down, self.how = nn.Linear(6, 8), nn.Linear(8, 3), how

    def forward(self, x):
        scores = self.down(self.up(x).relu())
        return {"softmax": scores.softmax(1), "two": (scores, scores.sum(1)), "one": scores[:, :1]}[self.how]


@pytest.mark.parametrize("how", ["softmax", "two", "one"])
def test_outputs_that_are_no_scores_keep_the_mean(how):
    models = [Odd(how), Odd(how)]
    assert transfuse.fuse(models, X[:3], data=X).correction.aim == "mean"
    with pytest.raises(transfuse.InputError, match="aim is 'evidence', but outputs are no class scores"):
        transfuse.fuse(models, X[:3], data=X, aim="evidence")


def test_an_aim_that_does_not_exist_is_refused(halves):
    with pytest.raises(transfuse.InputError, match="aim is 'best'; expected auto, mean, evidence"):
        transfuse.fuse(halves, X[:3], aim="best")
    fusion = transfuse.fuse(halves, X[:3], correct="none")
    with pytest.raises(transfuse.InputError, match="aim is 'best'; expected auto, mean, evidence"):
        transfuse.correct(fusion.model, X, fusion.aligned, aim="best")
    done = transfuse.correct(fusion.model, X, fusion.aligned, aim="evidence").correction
    assert done.aim == "evidence"
    assert set(AIMS) == {"mean", "evidence"}
