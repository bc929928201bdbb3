"""Means over data: the same however it is cut into batches."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from transfuse import InputError, evaluator

X = torch.randn(23, 5, generator=torch.Generator().manual_seed(0))
Y = torch.randint(3, (23,), generator=torch.Generator().manual_seed(1))


def net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))


@given(st.integers(1, 30), st.booleans())
def test_a_short_last_batch_weighs_what_it_holds(size, keep):
    model = net()
    loader = DataLoader(TensorDataset(X, Y), batch_size=size)
    found = evaluator(loader, keep=keep)(model)
    with torch.no_grad():
        outputs = model.eval()(X)
    assert found["loss"] == pytest.approx(float(nn.functional.cross_entropy(outputs, Y)), rel=1e-5)
    assert found["error"] == pytest.approx(100 * float((outputs.argmax(1) != Y).float().mean()))


def test_targets_that_do_not_count_are_left_out():
    targets = torch.where(torch.arange(23) < 7, Y, -100)
    assert evaluator([(X, targets)])(net()) == pytest.approx(evaluator([(X[:7], Y[:7])])(net()))


def test_modes_of_the_model_stay():
    model = net().train()
    model[1].eval()
    evaluator([(X, Y)])(model)
    assert [part.training for part in model] == [True, False, True, True]
    assert model[1].num_batches_tracked == 0


def test_other_batches_and_other_scores():
    def scores(outputs, targets):
        return {"distance": (outputs - targets).square().sum(1)}

    model = nn.Linear(5, 2)
    pair = evaluator([((X,), X[:, :2])], scores=scores)(model)
    keywords = evaluator([({"input": X}, X[:, :2])], scores=scores)(model)
    odd = evaluator([X], scores=scores, forward=lambda model, batch: (model(batch), batch[:, :2]))(model)
    assert pair == keywords == odd


BAD = {
    "no batch": (lambda: evaluator([]), "gave no batch"),
    "no pair": (lambda: evaluator([X])(net()), r"expected a pair"),
    "nothing counts": (lambda: evaluator([(X, torch.full((23,), -100))])(net()), "no target that counts"),
    "read once": (lambda: evaluator(iter([(X, Y)]), keep=False), "once only"),
}


@pytest.mark.parametrize(("act", "text"), BAD.values(), ids=BAD)
def test_what_cannot_be_evaluated_is_refused(act, text):
    with pytest.raises(InputError, match=text):
        act()
