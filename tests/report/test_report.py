"""The report of a fusion: what it measures, and what it tells."""

import copy
from dataclasses import replace

import pytest
import torch
from jinja2 import UndefinedError
from torch import nn

import transfuse
from pages import X, Y, evaluate, fused, net, small_report
from transfuse import InputError
from transfuse.report import Request, gather, page, render


def values_of(report):
    return {row.name: row.values for row in report.results.rows}


def test_the_table_has_the_direct_values():
    fusion, rows = fused(), values_of(small_report())
    assert list(rows) == ["model 1", "model 2", "vanilla (plain average)", "fused", "ensemble (mean of probabilities)"]
    assert rows["model 1"] == evaluate(fusion.parents[0])
    assert rows["model 2"] == evaluate(fusion.parents[1])
    assert rows["fused"] == evaluate(fusion.model)
    assert rows["vanilla (plain average)"] == pytest.approx(evaluate(fused(method="vanilla").model))
    with torch.no_grad():
        shares = sum(parent(X).softmax(1) for parent in fusion.parents) / 2
    expected = float(nn.functional.nll_loss(shares.log(), Y))
    assert rows["ensemble (mean of probabilities)"]["loss"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("evaluate", "count"),
    [
        (transfuse.evaluator([(X, X[:, :2])], scores=lambda a, b: {"distance": (a - b).square().sum(1)}), 2),
        (lambda model: float((model(X) - X[:, :1]).square().mean()), 1),
    ],
    ids=["a measure of one's own", "one number, which is no class"],
)
def test_the_ensemble_of_a_regression_is_the_mean_of_outputs(evaluate, count):
    models = [net(4, 9, count, seed=seed) for seed in range(2)]
    fusion = transfuse.fuse(models, X, method="vanilla")
    rows = values_of(gather(fusion, Request(evaluate, points=2, grid=0)))
    assert list(rows)[-1] == "ensemble (mean of outputs)"
    (found,) = rows["ensemble (mean of outputs)"].values()
    with torch.no_grad():
        squares = (sum(model(X) for model in models) / 2 - X[:, :count]).square().sum(1)
    assert found == pytest.approx(float(squares.mean()), rel=1e-5)


def test_barriers_and_plane_belong_to_the_fusion():
    fusion, report = fused(), small_report()
    assert list(report.results.barriers) == ["as trained", "aligned"]
    middle = report.results.barriers["aligned"].midpoint()
    assert middle == pytest.approx(values_of(report)["fused"]["loss"], rel=1e-5)
    assert report.results.plane["fused"].distance == pytest.approx(0, abs=1e-5)
    assert report.results.plane["model 2"].values == evaluate(fusion.parents[1])


@pytest.mark.parametrize("count", [1, 3, 5])
def test_any_number_of_models(count):
    report = gather(fused(count), Request(evaluate, points=2, grid=2))
    assert len(report.results.barriers) == 2 * min(count - 1, 3)
    assert (report.results.plane is None) == (count == 1)
    assert any("only" in note for note in report.results.notes) == (count == 5)
    assert any(f"the average of {count} models" in note for note in report.results.notes) == (count > 2)
    assert "<h1>" in page(report)
    assert ("the other model</text>" in page(report)) == (count > 2)


def test_what_cannot_be_shown_is_told():
    torch.manual_seed(0)
    wide = transfuse.fuse([net(4, 9, 2, seed=0), net(4, 6, 2, seed=1)], X)
    told = gather(wide, Request(evaluate, points=2, grid=2))
    notes = told.results.notes
    assert told.subject.widths == {"0.out": (9, 9, 6)}
    assert '<td class="n">9, 6</td>' in page(told)
    assert [note.split(":")[0] for note in notes[:2]] == [
        "No plane" if "plane" in note else "No plain average" for note in notes[:2]
    ]
    assert len(notes) >= 2
    assert any(
        "one line" in note for note in gather(fused(method="vanilla"), Request(evaluate, points=2)).results.notes
    )
    nothing = gather(fused(), Request())
    assert nothing.results.notes == ("Nothing was measured: no evaluate was given.",)
    assert "Couplings" in page(nothing)


@pytest.mark.parametrize(("method", "correct"), [("auto", None), ("auto", "none"), ("rebasin", None), ("ot", "refit")])
def test_the_recipe_makes_the_same_network(method, correct):
    models = [net(4, 9, 2, seed=seed) for seed in range(2)]
    fusion = transfuse.fuse(models, X, method=method, correct=correct, weights=[3, 1], seed=4)
    names = {"models": models, "example_inputs": X}
    exec(gather(fusion, Request()).making.recipe.replace("fusion.report", "#"), names)
    for one, other in zip(fusion.model.parameters(), names["fusion"].model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_data_resets_batch_norm_where_networks_were_averaged():
    models = [net(4, 9, 2, seed=seed, norm=True) for seed in range(2)]
    for model in models:
        model.train()(X)
    fusion = transfuse.fuse(models, X)
    before = copy.deepcopy(fusion.model.state_dict())
    rows = values_of(gather(fusion, Request(evaluate, points=2, grid=0, data=[X])))
    assert rows["model 1"] == evaluate(models[0])
    assert rows["fused"] == evaluate(fusion.model)
    assert rows["fused, batch norm reset"] != rows["fused"]
    assert all(torch.equal(before[name], tensor) for name, tensor in fusion.model.state_dict().items())


def test_every_text_is_escaped():
    report = small_report()
    hostile = "<script>alert('&')</script>"
    told = replace(
        report,
        title=hostile,
        subject=replace(report.subject, facts={hostile: hostile}),
        results=replace(
            report.results,
            rows=[replace(row, name=hostile) for row in report.results.rows],
            barriers={hostile: report.results.barriers["aligned"]},
            notes=(hostile,),
        ),
        making=replace(report.making, recipe=hostile, versions={hostile: hostile}, seconds={hostile: 1.0}),
    )
    text = page(told)
    assert text.count("<script") == 1  # the page's own
    assert text.count("&lt;script&gt;") > 10


def test_a_template_that_lacks_a_value_is_an_error():
    with pytest.raises(UndefinedError, match="'report' is undefined"):
        render("report.html", title="a title alone")


def test_a_report_is_one_file(tmp_path):
    path = fused().report(tmp_path / "report.html", evaluate, points=2, grid=2, cache=tmp_path / "cache.jsonl")
    assert path == tmp_path / "report.html"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cache.jsonl", "report.card.png", "report.html"]
    with pytest.raises(InputError, match="does not exist"):
        fused().report(tmp_path / "nowhere" / "report.html", lambda _: pytest.fail("measured in vain"))
