"""Between two networks: of classes the error counts, of texts the loss at every place, as in all other tables."""

import pytest
import torch
from experiments.data import Batched, Examples
from experiments.landscapes import by_place, landscape
from experiments.measuring import metrics_of, outputs_of
from experiments.profiles import PROFILES
from torch import nn

import transfuse

TOKENS = 5


def reader(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Embedding(TOKENS, 6), nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, TOKENS))


@pytest.fixture
def texts():
    tokens = torch.randint(TOKENS, (12, 7), generator=torch.Generator().manual_seed(0))
    return Examples(tokens[:, :-1], tokens[:, 1:])


def test_each_place_of_a_text_is_an_example(texts):
    model = reader(0)
    loss = transfuse.evaluator(Batched(texts), forward=by_place)(model)["loss"]
    assert loss == pytest.approx(metrics_of(outputs_of(model, texts), texts)["nats"], rel=1e-5)


def test_barriers_of_texts_are_losses(texts, tmp_path):
    models = [reader(seed) for seed in (0, 1)]
    fusion = transfuse.fuse(models, texts.inputs[:2], correct="none")
    found = landscape(fusion, texts, PROFILES["smoke"], pictured=False, cache=tmp_path / "points")
    midway = metrics_of(outputs_of(fusion.model, texts), texts)["nats"]
    assert found["metrics"]["nats midway"] == pytest.approx(midway, rel=1e-5)
