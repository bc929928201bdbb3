"""Comparisons: what is in the table is what one measures by hand; runs go on; mistakes are refused before the work."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import transfuse
from transfuse import InputError, compare
from transfuse.activations import Batches
from transfuse.comparison import cells, keeping, running
from transfuse.corrections import nearest_control
from transfuse.modules import Ensemble

X = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(60) % 3
EVALUATE = transfuse.evaluator([(X, Y)])


def network(seed, width=6):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 3))


@pytest.fixture(autouse=True)
def without_figures(monkeypatch):
    monkeypatch.setattr(keeping, "find_spec", lambda name: None)  # they take most of the time; see test_records


PAIRS = {"one": [network(0), network(1)], "two": [network(2), network(3)]}
METHODS = ["vanilla", "ot"]


@pytest.fixture(scope="module")
def found():
    return compare(PAIRS, X[:2], EVALUATE, methods=METHODS, data=X, points=3, planes=2)


def line(comparison, group, row):
    return next(each for each in comparison.lines if (each.group, each.row) == (group, row))


def test_every_cell_is_what_one_measures_by_hand(found):
    for group, (a, b) in PAIRS.items():
        fusion = transfuse.fuse([a, b], X[:2], method="ot", data=X)
        assert line(found, group, "ot").values == EVALUATE(fusion.model)
        assert line(found, group, "vanilla").values == EVALUATE(transfuse.fuse([a, b], X[:2], method="vanilla").model)
        assert line(found, group, "ensemble").values == EVALUATE(Ensemble([a, b]))
        kept = nearest_control([a, b], [0.5, 0.5], Batches.of(X)).model
        assert line(found, group, "one model, last layer refitted").values == EVALUATE(kept)
        assert line(found, group, "better model").values == min(EVALUATE(a), EVALUATE(b), key=lambda own: own["loss"])
        trained = transfuse.barrier(a, b, EVALUATE, points=3)
        assert line(found, group, "models as trained (mean)").barrier.height() == trained.height()
        aligned = transfuse.barrier(*fusion.aligned, EVALUATE, points=3)
        np.testing.assert_allclose(line(found, group, "ot").barrier.of(), aligned.of(), rtol=1e-5)


def test_there_is_no_table_without_its_controls(found):
    controls = [row[0] for row in found.table().rows if row[0] not in METHODS]
    assert controls == ["models as trained (mean)", "better model", "one model, last layer refitted", "ensemble"]
    bare = compare(PAIRS, X[:2], EVALUATE, methods=["vanilla"], points=3)
    assert [row[0] for row in bare.table().rows] == [controls[0], controls[1], "vanilla", "ensemble"]
    assert "last layer refitted" in bare.notes[0]


def test_barriers_are_those_before_and_after_and_planes_are_of_the_first_group(found):
    assert {name: len(own) for name, own in found.barriers.items()} == {"as trained": 2, "ot": 2}
    assert set(found.planes) == {"ot"}
    assert line(found, "two", "ot").plane is None


def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    made = []
    true_fuse = cells.fuse

    def fuse(*args, **kwargs):
        made.append(kwargs["method"])
        if len(made) == 3:
            raise KeyboardInterrupt
        return true_fuse(*args, **kwargs)

    monkeypatch.setattr(cells, "fuse", fuse)
    how = {"methods": METHODS, "points": 3, "folder": tmp_path / "out"}
    with pytest.raises(KeyboardInterrupt):
        compare(PAIRS, X[:2], EVALUATE, **how)
    assert made == ["vanilla", "ot", "vanilla"]
    whole = compare(PAIRS, X[:2], EVALUATE, **how)
    assert made[3:] == ["vanilla", "ot"]  # of the second group: the first one is known
    monkeypatch.undo()
    fresh = compare(PAIRS, X[:2], EVALUATE, methods=METHODS, points=3)
    assert [each.values for each in whole.lines] == [each.values for each in fresh.lines]
    again = compare(PAIRS, X[:2], EVALUATE, **how)
    assert again.table() == whole.table()


@pytest.mark.parametrize("change", [{"seed": 1}, {"points": 5}, {"data": X}, {"methods": {"ot": {"epsilon": 0.5}}}])
def test_what_a_line_depends_on_is_in_its_key(change):
    def keys(**given):
        how = {"methods": ["ot"], "points": 3, "data": None, "seed": 0, **given}
        rows = running.checked_rows(how["methods"], data=how["data"] is not None)
        groups = running.checked_groups({"one": PAIRS["one"]})
        asked = running.Asked(groups, rows, X, EVALUATE, how["data"], how["points"], 0, how["seed"], 0)
        return {asked.key("one", row.name, row.arguments, plane=False) for row in rows}

    assert keys() == keys()
    assert keys() != keys(**change)


def test_another_evaluate_is_noticed(tmp_path):
    how = {"methods": ["vanilla"], "points": 3, "folder": tmp_path / "out"}
    compare(PAIRS, X[:2], EVALUATE, **how)
    with pytest.raises(InputError, match="was filled by another evaluate"):
        compare(PAIRS, X[:2], transfuse.evaluator([(X, (Y + 1) % 3)]), **how)


def test_rows_have_names_and_arguments_of_their_own():
    rows = {"plain": {"method": "vanilla"}, "wide": {"method": "vanilla", "target": 2.0}}
    found = compare([PAIRS["one"]], X[:2], EVALUATE, methods=rows, points=3)
    small, large = (line(found, "group 1", name).parameters for name in rows)
    assert large > 1.5 * small


def test_networks_of_other_widths_have_no_barrier_as_trained():
    found = compare([[network(0, 12), network(1)]], X[:2], EVALUATE, methods=["ot"], points=3)
    assert line(found, "group 1", "models as trained (mean)").barrier is None
    assert found.table().rows[0][3] == "-"


def test_the_better_model_is_the_one_with_more_accuracy():
    def accuracy(model):
        with torch.no_grad():
            return {"accuracy": float(model(X).sum())}

    found = compare([PAIRS["one"]], X[:2], accuracy, methods=["vanilla"], points=3)
    best = max(accuracy(model)["accuracy"] for model in PAIRS["one"])
    assert line(found, "group 1", "better model").values["accuracy"] == pytest.approx(best)


def test_networks_with_batch_norm_are_told_of():
    nets = [nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)) for _ in range(2)]
    with pytest.warns(transfuse.StatisticsWarning):
        found = compare([nets], X[:2], EVALUATE, methods=["vanilla"], points=3)
    assert any("batch norm" in note for note in found.notes)


def test_progress_tells_every_cell():
    seen = []
    compare(PAIRS, X[:2], EVALUATE, methods=["vanilla"], points=3, progress=lambda *told: seen.append(told))
    assert seen[0] == ("one, models as trained (mean)", 1, 8)
    assert seen[-1] == ("two, ensemble", 8, 8)


WRONG = {
    "no groups": (lambda: compare([], X, EVALUATE), "expected groups of networks"),
    "networks": (lambda: compare([network(0), network(1)], X, EVALUATE), "holds networks themselves"),
    "one alone": (lambda: compare([[network(0)]], X, EVALUATE), "group 1: one network alone"),
    "no method": (lambda: compare(PAIRS, X, EVALUATE, methods=["otf"]), "no method is called 'otf'"),
    "no option": (lambda: compare(PAIRS, X, EVALUATE, methods={"a": {"method": "ot", "x": 1}}), "no option is called"),
    "no data": (lambda: compare(PAIRS, X, EVALUATE, methods=["activation"]), "pass inputs without labels"),
    "none": (lambda: compare(PAIRS, X, EVALUATE, methods=[]), "there are none"),
    "evaluate": (lambda: compare(PAIRS, X, 3), "expected a function"),
    "points": (lambda: compare(PAIRS, X, EVALUATE, points=1), "points is 1"),
}


@pytest.mark.parametrize(("act", "text"), WRONG.values(), ids=WRONG)
def test_mistakes_are_refused_before_any_work(act, text, monkeypatch):
    monkeypatch.setattr(cells, "fuse", None)
    monkeypatch.setattr(cells, "value_at", None)
    with pytest.raises(InputError, match=text):
        act()


def test_the_making_tells_hashes_seed_versions_and_the_call(found):
    making = json.loads(json.dumps(found.making))
    assert len({each for group in making["groups"].values() for each in group}) == 4
    assert making["seed"] == 0
    public = [each.partition("+")[0] for each in (making["versions"]["torch"], torch.__version__)]
    assert public[0] == public[1]  # metadata of a wheel may leave out the build, which torch itself tells
    assert "transfuse.compare(" in making["command"]
    assert len(making["data"]["matching"]) == 64
