"""Mistakes that people make, and the answer that each of them gets."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import transfuse
from transfuse import InputError, LayoutError

X, Y = torch.randn(4, 6), torch.randint(0, 3, (4,))


def network(classes=3, layer=None):
    return nn.Sequential(nn.Linear(6, 5), layer or nn.Identity(), nn.ReLU(), nn.Linear(5, classes))


def test_a_batch_with_labels_is_told_to_come_without_them():
    for batch in ((X, Y), next(iter(DataLoader(TensorDataset(X, Y), 2)))):
        with pytest.raises(InputError, match=r"pass the inputs alone: example_inputs\[0\]"):
            transfuse.fuse([network(), network()], batch)
    with pytest.raises(InputError, match=r"is DataLoader; .* next\(iter\(loader\)\)\[0\]"):
        transfuse.fuse([network(), network()], DataLoader(TensorDataset(X, Y)))


@pytest.mark.parametrize("models", [[network().state_dict()] * 2, [network(), dict(network().state_dict())],
                                    network().state_dict()])  # fmt: skip
def test_states_are_sent_to_fuse_states(models):
    with pytest.raises(InputError, match=r"transfuse\.fuse_states\(\[a, b\], layout\)"):
        transfuse.fuse(models, X)


def test_other_numbers_of_classes_are_called_so():
    with pytest.raises(LayoutError, match=r"The models have 3, 5 outputs \(classes; see 3\.weight\)"):
        transfuse.fuse([network(3), network(5)], X)


def test_other_differences_are_not_taken_for_classes():
    other = nn.Sequential(nn.Linear(7, 5), nn.Identity(), nn.ReLU(), nn.Linear(5, 3))
    with pytest.raises(LayoutError, match="axis 1 has length 7") as told:
        transfuse.fuse([network(3), other], X)
    assert "classes" not in str(told.value)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(5), nn.Dropout(0.5)])
def test_training_mode_is_told_where_it_matters(layer):
    told = "model 1 is in training mode"
    models = [network(layer=layer) for _ in range(2)]
    assert told in str(transfuse.fuse([each.train() for each in models], X, method="vanilla"))
    assert told not in str(transfuse.fuse([each.eval() for each in models], X, method="vanilla"))
    assert told not in str(transfuse.fuse([network(), network()], X, method="vanilla"))
