"""The report of a fusion: what it measures, what it tells, and how it behaves in a browser."""

import copy
import functools
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
import torch
from jinja2 import UndefinedError
from torch import nn

import transfuse
from browser import MISSING, console_errors, open_page, point_at, window
from transfuse import InputError
from transfuse.report import Request, gather, page, render

browser = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] * X[:, 1] > 0).long()


def net(*widths, seed, norm=False):
    torch.manual_seed(seed)
    parts = []
    for a, b in pairwise(widths):
        parts += [nn.Linear(a, b), *([nn.BatchNorm1d(b)] if norm else []), nn.Tanh()]
    return nn.Sequential(*parts[: -2 if norm else -1])


def evaluate(model):
    return transfuse.evaluator([(X[:40], Y[:40]), (X[40:], Y[40:])])(model)


@functools.cache
def fused(count=2, method="rebasin"):  # which ends without a correction
    return transfuse.fuse([net(4, 9, 7, 2, seed=seed) for seed in range(count)], X, method=method)


@functools.cache
def small_report():
    return gather(fused(), Request(evaluate, points=5, grid=5), "A <small> one & only")


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


class Balance(HTMLParser):
    """Every element is closed where it should be."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        pass


def test_the_page_is_whole_needs_no_network_and_names_what_was_fused():
    text = page(small_report())
    checker = Balance()
    checker.feed(text)
    assert checker.open == []
    outside = re.sub(r'href="data:image/png;base64,[A-Za-z0-9+/=]*"', "", text)  # images are in the page itself
    assert outside != text
    assert not re.search(r"(src|href|url|@import|https?:)\s*[=(/]", outside)
    assert "A &lt;small&gt; one &amp; only" in text
    for part in ("0.out", "is returned by the model", "seed=0", "torch 2", "converged", "midpoint", "model 2 aligned"):
        assert part in text


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
    assert text.count("<script") == 1
    assert text.count("&lt;script&gt;") > 10


def test_a_template_that_lacks_a_value_is_an_error():
    with pytest.raises(UndefinedError, match="'report' is undefined"):
        render("report.html", title="a title alone")


def test_a_report_is_one_file(tmp_path):
    path = fused().report(tmp_path / "report.html", evaluate, points=2, grid=2, cache=tmp_path / "cache.jsonl")
    assert path == tmp_path / "report.html"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cache.jsonl", "report.html"]
    with pytest.raises(InputError, match="does not exist"):
        fused().report(tmp_path / "nowhere" / "report.html", lambda _: pytest.fail("measured in vain"))


@browser
@pytest.mark.parametrize(("width", "dark"), [(390, False), pytest.param(1280, True, marks=pytest.mark.long)])
def test_a_browser_shows_it_without_errors_and_without_scrolling_sideways(tmp_path, width, dark):
    path = tmp_path / "report.html"
    path.write_text(page(small_report()), "utf-8")
    with window(width, dark=dark) as opened:
        open_page(opened, path)
        assert opened.execute_script("return innerWidth") == width
        assert opened.execute_script("return document.documentElement.scrollWidth") <= width
        ground, ink = (
            [
                int(part)
                for part in re.findall(r"\d+", opened.execute_script(f"return getComputedStyle(document.body).{name}"))[
                    :3
                ]
            ]
            for name in ("backgroundColor", "color")
        )
        assert (np.mean(ground) < np.mean(ink)) == dark
        script = (
            "const map = document.querySelector('svg.plane'); map.scrollIntoView();"
            "const box = map.querySelectorAll('.cells rect')[7].getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]"
        )
        point_at(opened, *opened.execute_script(script))
        told = opened.execute_script(
            "return document.querySelector('svg.plane').closest('figure').querySelector('output').textContent"
        )
        assert told.startswith("loss ")
        assert told == opened.execute_script(
            "return document.querySelectorAll('.cells rect')[7].querySelector('title').textContent"
        )
        letters = opened.execute_script(
            "return Math.min(...[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height))"
        )
        assert letters >= 10  # pixels: readable on a telephone
        assert console_errors(opened) == []


@browser
@pytest.mark.long  # starts a browser
def test_without_script_everything_is_there(tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page(small_report()), "utf-8")
    with window(390, script=False) as opened:
        open_page(opened, path)
        text = opened.find_element("css selector", "body").text
        for part in ("Results", "Barriers", "Plane", "fused", "ensemble"):
            assert part in text
        assert len(opened.print_page()) > 1000
