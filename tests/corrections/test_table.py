"""A correction is a row: whatever chooses among them reads its columns."""

import pytest
import torch
from torch import nn

import transfuse
from transfuse.corrections import AUTO, CORRECTIONS, NONE, Correction, candidates
from transfuse.errors import InputError

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))


def network(seed, *, norm=False):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6) if norm else nn.Identity(), nn.Tanh(), nn.Linear(6, 3))


def spoil(task):
    """Add 1 to every output."""
    task.write({"3.bias": task.state["3.bias"] + 1})


@pytest.fixture
def row(monkeypatch):
    """Puts a row into the table."""

    def put(**columns):
        monkeypatch.setitem(CORRECTIONS, "spoil", Correction("adds 1 to every output", "nowhere", spoil, **columns))

    return put


def test_a_new_row_is_found_by_its_name_everywhere(row):
    row(for_synthetic=True)
    models = [network(0), network(1)]
    plain = transfuse.fuse(models, X[:3], correct=NONE)
    for fusion in (
        transfuse.fuse(models, X[:3], correct="spoil"),
        transfuse.fuse(models, X[:3], data=X, terms="weights", correct="spoil"),
    ):
        assert fusion.correction.method == "spoil"
        torch.testing.assert_close(fusion.model(X), plain.model(X) + 1)
    corrected = transfuse.correct(plain.model, X, plain.aligned, method="spoil")
    torch.testing.assert_close(corrected(X), plain.model(X) + 1)


def test_auto_tries_it_where_its_columns_allow(row):
    row()
    assert "spoil" in candidates(network(0))
    assert "spoil" not in candidates(network(0), data=False)
    row(for_synthetic=True, needs_batch_norm=True)
    assert "spoil" not in candidates(network(0))
    assert "spoil" in candidates(network(0, norm=True), data=False)
    chosen = transfuse.correct(network(0, norm=True), X, [network(0, norm=True)], method=AUTO)
    assert "spoil" in chosen.correction.disagreement


def test_what_it_needs_is_asked_for(row):
    row(needs_batch_norm=True, needs_parents=False)
    with pytest.raises(InputError, match="spoil needs batch norms with running statistics, and the model has no batch"):
        transfuse.correct(network(0), X, method="spoil")
    with pytest.raises(InputError, match="correct is 'spoil', but the models have no batch norm"):
        transfuse.fuse([network(0), network(1)], X[:3], correct="spoil")
    row(needs_parents=True)
    with pytest.raises(InputError, match="spoil needs the networks that were fused"):
        transfuse.correct(network(0), X, method="spoil")


@pytest.mark.parametrize("carries", [False, True])
def test_it_is_made_where_units_were_merged_if_it_carries(row, carries):
    row(carries=carries, for_synthetic=True)
    layout = transfuse.trace(network(0), X[:3])
    target = {layout.spaces[0].name: 4}
    fusion = transfuse.fuse([network(0)], X[:3], layout=layout, target=target, data=X, correct="spoil")
    assert fusion.correction.method == ("spoil" if carries else NONE)
    assert ("units were merged" in fusion.correction.note) != carries
