"""Answers of networks: what is right, and how like those of the parents and of their ensemble they are."""

import torch
from experiments.data import Examples
from experiments.measuring import accuracy, likeness, mean_of, metrics_of, outputs_of, share_right
from torch import nn

PARENTS = [torch.randn(50, 4, generator=torch.Generator().manual_seed(seed)).double() for seed in (0, 1)]


def test_the_ensemble_is_at_no_distance_from_itself():
    for weights in (None, (0.2, 0.8)):
        own = mean_of([each.softmax(1) for each in PARENTS], weights).log()
        found = likeness(own, PARENTS, weights)
        assert found["distance"] == 0.0
        assert found["ensemble"] == 100.0
        assert found["outputs"] > 0.0


def test_the_mean_of_outputs_is_at_no_distance_from_itself():
    assert likeness(mean_of(PARENTS), PARENTS)["outputs"] == 0.0


def test_a_parent_agrees_with_itself():
    found = likeness(PARENTS[1], PARENTS)
    assert found["parents"][1] == 100.0
    assert found["parents"][0] == likeness(PARENTS[0], PARENTS)["parents"][1]


def test_all_the_weight_on_one_parent_makes_it_the_ensemble():
    assert likeness(PARENTS[0], PARENTS, (1.0, 0.0)) | {"parents": []} == {
        "outputs": 0.0, "distance": 0.0, "ensemble": 100.0, "parents": [],
    }  # fmt: skip


def test_accuracy_is_the_same_from_scores():
    examples = Examples(torch.randn(300, 6), torch.randint(0, 4, (300,)))
    model = nn.Linear(6, 4)
    assert abs(share_right(outputs_of(model, examples), examples) - accuracy(model, examples)) < 1e-9


def test_where_every_place_is_foretold_each_is_an_example():
    examples = Examples(torch.randint(0, 9, (6, 5)), torch.randint(0, 9, (6, 5)).to(torch.uint8))
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))
    scores = outputs_of(model, examples)
    assert scores.shape == (30, 9)
    assert abs(share_right(scores, examples) - accuracy(model, examples)) < 1e-9
    chances = scores.log_softmax(1)[torch.arange(30), examples.labels.flatten().long()]
    assert abs(metrics_of(scores, examples)["nats"] + float(chances.mean())) < 1e-9
